/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures of a group, for tests of what they leave to each other. */
#ifndef CAPTURE_GROUP_FIXTURE_H
#define CAPTURE_GROUP_FIXTURE_H

#include "host/capture-fixture.h"

#define GROUP 7

/* Begins to capture a stream for a group. Returns the id of the capture. */
static inline uint64_t begin_in(struct fixture *f, struct CUstream_st *stream, uint64_t group)
{
	uint64_t id = begin(f, stream);

	assert_ok(vpmm_capture_group(f->pool, id, group));
	return id;
}

/* Retires a graph by the id of its capture, after the work of a stream. */
static inline void retire(struct fixture *f, uint64_t id, struct CUstream_st *stream)
{
	assert_ok(vpmm_graph_retire(f->pool, id, stream));
	assert_ok(vpmm_pool_check(f->pool));
}

/* A graph of GROUP that has freed the one block it allocated, on the first stream. Returns the id of its capture. */
static inline uint64_t capture_scratch(struct fixture *f, size_t size, char **ptr)
{
	uint64_t id = begin_in(f, f->streams[0], GROUP);

	*ptr = fixture_malloc_bytes(f, size, f->streams[0]);
	fixture_free(f, *ptr, f->streams[0]);
	finish(f->streams[0]);
	return id;
}

/* A graph of GROUP that has not freed it. Returns the block. */
static inline char *capture_result(struct fixture *f, size_t size)
{
	char *ptr;

	begin_in(f, f->streams[0], GROUP);
	ptr = fixture_malloc_bytes(f, size, f->streams[0]);
	finish(f->streams[0]);
	return ptr;
}

/* Whether a stream that asks for much gets any byte of a range. */
static inline bool reaches(struct fixture *f, const char *ptr, size_t size, struct CUstream_st *stream)
{
	size_t tries = size < PAGE ? 2 * PAGE / 512 : 8;
	bool found = false;
	char *got;

	for (size_t i = 0; i < tries; i++) {
		assert_ok(vpmm_malloc(f->pool, (void **)&got, size, stream));
		found = found || (got < ptr + size && ptr < got + size);
	}
	return found;
}

#endif /* CAPTURE_GROUP_FIXTURE_H */
