/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frees that no cache takes, and the users of allocations. */
#ifndef FREE_H
#define FREE_H

#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct vpmm_pool;

/**
 * pool_knows() - whether an address is allocated
 * @pool: the pool
 * @addr: the address
 */
bool pool_knows(struct vpmm_pool *pool, uint64_t addr);

/**
 * pool_free() - free
 * @pool: the pool, its backend entered
 * @addr: the address
 * @handle: the stream
 *
 * Return: 0, or as vpmm_free().
 */
int pool_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle);

/**
 * pool_free_any() - free behind all work of the context so far
 * @pool: the pool, its backend entered
 * @addr: the address
 *
 * Return: 0, or as vpmm_free() for VPMM_STREAM_ANY.
 */
int pool_free_any(struct vpmm_pool *pool, uint64_t addr);

/**
 * pool_use() - a stream, or the graph that it is being captured into, uses a block
 * @pool: the pool, its backend entered
 * @addr: the allocation
 * @handle: the stream
 *
 * Return: 0, or as vpmm_use().
 */
int pool_use(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle);

#endif /* FREE_H */
