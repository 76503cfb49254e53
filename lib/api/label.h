/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The labels of a block: its tag, and its sample of VPMM_STACKS. In a pool for which api_is_plain() no block has one,
 * so that only calls on other pools, and rare ones, come here.
 */
#ifndef LABEL_H
#define LABEL_H

#include <glib.h>

#include "api/api.h"
#include "calls/tags.h"

struct sample;

/* Allocates or resizes on the pool or arena that serves the call; @addr is the block, and receives the new one. */
typedef int (*labels_fn)(void *data, struct vpmm_pool *pool, uint64_t *addr);

/**
 * struct labels - the labels of a block that is about to be freed
 * @sample: its sample; NULL: it has none
 * @tagged: whether it has a tag
 * @tag: the tag, if it has one
 */
struct labels {
	struct sample *sample;
	bool tagged;
	struct tagged tag;
};

/**
 * labels_allocate() - allocate under the tag of the calling thread, if it has one
 * @pool: the pool
 * @addr: receives the block
 * @size: bytes
 * @kind: of the block
 * @call: the name of the call
 * @fn: allocates
 * @data: passed to it
 *
 * Return: 0, -ENOMEM beyond the limit of the tag, -EBUSY if it is paused, or what @fn returns.
 */
int labels_allocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, enum tagged_kind kind, const char *call,
		    labels_fn fn, void *data) G_GNUC_INTERNAL;

/**
 * labels_reallocate() - resize a block, which keeps its tag
 * @pool: the pool
 * @addr: the block; receives the new one
 * @size: bytes, not 0
 * @fn: resizes
 * @data: passed to it
 *
 * Return: 0, -ENOMEM beyond the limit of the tag, or what @fn returns.
 */
int labels_reallocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, labels_fn fn, void *data)
	G_GNUC_INTERNAL;

/**
 * labels_take() - take the tag and the sample of a block, before it is freed
 * @pool: the pool that the call was given; NULL: the one that has the block
 * @ptr: the block
 * @labels: receives them, for labels_end()
 *
 * Before: once the block is free, another thread may have the address.
 *
 * Return: what serves the block: the arena of its tag, or else @pool.
 */
struct vpmm_pool *labels_take(struct vpmm_pool *pool, const void *ptr, struct labels *labels) G_GNUC_INTERNAL;

/**
 * labels_end() - end what labels_take() has begun
 * @labels: the tag and the sample
 * @there: the block is still allocated
 */
void labels_end(const struct labels *labels, bool there) G_GNUC_INTERNAL;

#endif /* LABEL_H */
