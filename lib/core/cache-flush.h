/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Flushes: the slow path frees cached blocks for the region maps. With the backend entered. */
#ifndef CACHE_FLUSH_H
#define CACHE_FLUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct cache;
struct region;
struct stream;
struct core;

/* A region that a cache lets go of, and when it was freed. */
struct freed {
	uint64_t when;
	struct region *region;
};

/**
 * cache_flush() - flush the cache of a stream
 * @core: the pool's core
 * @stream: the stream
 * @handle: a handle of it
 * @least: smaller blocks stay, except those outside slabs (struct block, @lent)
 *
 * Blocks that cannot be flushed stay; that is no error. If the cache is more than half full, small blocks are flushed
 * too.
 */
void cache_flush(struct core *core, struct stream *stream, struct CUstream_st *handle, size_t least);

/**
 * cache_flush_full() - flush the cache of a stream that takes no more blocks, or has none live and CACHE_AT_REST cached
 * @core: the pool's core
 * @stream: the stream
 * @handle: a handle of it
 */
void cache_flush_full(struct core *core, struct stream *stream, struct CUstream_st *handle);

/**
 * cache_flush_all() - flush the covered blocks of all caches
 * @core: the pool's core
 *
 * Return: whether there were any.
 */
bool cache_flush_all(struct core *core);

/**
 * cache_flush_streams() - flush the covered blocks of some caches
 * @core: the pool's core
 * @idle: leave out caches with a hit since core.pressure changed last: threads that work on streams of their own would
 *	take each other's blocks in turn
 * @least: as for cache_flush()
 *
 * Return: whether there were any.
 */
bool cache_flush_streams(struct core *core, bool idle, size_t least);

/**
 * cache_await_device() - wait until all earlier frees are complete, then flush all caches
 * @core: the pool's core
 *
 * Waits on the host for all work of the device.
 *
 * Return: 0, or what the backend's sync returns.
 */
int cache_await_device(struct core *core);

/**
 * cache_drain() - see to it that all frees are covered by an event or complete
 * @core: the pool's core; the pool is about to be destroyed
 */
void cache_drain(struct core *core);

#endif /* CACHE_FLUSH_H */
