/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory under capture. What a graph touches is touched again each time that it is launched, on whichever stream, so
 * all that is allocated, freed or used while a graph is captured belongs to it until it is gone. It comes from memory
 * that nobody has to be waited for on the device, as a wait for what is outside of the graph cannot be captured; what
 * is freed serves the same stream's later requests in the same capture, as those come after it in the graph.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct region;
struct small;
struct vpmm_pool;

/**
 * capture_id() - the capture that a stream is under
 * @pool: the pool, its backend entered
 * @handle: the stream, which could not be told because it is being captured
 * @id: receives the driver's id of the capture
 *
 * Return: 0, -EBUSY where there is none after all, or what the backend's stream_capture returns.
 */
int capture_id(struct vpmm_pool *pool, struct CUstream_st *handle, uint64_t *id);

/**
 * capture_malloc() - allocate for a graph
 * @pool: the pool, its backend entered
 * @addr: receives the address
 * @size: bytes, not 0
 * @handle: the stream, under capture
 *
 * Return: 0, or as vpmm_malloc().
 */
int capture_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle);

/**
 * capture_free() - free in a graph
 * @pool: the pool, its backend entered
 * @region: the region, taken by cache_take(); NULL: it is @small
 * @small: what the driver's allocator has served
 * @handle: the stream, under capture
 *
 * Return: 0, or as vpmm_free(); nothing has changed then.
 */
int capture_free(struct vpmm_pool *pool, struct region *region, struct small *small, struct CUstream_st *handle);

/**
 * capture_retire() - a graph is gone
 * @pool: the pool, its backend entered
 * @id: the id of its capture
 * @handle: a stream behind its last launch
 *
 * Return: 0, or as vpmm_graph_retire(); nothing has changed then.
 */
int capture_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *handle);

#endif /* CAPTURE_H */
