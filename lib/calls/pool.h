/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool, and its policy: how an allocation is served and what becomes of memory that is freed. */
#ifndef POOL_H
#define POOL_H

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "backend/backend.h"
#include "core/cache.h"
#include "core/extent.h"
#include "core/memo.h"
#include "core/region.h"
#include "core/settings.h"
#include "core/stream.h"
#include "policy/budget.h"
#include "util/log.h"
#include "vpmm.h"

/* Bytes; what requests are rounded up to where it is not pages. */
#define POOL_PIECE 512

/* What a pool has done, as in struct vpmm_stats, but for what the caches have done and keep to themselves. */
struct pool_counts {
	uint64_t mallocs;
	uint64_t frees;
	uint64_t reuses;
	uint64_t steals;
	uint64_t defrags;
	uint64_t grows;
	uint64_t waits;
	uint64_t grown;
	uint64_t remapped;
};

/**
 * struct vpmm_pool - a pool
 * @lock: held for everything below but what never changes; of POSIX, as ThreadSanitizer does not see through GLib's
 * @backend: the open device; never changes
 * @device: its ordinal; never changes
 * @settings: as the device has them; never changes
 * @most_places: how many places extents may have before those are unmapped that are not in use; never changes
 * @generation: of the process that created it; never changes
 * @known: the caches of streams; without the lock, what is read may be that of another by now
 * @pressure: how often a malloc found nothing and had to gather, create or wait
 * @central: how many calls have changed the maps
 * @thread: which thread made the last central call that allocates
 * @crowded: until how many such calls it is assumed that several threads do
 * @trim_places: how many places are to be there before that is tried
 * @regions: what lies where, but for what @spans has
 * @spans: the same of small requests, which would keep extents from moving
 * @memo: what was decided about @regions
 * @extents: physical memory
 * @streams: who uses it
 * @uses: address to struct use, allocations that other streams use too, or graphs
 * @graphs: id of a capture to what its graph has
 * @holds: of struct hold, what was freed and waits for streams
 * @shared_holds: the same that several graphs have
 * @shared_uses: of struct use, what several graphs use
 * @held_bytes: bytes of these holds, and of those that graphs have
 * @silent: ids of streams that are to be heard, to how many holds wait for each
 * @idle_looked: when there are more streams than this, those that are idle are looked for
 * @small: address to struct small, requests that the driver's allocator serves
 * @small_live: bytes of them
 * @small_cleared: some were cleared for a setting, which the program knows nothing of
 * @peak_live: the most bytes that were allocated, but for those that the driver's allocator serves
 * @peak_asked: the same, less what blocks are larger than what was asked for
 * @peak_mapped: the most bytes of device memory that the pool has held
 * @peak_taken: the same with what the driver's allocator held
 * @peak_skipped: how many mallocs have not looked at @peak_live since one did
 * @peak_cached: bytes that were cached then
 * @counts: what the pool has done
 * @scrubbed: bytes that it has cleared
 * @budget: what it was trimmed to
 * @pieces: the most extents that the gaps have called for since the pool was last empty; 0: none
 * @going: it is being destroyed
 * @log: what it says
 * @cancel: what cancel_hold() has told the thread that has the lock
 */
struct vpmm_pool {
	pthread_mutex_t lock;
	char apart_from_lock[CACHE_ALIGN];
	struct backend *backend;
	int device;
	struct settings settings;
	uint64_t most_places;
	unsigned int generation;
	struct cache *_Atomic known[CACHE_KNOWN];
	char apart_from_settings[CACHE_ALIGN];
	_Atomic uint64_t pressure;
	_Atomic uint64_t central;
	char apart_from_counters[CACHE_ALIGN];
	pthread_t thread;
	uint64_t crowded;
	uint64_t trim_places;
	struct region_map regions;
	struct region_map spans;
	struct memo memo;
	struct extent_map extents;
	struct stream_map streams;
	GHashTable *uses;
	GHashTable *graphs;
	GQueue holds;
	GQueue shared_holds;
	GQueue shared_uses;
	uint64_t held_bytes;
	GHashTable *silent;
	guint idle_looked;
	GHashTable *small;
	uint64_t small_live;
	bool small_cleared;
	uint64_t peak_live;
	uint64_t peak_asked;
	uint64_t peak_mapped;
	uint64_t peak_taken;
	guint peak_skipped;
	uint64_t peak_cached;
	struct pool_counts counts;
	_Atomic uint64_t scrubbed;
	struct budget budget;
	double pieces;
	bool going;
	struct log log;
	int cancel;
};

/* A request that the driver's allocator serves. */
struct small {
	uint64_t addr;
	size_t size;
	bool held;		/* freed, and in a hold */
};

/**
 * pool_new() - make a pool on an open backend
 * @pool: receives the pool
 * @backend: the backend, entered; it stays the caller's to close, after pool_delete()
 * @settings: what is asked for
 *
 * Return: 0, or -EINVAL for settings that the device cannot have, -ENOMEM, or another error of the backend.
 */
int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings);

/**
 * pool_announce_end() - say that the pool is destroyed, while it still answers
 * @pool: the pool; its lock is held
 */
void pool_announce_end(struct vpmm_pool *pool);

/**
 * pool_delete() - give back all but the backend
 * @pool: the pool, its backend entered, its lock not held
 */
void pool_delete(struct vpmm_pool *pool);

/**
 * pool_malloc() - allocate
 * @pool: the pool; its lock is held, its backend entered
 * @addr: receives the address
 * @size: bytes, not 0
 * @handle: the stream
 * @id: its id, if this call has asked for it already, so that it is not under capture; otherwise CACHE_NOBODY
 *
 * Return: 0, or as vpmm_malloc().
 */
int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t id);

/**
 * pool_malloc_regions() - the same from the regions, for a stream that is known
 * @pool: the pool
 * @addr: receives the address
 * @bytes: of pool_round(), not 0
 * @stream: the stream
 * @handle: a handle of it
 *
 * Return: likewise.
 */
int pool_malloc_regions(struct vpmm_pool *pool, uint64_t *addr, size_t bytes, struct stream *stream,
			struct CUstream_st *handle);

/**
 * pool_forget_small() - the driver's allocator has what it served back
 * @pool: the pool; its lock is held
 * @small: what it was; gone afterwards
 */
void pool_forget_small(struct vpmm_pool *pool, const struct small *small);

/**
 * pool_begin_central() - a stream has called, and the maps are about to change
 * @pool: the pool; its lock is held, its backend entered
 * @stream: the stream
 * @handle: a handle of it
 *
 * What the caches did since the last such call is the past then.
 */
void pool_begin_central(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle);

/**
 * pool_free() - free
 * @pool: the pool; its lock is held, its backend entered
 * @addr: the address
 * @handle: the stream
 *
 * Return: 0, or as vpmm_free().
 */
int pool_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle);

/**
 * pool_use() - a stream, or the graph that it is being captured into, uses an allocation
 * @pool: the pool; its lock is held, its backend entered
 * @addr: the allocation
 * @handle: the stream
 *
 * Return: 0, or as vpmm_use().
 */
int pool_use(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle);

/**
 * pool_knows() - whether an address is allocated
 * @pool: the pool; its lock is held
 * @addr: the address
 */
bool pool_knows(struct vpmm_pool *pool, uint64_t addr);

/**
 * pool_round() - how many bytes a request takes from the regions
 * @pool: the pool
 * @size: bytes
 *
 * Return: the number; 0: it is none for the regions.
 */
static inline size_t pool_round(const struct vpmm_pool *pool, size_t size)
{
	size_t piece = pool->settings.paged ? pool->settings.page_size : POOL_PIECE;

	if ((size < pool->settings.page_size && pool->settings.small == VPMM_SMALL_DRIVER) || size > SIZE_MAX / 4)
		return 0;
	size += piece - 1;
	/* Nearly always a power of two, and a division takes a while. */
	return piece & (piece - 1) ? size / piece * piece : size & -piece;
}

/* Requests below this part of a page are small: apart from the others, as what is small stays longest. */
#define POOL_SMALL_PART 16

static inline size_t pool_small_size(const struct vpmm_pool *pool)
{
	return pool->settings.page_size / POOL_SMALL_PART;
}

/* Device memory that the pool holds, in bytes. */
static inline uint64_t pool_mapped(const struct vpmm_pool *pool)
{
	return pool->extents.bytes;
}

/* Bytes of it that are allocated. */
static inline uint64_t pool_live(const struct vpmm_pool *pool)
{
	return pool->regions.bytes[REGION_MALLOC] - pool->spans.lent + pool->spans.bytes[REGION_MALLOC];
}

#endif /* POOL_H */
