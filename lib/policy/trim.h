/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Gives device memory back: extents without allocations, and without pending work through any of their mappings.
 * Nothing here waits. A pool at rest (core.resting) keeps what it has, as who pauses or resumes it relies on its
 * mappings; trim_at_rest() is for that thread alone.
 */
#ifndef TRIM_H
#define TRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bound.h"

struct core;
struct extent;
struct stream;

/**
 * trim_small() - release unused memory of the driver's allocator
 * @core: the pool's core, its backend entered
 * @keep: bytes of device memory that the pool keeps, that of the driver's allocator included
 * @released: receives the bytes that were released; may be NULL
 *
 * Return: 0, or what the backend's small_trim and, for @released, small_held return.
 */
int trim_small(struct core *core, uint64_t keep, uint64_t *released);

/**
 * trim_pool() - release free memory
 * @core: the pool's core, its backend entered
 * @keep: bytes of device memory that the pool keeps
 * @released: receives the bytes that were released; may be NULL
 *
 * Flushes caches first. If the driver fails a call, what was released before stays released.
 *
 * Return: 0, or what the backend's event_query, unmap, release, small_trim and small_held return.
 */
int trim_pool(struct core *core, uint64_t keep, uint64_t *released);

/* The same, of a pool that the caller pauses or resumes as well. */
int trim_at_rest(struct core *core, uint64_t keep, uint64_t *released);

/**
 * trim_bytes() - release free extents one after another
 * @core: the pool's core, its backend entered
 * @bytes: how much is to go; the last extent may be larger than what is left of it
 *
 * Return: 0, also if there is less, or an error of the backend.
 */
int trim_bytes(struct core *core, uint64_t bytes);

/* Whether an extent can go back to the device. It cannot while work is pending on it, at any of its mappings. */
bool trim_is_free(struct core *core, const struct extent *extent);

/* Releases an extent, if it can go. Returns 0, or an error of the backend. */
int trim_extent(struct core *core, struct extent *extent);

/**
 * trim_whole() - release whole extents, the longest free first, while the pool holds more than it keeps
 * @core: the pool's core, its backend entered
 * @keep: bytes of device memory that the pool keeps
 * @looks: extents to look at, at most
 * @most: extents to release, at most
 *
 * Return: 0, or an error of the backend.
 */
int trim_whole(struct core *core, uint64_t keep, uint64_t looks, uint64_t most);

/**
 * trim_some() - release some of what the pool holds above VPMM_KEEP
 * @core: the pool's core, its backend entered
 * @stream: of the call; NULL: none that has a cache
 *
 * Each call on the slow path that changes what is allocated ends with it. It looks at TRIM_LOOKS extents and releases
 * TRIM_EXTENTS at most, to bound the time of a call. A failure is ignored: the next call tries again. While the pool
 * still holds more, one of the next CACHE_WATCH frees into each cache takes the slow path, too.
 */
void trim_some(struct core *core, struct stream *stream);

#define TRIM_EXTENTS BOUND(8, 1)
#define TRIM_LOOKS BOUND(32, 2)

#endif /* TRIM_H */
