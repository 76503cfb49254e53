/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The hot path: what is served and freed without a central call. */
#ifndef CACHE_HOT_H
#define CACHE_HOT_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct stream;
struct core;

/**
 * cache_malloc() - allocate what the stream has freed
 * @core: the pool's core, its backend entered, its lock not held
 * @addr: receives the address
 * @size: bytes
 * @handle: the stream
 * @id: receives its id, where it was asked for, as that takes a while; otherwise it stays as it is
 *
 * Return: 1, 0 when the central call is to do it, or what the backend's stream_id returns.
 */
int cache_malloc(struct core *core, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t *id);

/**
 * cache_free() - free into the cache of the stream
 * @core: the pool's core, its backend entered, its lock not held
 * @addr: the address
 * @handle: the stream
 *
 * Return: 1, 0 when the central call is to do it, or what the backend's stream_id, event_create and event_record
 *	return; nothing has changed then.
 */
int cache_free(struct core *core, uint64_t addr, struct CUstream_st *handle);

/**
 * cache_remember() - let a stream's cache be found by its id without the pool's lock
 * @core: the pool's core
 * @stream: the stream
 */
void cache_remember(struct core *core, struct stream *stream);

#endif /* CACHE_HOT_H */
