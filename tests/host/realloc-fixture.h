/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks that change their size, with contents that work of a stream writes and looks at. */
#ifndef REALLOC_FIXTURE_H
#define REALLOC_FIXTURE_H

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fixture.h"

static inline void *resize(struct fixture *f, void *ptr, size_t size, struct CUstream_st *stream)
{
	assert_ok(vpmm_realloc(f->pool, &ptr, size, stream));
	assert_ok(vpmm_pool_check(f->pool));
	return ptr;
}

static inline uint64_t copies(struct fixture *f)
{
	return backend_fault_calls(f->pool->core.backend, BACKEND_OP_copy);
}

/* A block whose bytes tell where they belong; written and looked at by work of a stream. */
struct text {
	unsigned char *ptr;
	size_t size;
	unsigned char seed;
	bool right;
};

static inline unsigned char letter(const struct text *text, size_t i)
{
	return (unsigned char)(text->seed + i + (i >> 8) * 31 + (i >> 16) * 7);
}

static inline void text_write(void *data)
{
	const struct text *text = data;

	for (size_t i = 0; i < text->size; i++)
		text->ptr[i] = letter(text, i);
}

static inline void text_check(void *data)
{
	struct text *text = data;
	size_t i = 0;

	while (i < text->size && text->ptr[i] == letter(text, i))
		i++;
	text->right = i == text->size;
}

static inline struct text write_on(struct CUstream_st *stream, void *ptr, size_t size, struct text *text)
{
	static unsigned char seed;

	seed += 77;
	*text = (struct text){ .ptr = ptr, .size = size, .seed = seed };
	assert_ok(vpmm_host_stream_launch(stream, text_write, text));
	return *text;
}

/* Has a stream look at the first bytes at an address, which were once written as a text. */
static inline void check_on(struct CUstream_st *stream, void *ptr, size_t size, struct text *text, unsigned char seed)
{
	*text = (struct text){ .ptr = ptr, .size = size, .seed = seed };
	assert_ok(vpmm_host_stream_launch(stream, text_check, text));
}

#endif /* REALLOC_FIXTURE_H */
