/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The hot path: malloc and free without the pool's lock. */
#ifndef CACHE_HOT_H
#define CACHE_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct stream;
struct core;

/**
 * cache_malloc() - allocate from the stream's cache
 * @core: the pool's core, its backend entered, its lock not held
 * @addr: receives the address
 * @requested: bytes
 * @handle: the stream
 * @id: receives the id of the stream if it was looked up; unchanged otherwise
 *
 * Return: 1; 0: take the slow path; or what the backend's stream_id returns.
 */
int cache_malloc(struct core *core, uint64_t *addr, size_t requested, struct CUstream_st *handle, uint64_t *id);

/**
 * cache_malloc_recorded() - the same for a pool that has a recorder
 * @zero: whether the block is going to be cleared
 */
int cache_malloc_recorded(struct core *core, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t *id,
			  bool zero);

/**
 * cache_free() - free into the stream's cache
 * @core: the pool's core, its backend entered, its lock not held
 * @addr: the address
 * @handle: the stream
 *
 * Return: 1; 0: take the slow path; or what the backend's stream_id, event_create and event_record return, and nothing
 * has changed.
 */
int cache_free(struct core *core, uint64_t addr, struct CUstream_st *handle);

/* The same for a pool that has a recorder. */
int cache_free_recorded(struct core *core, uint64_t addr, struct CUstream_st *handle);

/**
 * cache_remember() - enter a stream's cache into the table that is read without the pool's lock
 * @core: the pool's core
 * @stream: the stream
 */
void cache_remember(struct core *core, struct stream *stream);

#endif /* CACHE_HOT_H */
