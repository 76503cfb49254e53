/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures of streams of the host backend, with each kind of pool, for tests of what graphs touch. */
#ifndef CAPTURE_FIXTURE_H
#define CAPTURE_FIXTURE_H

#include "support/kinds.h"

/* Begins to capture a stream. Returns the id of the capture. */
static inline uint64_t begin(struct fixture *f, struct CUstream_st *stream)
{
	uint64_t id = 0;

	assert_ok(vpmm_host_capture_begin(stream));
	assert_ok(vpmm_capture_id(f->pool, stream, &id));
	g_assert_cmpuint(id, !=, 0);
	return id;
}

/* Ends it. Returns the graph. */
static inline struct vpmm_host_graph *end(struct CUstream_st *stream)
{
	struct vpmm_host_graph *graph;

	assert_ok(vpmm_host_capture_end(stream, &graph));
	return graph;
}

/* Ends it. Its graph lives as long as the fixture. */
static inline void finish(struct CUstream_st *stream)
{
	fixture_keep_graph(end(stream));
}

#endif /* CAPTURE_FIXTURE_H */
