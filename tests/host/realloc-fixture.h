/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks that change their size, with contents that work of a stream writes and looks at. */
#ifndef REALLOC_FIXTURE_H
#define REALLOC_FIXTURE_H

#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
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

/* A block whose contents tell where they belong; written and looked at by work of a stream. */
struct text {
	char *ptr;
	size_t size;
	unsigned char seed;
	bool right;
};

/* Eight bytes at a time, as some blocks are large and sanitizers slow. The low ones are to tell the seed as well. */
static inline uint64_t text_word(const struct text *text, size_t i)
{
	uint64_t word = ((uint64_t)text->seed << 48 | (i + 1)) * UINT64_C(0x9E3779B97F4A7C15);

	return word ^ word >> 32 ^ word >> 48;
}

static inline void text_write(void *data)
{
	const struct text *text = data;
	size_t rest = text->size % sizeof(uint64_t), words = text->size - rest;
	uint64_t word = text_word(text, words);

	for (size_t i = 0; i < words; i += sizeof(word))
		*(uint64_t *)(text->ptr + i) = text_word(text, i);
	memcpy(text->ptr + words, &word, rest);
}

static inline void text_check(void *data)
{
	struct text *text = data;
	size_t rest = text->size % sizeof(uint64_t), words = text->size - rest, i = 0;
	uint64_t word = text_word(text, words);

	while (i < words && *(uint64_t *)(text->ptr + i) == text_word(text, i))
		i += sizeof(word);
	text->right = i == words && !memcmp(text->ptr + words, &word, rest);
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

/* A block that grows has what it had and nothing of a stranger, and nobody gets anything of it that it loses. */
static inline void assert_scrubbed(struct fixture *f, char *ptr, size_t size)
{
	memset(ptr, FIXTURE_SECRET, size);
	ptr = resize(f, ptr, 6 * PAGE, f->streams[0]);
	g_assert_true(ptr[0] == FIXTURE_SECRET && !memcmp(ptr, ptr + 1, size - 1));
	g_assert_true(fixture_is_clear(ptr + size, 6 * PAGE - size));

	memset(ptr, FIXTURE_SECRET, 6 * PAGE);
	resize(f, ptr, PAGE, f->streams[0]);
	g_assert_true(fixture_is_clear(fixture_malloc(f, 5, f->streams[1]), 5 * PAGE));
}

#endif /* REALLOC_FIXTURE_H */
