/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the central calls take out of the caches, with the backend entered. */
#ifndef FLUSH_H
#define FLUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct cache;
struct region;
struct stream;
struct core;

/**
 * cache_flush() - free, for the maps, what a stream has cached
 * @core: the pool's core
 * @stream: the stream
 * @handle: a handle of it
 * @least: blocks of fewer bytes stay in the cache, but for those in memory that large requests could have
 *
 * What cannot be flushed stays; that is no error. Where more than half of what the stream may cache is, none stays for
 * being small.
 */
void cache_flush(struct core *core, struct stream *stream, struct CUstream_st *handle, size_t least);

/**
 * cache_flush_full() - as cache_flush(), if the cache takes no more
 * @core: the pool's core
 * @stream: the stream
 * @handle: a handle of it
 */
void cache_flush_full(struct core *core, struct stream *stream, struct CUstream_st *handle);

/**
 * cache_flush_all() - free, for the maps, what others can have of what all streams have cached
 * @core: the pool's core
 *
 * Return: whether there was any.
 */
bool cache_flush_all(struct core *core);

/**
 * cache_flush_streams() - the same, but not all of it
 * @core: the pool's core
 * @idle: not of streams that were served since the pool's pressure has last changed; threads that are at work on
 *	streams of their own would only take it from one another in turn
 * @least: as in cache_flush()
 *
 * Return: whether there was any.
 */
bool cache_flush_streams(struct core *core, bool idle, size_t least);

/**
 * cache_settle_all() - wait until all that was freed so far is free for everybody, then free it for the maps
 * @core: the pool's core
 *
 * Waits on the host for all work of the device.
 *
 * Return: 0, or what the backend's sync and event_query return.
 */
int cache_settle_all(struct core *core);

/**
 * cache_withheld() - what a stream has freed that others cannot have, as it is not known when they could
 * @cache: the cache
 *
 * Return: bytes.
 */
uint64_t cache_withheld(struct cache *cache);

/**
 * cache_drain() - see to it that all frees are behind an event, or else have completed
 * @core: the pool's core, which is about to be destroyed
 */
void cache_drain(struct core *core);

/**
 * cache_last() - the region of the most recent call, if that was a malloc that a cache has served
 * @core: the pool's core
 * @served: receives whether the most recent call was one that a cache has served
 *
 * Return: the region, or NULL. Of calls of several streams that no central call came between, one.
 */
struct region *cache_last(struct core *core, bool *served);

#endif /* FLUSH_H */
