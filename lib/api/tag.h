/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocations under tags: which pool or arena serves them, and what is counted. For when api_tagged() says so. */
#ifndef API_TAG_H
#define API_TAG_H

#include <glib.h>

#include "api/api.h"
#include "calls/tags.h"

/* What a call does for the pool or arena that serves it; @addr is the block, and receives the new one. */
typedef int (*tagged_fn)(void *data, struct vpmm_pool *pool, uint64_t *addr);

/**
 * tagged_allocate() - allocate under the tag of the calling thread
 * @pool: the pool; NULL: the default pool of the current device
 * @addr: receives the block
 * @size: bytes, not 0
 * @apart: the block is to be one that no arena has, as other processes can have it
 * @call: the name of the call
 * @fn: allocates
 * @data: passed to it
 *
 * Return: 0, -ENOMEM beyond the limit of the tag, -EBUSY if it is paused, or what @fn returns.
 */
int tagged_allocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, bool apart, const char *call, tagged_fn fn,
		    void *data) G_GNUC_INTERNAL;

/**
 * tagged_reallocate() - resize a block that may have a tag, which it keeps
 * @pool: the pool
 * @addr: the block; receives the new one
 * @size: bytes, not 0
 * @call: the name of the call
 * @fn: resizes
 * @data: passed to it
 *
 * Return: 0, -ENOMEM beyond the limit of the tag, or what @fn returns.
 */
int tagged_reallocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, const char *call, tagged_fn fn, void *data)
	G_GNUC_INTERNAL;

/**
 * tagged_take() - take a block out of the tags of its pool, before it is freed
 * @pool: the pool that the call was given; NULL: the one that has the block
 * @ptr: the block
 * @block: receives the block, for tagged_settle()
 *
 * Before: once the block is free, another thread may have the address.
 *
 * Return: whether it was allocated under a tag.
 */
bool tagged_take(struct vpmm_pool *pool, const void *ptr, struct tagged *block) G_GNUC_INTERNAL;

/**
 * tagged_settle() - end what tagged_take() has begun
 * @block: the block
 * @there: it is still allocated
 */
void tagged_settle(const struct tagged *block, bool there) G_GNUC_INTERNAL;

#endif /* API_TAG_H */
