/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The core of a pool: its memory, its address space, its streams, and what every layer above has to know of them. */
#ifndef CORE_H
#define CORE_H

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "core/cache.h"
#include "core/extent.h"
#include "core/memo.h"
#include "core/region.h"
#include "core/settings.h"
#include "core/stream.h"
#include "util/lock.h"
#include "util/log.h"

struct packed;
struct policy;

/* Bytes; what requests are rounded up to where it is not pages. */
#define CORE_PIECE 512

/* What a pool has done, as in struct vpmm_stats, but for what the caches have done and keep to themselves. */
struct counts {
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
 * struct core - the core of a pool
 *
 * @lock: of all that is said to be under it, here, in struct pending and in struct packed. Functions of calls/, policy/,
 *	pending/ and core/ want it held unless they say something else, and assert that
 *
 * Set when the pool is created, and never changed:
 *
 * @backend: the open device
 * @device: its ordinal
 * @settings: as the device has them
 * @piece: bytes that requests are rounded up to
 * @policy: serves all but what the driver's allocator does; nothing in core/ looks into it
 * @packed: what it remembers, likewise
 * @generation: of the process that created the pool
 *
 * Read and written without the lock:
 *
 * @known: the caches of streams; what is read may be that of another stream by now
 * @pressure: how often a malloc found nothing and had to gather, create or wait
 * @central: how many calls have changed the maps
 * @scrubbed: bytes that were cleared
 *
 * Under the lock:
 *
 * @regions: what lies where, but for what @spans has
 * @spans: the same of small requests, which would keep extents from moving
 * @memo: what was decided about @regions
 * @extents: physical memory
 * @streams: who uses it
 * @small: address to struct small, requests that the driver's allocator serves
 * @small_live: bytes of them
 * @small_cleared: some were cleared for a setting, which the program knows nothing of
 * @peak_live: the most bytes that were allocated, but for those that the driver's allocator serves
 * @peak_mapped: the most bytes of device memory that the pool has held
 * @peak_taken: the same with what the driver's allocator held
 * @peak_skipped: how many mallocs have not looked at @peak_live since one did
 * @peak_cached: bytes that were cached then
 * @counts: what the pool has done
 * @log: what it says
 */
struct core {
	struct lock lock;
	char apart_from_lock[CACHE_ALIGN];
	struct backend *backend;
	int device;
	struct settings settings;
	size_t piece;
	const struct policy *policy;
	struct packed *packed;
	unsigned int generation;
	struct cache *_Atomic known[CACHE_KNOWN];
	char apart_from_settings[CACHE_ALIGN];
	_Atomic uint64_t pressure;
	_Atomic uint64_t central;
	char apart_from_counters[CACHE_ALIGN];
	_Atomic uint64_t scrubbed;
	struct region_map regions;
	struct region_map spans;
	struct memo memo;
	struct extent_map extents;
	struct stream_map streams;
	GHashTable *small;
	uint64_t small_live;
	bool small_cleared;
	uint64_t peak_live;
	uint64_t peak_mapped;
	uint64_t peak_taken;
	guint peak_skipped;
	uint64_t peak_cached;
	struct counts counts;
	struct log log;
};

/**
 * core_round() - how many bytes a request takes from the regions
 * @core: the core
 * @size: bytes
 *
 * Return: the number; 0: the regions do not serve it.
 */
static inline size_t core_round(const struct core *core, size_t size)
{
	size_t piece = core->piece;

	if ((size < core->settings.page_size && core->settings.small == VPMM_SMALL_DRIVER) || size > SIZE_MAX / 4)
		return 0;
	size += piece - 1;
	/* Nearly always a power of two, and a division takes a while. */
	return piece & (piece - 1) ? size / piece * piece : size & -piece;
}

/* Requests below this part of a page are small: apart from the others, as what is small stays longest. */
#define CORE_SMALL_PART 16

static inline size_t core_small_size(const struct core *core)
{
	return core->settings.page_size / CORE_SMALL_PART;
}

/* Device memory that the pool holds, in bytes. */
static inline uint64_t core_mapped(const struct core *core)
{
	return core->extents.bytes;
}

/* Bytes of it that are allocated. */
static inline uint64_t core_live(const struct core *core)
{
	return core->regions.bytes[REGION_MALLOC] - core->spans.lent + core->spans.bytes[REGION_MALLOC];
}

#endif /* CORE_H */
