/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * vpmm_malloc_growable(), and vpmm_realloc() of what it has allocated. Address space for the most that such a block may
 * have is reserved, and memory is mapped from its start on. The block consists of whole extents of its own, so that all
 * that it gains and loses can be mapped elsewhere.
 */
#ifndef CALLS_GROWABLE_H
#define CALLS_GROWABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct region;
struct stream;
struct vpmm_pool;

/* No block can grow to more bytes, whatever is freed. */
#define GROWABLE_MOST (SIZE_MAX / 4)

/**
 * pool_malloc_growable() - allocate a block that can grow where it is
 * @pool: the pool, its backend entered
 * @addr: receives its address
 * @size: bytes, not 0
 * @max: bytes that it may grow to, no fewer than @size
 * @handle: the stream
 *
 * Return: 0, or as vpmm_malloc_growable(); nothing has changed then.
 */
int pool_malloc_growable(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t max, struct CUstream_st *handle);

/**
 * growable_resize() - give a block a new size
 * @pool: the pool, its backend entered
 * @region: the block
 * @size: the new size in bytes, not 0
 * @keeps: a graph uses the block: it gives nothing back
 * @stream: the stream, which the block belongs to afterwards; if the block becomes smaller, ordered after all users
 * @handle: a handle of it
 *
 * Return: 0, or as vpmm_realloc(); the block has its old size and contents then.
 */
int growable_resize(struct vpmm_pool *pool, struct region *region, size_t size, bool keeps, struct stream *stream,
		    struct CUstream_st *handle);

#endif /* CALLS_GROWABLE_H */
