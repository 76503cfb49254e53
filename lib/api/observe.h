/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls on blocks that may have a tag, or a sample of VPMM_STACKS. A pool for which api_is_plain() has no such blocks,
 * so that only calls on others, and those that are rare, come here.
 */
#ifndef OBSERVE_H
#define OBSERVE_H

#include <glib.h>

#include "api/api.h"
#include "calls/tags.h"

struct sample;

/* Allocates or resizes on the pool or arena that serves the call; @addr is the block, and receives the new one. */
typedef int (*observed_fn)(void *data, struct vpmm_pool *pool, uint64_t *addr);

/**
 * struct observed - what is known of a block that is about to be freed
 * @sample: its sample; NULL: it has none
 * @tagged: whether it has a tag
 * @tag: the tag, if it has one
 */
struct observed {
	struct sample *sample;
	bool tagged;
	struct tagged tag;
};

/**
 * observed_allocate() - allocate under the tag of the calling thread, if it has one
 * @pool: the pool
 * @addr: receives the block
 * @size: bytes
 * @apart: the block is to be one that no arena has, as other processes can have it
 * @call: the name of the call
 * @fn: allocates
 * @data: passed to it
 *
 * Return: 0, -ENOMEM beyond the limit of the tag, -EBUSY if it is paused, or what @fn returns.
 */
int observed_allocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, bool apart, const char *call,
		      observed_fn fn, void *data) G_GNUC_INTERNAL;

/**
 * observed_reallocate() - resize a block, which keeps its tag
 * @pool: the pool
 * @addr: the block; receives the new one
 * @size: bytes, not 0
 * @fn: resizes
 * @data: passed to it
 *
 * Return: 0, -ENOMEM beyond the limit of the tag, or what @fn returns.
 */
int observed_reallocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, observed_fn fn, void *data)
	G_GNUC_INTERNAL;

/**
 * observed_take() - take the tag and the sample of a block, before it is freed
 * @pool: the pool that the call was given; NULL: the one that has the block
 * @ptr: the block
 * @seen: receives both, for observed_end()
 *
 * Before: once the block is free, another thread may have the address.
 *
 * Return: what serves the block: the arena of its tag, or else @pool.
 */
struct vpmm_pool *observed_take(struct vpmm_pool *pool, const void *ptr, struct observed *seen) G_GNUC_INTERNAL;

/**
 * observed_end() - end what observed_take() has begun
 * @seen: the tag and the sample
 * @there: the block is still allocated
 */
void observed_end(const struct observed *seen, bool there) G_GNUC_INTERNAL;

#endif /* OBSERVE_H */
