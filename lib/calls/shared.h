/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What calls on blocks and pools have to do with shared ranges. No lock is held; the process is no forked child. */
#ifndef CALLS_SHARED_H
#define CALLS_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct vpmm_allocation;
struct vpmm_pool;

/**
 * pool_shared_use() - vpmm_use() of an address of a shared range
 * @pool: the pool; NULL: whichever has the range
 * @ptr: the address
 * @stream: the stream
 * @err: receives the result
 *
 * Return: whether it is one, of that pool.
 */
bool pool_shared_use(struct vpmm_pool *pool, const void *ptr, struct CUstream_st *stream, int *err);

/**
 * pool_shared_lookup() - vpmm_lookup() of an address of a shared range
 * @addr: the address
 * @allocation: receives the range
 *
 * Return: whether it is one.
 */
bool pool_shared_lookup(uint64_t addr, struct vpmm_allocation *allocation);

/**
 * pool_shared_retire() - a stream is about to be destroyed
 * @pool: the pool
 * @stream: the stream; its work is waited for if it uses a range
 *
 * Return: 0, or an error of the backend: then the stream still uses the ranges, and nothing of them is unmapped before
 * its work is done.
 */
int pool_shared_retire(struct vpmm_pool *pool, struct CUstream_st *stream);

/**
 * pool_shared_give() - have shared ranges give device memory back to the device
 * @pool: the pool, not entered
 * @size: bytes that are wanted
 *
 * Return: whether they gave any.
 */
bool pool_shared_give(struct vpmm_pool *pool, size_t size);

/**
 * pool_shared_trim() - give back memory of shared ranges that no page has
 * @pool: the pool, not entered
 * @all: host memory too
 *
 * Return: bytes of device memory.
 */
size_t pool_shared_trim(struct vpmm_pool *pool, bool all);

#endif /* CALLS_SHARED_H */
