/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tags, and blocks with contents, for tests of tags and of pausing. */
#ifndef TAG_FIXTURE_H
#define TAG_FIXTURE_H

#include <stdint.h>

#include "support/fixture.h"
#include "util/assume.h"

/* Words of a block from one that is compared to the next: sanitizers take long over each. */
#define TAG_STEP (SANITIZED ? 32 : 1)

static inline vpmm_tag tag_get(const char *name, unsigned int flags)
{
	vpmm_tag tag = 0;

	assert_ok(vpmm_tag_open(name, flags, &tag));
	g_assert_cmpuint(tag, !=, 0);
	return tag;
}

static inline struct vpmm_tag_stats tag_stats(struct vpmm_pool *pool, vpmm_tag tag)
{
	struct vpmm_tag_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_tag_stats(pool, tag, &stats));
	return stats;
}

/* Fills memory with words of a seed's own, each TAG_STEP-th of them. */
static inline void tag_fill(void *ptr, size_t size, uint64_t seed)
{
	uint64_t *words = ptr;

	for (size_t i = 0; i < size / sizeof(*words); i += TAG_STEP)
		words[i] = seed ^ i * UINT64_C(0x9e3779b97f4a7c15);
}

static inline bool tag_is_filled(const void *ptr, size_t size, uint64_t seed)
{
	const uint64_t *words = ptr;

	for (size_t i = 0; i < size / sizeof(*words); i += TAG_STEP) {
		if (words[i] != (seed ^ i * UINT64_C(0x9e3779b97f4a7c15)))
			return false;
	}
	return true;
}

/* Allocates under a word, and fills the block. */
static inline void *tag_malloc(struct vpmm_pool *pool, vpmm_tag word, size_t size, uint64_t seed,
			       struct CUstream_st *stream)
{
	vpmm_tag before = vpmm_tag_set(word);
	void *ptr = NULL;

	assert_ok(vpmm_malloc(pool, &ptr, size, stream));
	vpmm_tag_set(before);
	tag_fill(ptr, size, seed);
	return ptr;
}

/**
 * struct tag_worker - a thread that allocates and frees under a tag
 * @pool: the pool
 * @tag: the tag; 0: none
 * @turns: how often it allocates; 0: until @stop
 * @stop: not 0: stop. Another thread pauses the tag meanwhile; NULL: none does
 */
struct tag_worker {
	struct vpmm_pool *pool;
	vpmm_tag tag;
	unsigned int turns;
	gint *stop;
};

/* The function of such a thread. It leaves nothing. */
void *tag_work(void *data);

#endif /* TAG_FIXTURE_H */
