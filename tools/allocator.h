/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a trace is replayed on: a pool of libvpmm, or one of the driver's own allocators. */
#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <stddef.h>
#include <stdio.h>

#include "vpmm.h"

struct allocator;

/**
 * struct allocator_ops - what an allocator does
 * @alloc: allocate @size bytes for use on @stream; 0 bytes are a null pointer
 * @free: free, in the order of @stream; a null pointer is nothing
 * @resize: change the size of an allocation, with its contents kept, in the order of @stream; NULL: it has no such call
 * @stats: what it holds and has done; what it cannot tell is 0
 * @dump: write its regions in the format of vpmm_pool_dump(); NULL: it has none to tell
 * @error: the sentence of the last of these calls that failed
 * @destroy: give everything back; nothing is allocated any more, no work is pending
 */
struct allocator_ops {
	int (*alloc)(struct allocator *a, void **ptr, size_t size, struct CUstream_st *stream);
	int (*free)(struct allocator *a, void *ptr, struct CUstream_st *stream);
	int (*resize)(struct allocator *a, void **ptr, size_t size, struct CUstream_st *stream);
	int (*stats)(struct allocator *a, struct vpmm_stats *stats);
	int (*dump)(struct allocator *a, FILE *out);
	const char *(*error)(void);
	void (*destroy)(struct allocator *a);
};

/**
 * struct allocator - an allocator, whose own structure has this as its first member
 * @ops: what it does
 * @pool: the pool that it is, for calls of which the driver's allocators have nothing; NULL: it is none
 */
struct allocator {
	const struct allocator_ops *ops;
	struct vpmm_pool *pool;
};

/**
 * allocator_vpmm_create() - a pool of libvpmm
 * @opts: how the pool is to be
 * @allocator: receives it; without its pool where that leaves every request to the driver
 *
 * Return: 0, or what vpmm_pool_create() returns, explained by fail_set().
 */
int allocator_vpmm_create(const struct vpmm_opts *opts, struct allocator **allocator);

#endif /* ALLOCATOR_H */
