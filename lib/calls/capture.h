/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory under capture. A graph touches the same memory at every launch, on any stream. So everything that is
 * allocated, freed or used during a capture belongs to the graph until it is retired. New blocks come from memory that
 * needs no wait on the device, because a wait for work outside of the graph cannot be captured. A freed block can
 * serve the same stream in the same capture again, because that request comes later in the graph. Captures of one group
 * serve each other so, see pending/group-reuse.h.
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
 * @handle: the stream, whose stream_id failed with -EBUSY
 * @id: receives the driver's id of the capture
 *
 * Return: 0, -EBUSY if it is under none after all, or what the backend's stream_capture returns.
 */
int capture_id(struct vpmm_pool *pool, struct CUstream_st *handle, uint64_t *id);

/**
 * capture_malloc() - allocate for a graph
 * @pool: the pool, its backend entered
 * @addr: receives the address
 * @size: bytes, not 0
 * @align: as for request_align()
 * @handle: the stream, under capture
 *
 * Return: 0, or as vpmm_malloc().
 */
int capture_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct CUstream_st *handle);

/**
 * capture_free() - free in a graph
 * @pool: the pool, its backend entered
 * @region: the region, after cache_take(); NULL: it is @small
 * @small: the allocation of the driver's allocator
 * @handle: the stream, under capture
 *
 * Return: 0, or as vpmm_free(); nothing has changed then.
 */
int capture_free(struct vpmm_pool *pool, struct region *region, struct small *small, struct CUstream_st *handle);

/**
 * capture_group() - have a capture share memory with others
 * @pool: the pool
 * @id: the id of the capture
 * @group: the id of the group
 *
 * Return: 0, or as vpmm_capture_group(); nothing has changed then.
 */
int capture_group(struct vpmm_pool *pool, uint64_t id, uint64_t group);

/**
 * capture_copy_groups() - have the captures of a pool in the same groups in another
 * @to: the other, just made
 * @from: the pool
 *
 * Context: no lock of either is held; no capture joins a group meanwhile.
 */
void capture_copy_groups(struct vpmm_pool *to, struct vpmm_pool *from);

/**
 * capture_retire() - a graph was destroyed
 * @pool: the pool, its backend entered
 * @id: the id of its capture
 * @handle: a stream that is ordered after its last launch
 *
 * Return: 0, or as vpmm_graph_retire(); nothing has changed then.
 */
int capture_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *handle);

#endif /* CAPTURE_H */
