/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The core of a pool: its memory, address space, streams and counters, as all layers above need them. */
#ifndef CORE_H
#define CORE_H

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "core/account.h"
#include "core/cache.h"
#include "core/extent-whole.h"
#include "core/extent.h"
#include "core/memo.h"
#include "core/region-loose.h"
#include "core/region.h"
#include "core/stream.h"
#include "settings/settings.h"
#include "util/address-index.h"
#include "util/line.h"
#include "util/lock.h"
#include "util/log.h"

struct backend;
struct backend_info;
struct core;
struct freed;
struct packed;
struct policy;
struct recorder;
struct sampler;
struct settings;

/* Requests are rounded up to this many bytes, or to pages if the pool is paged. */
#define CORE_PIECE 512

/*
 * Counters as in struct vpmm_stats; without what the caches have counted themselves. @undone: mallocs and frees of
 * calls that failed once they had a block. @has_remapped, @has_grown: the call counts in @defrags and @grows already.
 */
struct counts {
	uint64_t mallocs;
	uint64_t frees;
	uint64_t undone;
	uint64_t reuses;
	uint64_t steals;
	uint64_t defrags;
	uint64_t grows;
	uint64_t waits;
	uint64_t grown;
	uint64_t remapped;
	uint64_t stranded;
	bool has_remapped;
	bool has_grown;
};

/**
 * counts_begin() - begin a call: it counts once in @defrags and in @grows, however many steps it takes
 * @counts: the pool's
 */
static inline void counts_begin(struct counts *counts)
{
	counts->has_remapped = false;
	counts->has_grown = false;
}

/* Counts memory that is remapped for a call, and the call. */
static inline void counts_add_remapped(struct counts *counts, uint64_t bytes)
{
	counts->remapped += bytes;
	counts->defrags += bytes && !counts->has_remapped;
	counts->has_remapped |= bytes;
}

/* The same for memory that is created. */
static inline void counts_add_grown(struct counts *counts, uint64_t bytes)
{
	counts->grown += bytes;
	counts->grows += bytes && !counts->has_grown;
	counts->has_grown |= bytes;
}

/**
 * struct core - the core of a pool
 *
 * @lock: guards all that is said to be under it, here, in struct pending and in struct packed. Functions of calls/,
 *	policy/, pending/ and core/ expect it to be held, and assert that, unless their comment says otherwise
 *
 * Set when the pool is created, and never changed:
 *
 * @backend: the open device
 * @place: its @place
 * @ops: its @ops
 * @piece: the unit that requests are rounded up to, in bytes
 * @generation: fork generation of the process that created the pool
 * @direct: a cache may be asked before anything else: there are caches, and calls are neither recorded nor
 *	sampled
 * @settings: validated and completed for the device; what every call reads comes first in it
 * @device: ordinal of the device
 * @granularity: of the device's mappings, in bytes
 * @policy: serves all requests but those of the driver's allocator; core/ never looks into it
 * @packed: state of the packed policy; core/ never looks into it
 * @recorder: of VPMM_TRACE; NULL: calls are not recorded
 * @recorded_as: the number of the pool there
 * @sampler: of VPMM_STACKS; NULL: no stacks are sampled; goes before the pool gives addresses back
 *
 * Read and written without the lock:
 *
 * @known: caches by stream id; an entry may have been given to another stream, so compare its id under its lock
 * @pressure: is raised by mallocs that could use the memory of other streams; these then record their next frees
 * @central: how many calls have changed the region maps
 * @scrubbed: bytes that the pool has cleared
 *
 * Under a lock of its own:
 *
 * @account: what is live, and the most that was
 * @owner: of the addresses that the pool's allocations can have, for vpmm_lookup() and frees that name no pool
 *
 * Under the lock:
 *
 * @regions: the region map, all but the slabs
 * @spans: the region map of slabs: small requests live long, and each would pin an extent
 * @memo: earlier decisions about @regions, by what is allocated; @routine: by what was asked for before
 * @extents: physical memory
 * @streams: the streams that the pool has met
 * @flushed: CACHE_BLOCKS_MAX of them, what a flush of a cache takes out, and as many to sort these; not on the stack,
 *	which may be a small one
 * @resting: mappings must not change: the pool is an arena that is paused, or about to be paused or resumed
 * @peers_unsure: devices, as bits by ordinal, that may have access to some of the memory and none to the rest, since a
 *	change of peers failed and could not be undone
 * @small: address to struct small: requests that the driver's allocator serves, and shareable blocks
 * @small_live: bytes of the former
 * @shareable: bytes of device memory of blocks that can be exported
 * @imported: bytes of device memory of blocks that came from other processes
 * @shared: bytes of device memory of shared ranges
 * @strays: of struct shareable: what the driver did not take back when an allocation failed
 * @watched: the pool held more than VPMM_KEEP at the latest call on the slow path, so caches were told to watch
 * @peak_mapped: peak of the device memory that the pool held, since the peaks were last reset
 * @peak_taken: the same, with what the driver's allocator held
 * @peak_small: the same of what the driver's allocator held alone
 * @small_past: the peak of that which the driver had seen when the peaks were last reset
 * @counts: statistics
 * @log: what it says
 */
struct core {
	struct lock lock;
	/* A cache line for the calls that a cache serves: */
	_Alignas(LINE_PAIR) const struct backend_ops *ops;
	struct backend *backend;
	const void *place;
	size_t piece;
	unsigned int generation;
	bool direct;
	struct settings settings;
	int device;
	size_t granularity;
	const struct policy *policy;
	struct packed *packed;
	struct recorder *recorder;
	uint32_t recorded_as;
	struct sampler *sampler;
	struct cache *_Atomic known[CACHE_KNOWN];
	_Alignas(LINE_PAIR) _Atomic uint64_t pressure;
	_Atomic uint64_t central;
	_Alignas(LINE_PAIR) _Atomic uint64_t scrubbed;
	_Alignas(LINE_PAIR) struct account account;
	struct address_owner owner;
	struct region_map regions;
	struct region_map spans;
	struct memo memo;
	struct memo routine;
	struct extent_map extents;
	struct stream_map streams;
	struct freed *flushed;
	uint64_t peers_unsure;
	GHashTable *small;
	uint64_t small_live;
	uint64_t shareable;
	uint64_t imported;
	uint64_t shared;
	GPtrArray *strays;
	bool resting;
	bool watched;
	uint64_t peak_mapped;
	uint64_t peak_taken;
	uint64_t peak_small;
	uint64_t small_past;
	struct counts counts;
	struct log log;
};

/**
 * core_page_up() - round up to whole pages
 * @core: the pool's core, which has pages
 * @size: bytes
 *
 * Return: bytes.
 */
static inline size_t core_page_up(const struct core *core, size_t size)
{
	size_t page = core->settings.page_size;

	return (size + page - 1) / page * page;
}

/**
 * core_round() - round a request up to the unit of the regions
 * @core: the core
 * @size: bytes
 *
 * Return: bytes; 0: the regions do not serve such a request.
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

/* Requests below this part of a page go to slabs: small blocks live longest, and each would pin an extent. */
#define CORE_SMALL_PART 16

static inline size_t core_small_size(const struct core *core)
{
	return core->settings.page_size / CORE_SMALL_PART;
}

/* The lock orders its writers, so that no atomic addition is needed. */
static inline void core_count_central(struct core *core)
{
	uint64_t central = atomic_load_explicit(&core->central, memory_order_relaxed);

	atomic_store_explicit(&core->central, central + 1, memory_order_relaxed);
}

/* What is outside of the region maps has changed: it counts towards the limit, but for other processes' memory. */
static inline void core_count_apart(struct core *core)
{
	extent_count_apart(&core->extents, core->small_live + core->shareable + core->shared);
}

/* Device memory that the pool holds, in bytes. */
static inline uint64_t core_mapped(const struct core *core)
{
	return core->extents.bytes;
}

/* Those of them that are in the device now: the mappings of a paused tag have no memory. */
static inline uint64_t core_resident(const struct core *core)
{
	return core->extents.hollow ? 0 : core_mapped(core);
}

/* Bytes that it may keep: VPMM_KEEP is of a pool and its arenas together, so each keeps what the others do not hold. */
static inline uint64_t core_keep(const struct core *core)
{
	uint64_t all = atomic_load_explicit(core->extents.all_held, memory_order_relaxed), own = core->extents.held;

	return core->settings.keep - MIN(core->settings.keep, all - MIN(all, own));
}

/* Bytes of it that are allocated, cached blocks included. */
static inline uint64_t core_live(const struct core *core)
{
	return core->regions.bytes[REGION_MALLOC] + core->spans.bytes[REGION_MALLOC];
}

/**
 * core_init() - set up a core with nothing in it
 * @core: the core, all 0; policy_init() sets @policy and @packed afterwards
 * @backend: the open device
 * @info: what the backend says of the device
 * @settings: completed for the device
 */
void core_init(struct core *core, struct backend *backend, const struct backend_info *info,
	       const struct settings *settings);

/**
 * core_unmap() - unmap everything, when the pool is destroyed
 * @core: the core, its backend entered; no work is pending on its memory, or none that can be waited for
 */
void core_unmap(struct core *core);

/**
 * core_clear() - free everything but the backend and the lock
 * @core: the core; nothing is mapped
 */
void core_clear(struct core *core);

#endif /* CORE_H */
