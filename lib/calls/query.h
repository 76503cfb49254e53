/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Questions: which allocation an address is in, what a request would take, and which is the largest to be served. */
#ifndef QUERY_H
#define QUERY_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct stream;
struct vpmm_allocation;
struct vpmm_forecast;
struct vpmm_pool;

/**
 * query_pool() - whether and how a request could be served
 * @pool: the pool, its backend entered
 * @size: bytes
 * @handle: the stream
 * @forecast: receives all but its size
 *
 * Return: 0, or an error of the backend.
 */
int query_pool(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle, struct vpmm_forecast *forecast);

/**
 * query_largest() - the largest request that could be served
 * @pool: the pool
 * @stream: the stream that it would be for
 * @room: bytes that the device could create
 *
 * Plans a few dozen requests, which takes as long as that many mallocs without their driver calls.
 *
 * Return: bytes.
 */
uint64_t query_largest(struct vpmm_pool *pool, struct stream *stream, uint64_t room);

/**
 * lookup_pool() - find the allocation of a pool that has an address
 * @pool: the pool, its lock held
 * @addr: the address
 * @allocation: receives it
 *
 * Return: 0; -EALREADY: the program has freed it, and the driver's allocator still has it allocated; or -EINVAL.
 */
int lookup_pool(struct vpmm_pool *pool, uint64_t addr, struct vpmm_allocation *allocation);

/**
 * lookup_refuse() - refuse an address that no allocation of a pool starts at
 * @pool: the pool, its lock held
 * @addr: the address
 *
 * Return: -EINVAL; the error names what the address is in: an allocation that starts before it, a shared range, or
 * another pool.
 */
int lookup_refuse(struct vpmm_pool *pool, uint64_t addr);

/**
 * lookup_bytes() - the bytes that a pool counts for an allocation
 * @pool: the pool, its lock not held
 * @addr: where the allocation starts, which nobody frees or resizes meanwhile
 * @by_driver: receives whether the driver's allocator serves it
 *
 * Return: bytes, with the size rounded up.
 */
size_t lookup_bytes(struct vpmm_pool *pool, uint64_t addr, bool *by_driver);

#endif /* QUERY_H */
