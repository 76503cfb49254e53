/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A cache is a stream's free list, in front of the pool's lock. It keeps what the stream frees, by exact size, and
 * serves the stream's next request of that size (but see CACHE_PHASE). Such a malloc or free takes the cache's lock
 * and one table lookup. Of the driver it asks the stream's id and, now and then, the record of an event.
 *
 * A block is an allocation that was made for the stream, live or cached. The region maps count both as allocated. The
 * slow path flushes caches before it relies on the maps. A flush frees the cached blocks that the mark covers, as an
 * ordinary free would.
 *
 * A stream can reuse its own memory without an event, because its work runs in order. Other streams need one. An event
 * can be recorded only while a call has a handle of the stream: afterwards the stream may be destroyed, and a
 * per-thread handle names another stream on another thread. (The legacy default stream always exists, so it can be
 * recorded at any time.) A cache therefore has one event, the mark, which covers every free of the stream before its
 * last record. A later free is uncovered: only its own stream can have that memory, until a record covers it or the
 * device is known to be idle. A block that was freed uncovered and allocated again stays uncovered, because another
 * stream that frees it need not run after the work before the earlier free.
 *
 * The uncovered bytes of a stream have a limit, so that streams which are destroyed without notice withhold little
 * memory from others: 1/16384 of the device's memory for a stream, 1/512 for all streams of a pool together. A stream
 * gets a sixteenth of what is left of the latter if that is less; below 64 KiB it gets none, and each of its frees is
 * recorded. The only stream of a pool may leave eight times its limit uncovered while it has live blocks, as there is
 * no other stream to wait for the memory. The legacy default stream has no limit, as it is recorded when others need
 * the memory. After a slow path that could use the memory of other streams, the next 64 frees of each cache are
 * recorded.
 *
 * A cache has a lock of its own, inside the pool's. A thread can still have a pointer to a cache when its stream is
 * forgotten, so caches live as long as the pool: the id in a cache says whose it is, and a stream that is met later
 * gets the cache and the limit of a forgotten one.
 */
#ifndef CACHE_H
#define CACHE_H

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/bound.h"
#include "util/line.h"
#include "util/lock.h"
#include "util/table.h"

struct CUstream_st;
struct backend;
struct backend_event;
struct cache;
struct event;
struct region;
struct stream;
struct stream_map;
struct core;

/* Blocks in one cache. A free that would exceed this flushes the cache, which bounds the time that a flush takes. */
#define CACHE_BLOCKS_MAX BOUND(256, 4)

/*
 * A stream that has freed everything keeps fewer blocks than this. A program that starts over then gets the addresses
 * that it got when it started before, not those that it freed last.
 */
#define CACHE_AT_REST BOUND(16, 2)

/*
 * Frees in a row after which a program begins a new phase: the next malloc then goes to the policy, which flushes the
 * cache, so that a repeated phase starts from the same state. Of 100 generated programs with long-lived blocks (512
 * bytes to 8 MiB, tests/host/test-properties.c), 52 did not settle by the third pass without this rule; all do with it.
 * 128 is too many for programs of 90 blocks. In the recorded traces, 150 of 510,000 mallocs follow so many frees.
 */
#define CACHE_PHASE BOUND(32, 2)

/* Frees of each cache that are recorded after core.pressure has changed. */
#define CACHE_NERVOUS BOUND(64, 2)

/*
 * Frees of each cache until one takes the slow path, while the pool holds more than VPMM_KEEP: the slow path gives
 * memory back, and a program may live from its caches. Fewer while that gives some back.
 */
#define CACHE_WATCH BOUND(1024, 16)
#define CACHE_WATCH_SOON BOUND(16, 4)

/* The only stream of a pool may leave this many times its limit uncovered. */
#define CACHE_SOLE_SHARES 8

/* Size classes of bins: four to a doubling. The last one has all sizes above. */
#define CACHE_CLASSES 128
#define CACHE_CLASS_WORDS (CACHE_CLASSES / 64)

/* Streams whose caches are found without the pool's lock: a direct-mapped table, by stream id. */
#define CACHE_KNOWN BOUND(1024, 8)

enum block_state {
	BLOCK_LIVE,		/* allocated */
	BLOCK_CACHED,		/* freed, in its bin */
	BLOCK_SHARED,		/* allocated; its free takes the slow path */
	BLOCK_TAKEN,		/* a free on the slow path is at work on it */
	BLOCK_STRANDED		/* freed on another stream, behind an uncovered free of its own */
};

/**
 * struct block - an allocation that was made for a stream
 * @addr: where
 * @region: the region; never NULL
 * @cache: of the stream
 * @bin: of its size
 * @next: the next in its bin, or among those that are stranded or spare
 * @freed: sequence number, among the cache's frees, of its last free or of the library's last clear of it; 0: neither
 * @requested: unless it is free: bytes of the request
 * @event: stranded: the point at which the other stream freed it
 * @state: what it is
 * @lent: a small request in memory that large ones could have, as no slab had room
 */
struct block {
	uint64_t addr;
	struct region *region;
	struct cache *cache;
	struct bin *bin;
	struct block *next;
	uint64_t freed;
	union {
		size_t requested;
		struct event *event;
	};
	enum block_state state;
	bool lent;
};

/**
 * struct bin - the blocks of one size
 * @size: bytes
 * @top: its cached blocks, the last freed first
 * @blocks: all of its blocks, cached or not
 * @class: of its size
 * @link: what points to it in the list of bins of its class; NULL: it is not in the list
 * @next: the next bin in that list, or among those that are spare
 */
struct bin {
	size_t size;
	struct block *top;
	size_t blocks;
	unsigned int class;
	struct bin **link;
	struct bin *next;
};

/**
 * struct cache - the cache of one stream
 * @lock: core.lock comes before it; only account_lock_all() acquires those of several caches
 *
 * Under cache.lock, what every call reads or changes:
 *
 * @run: frees into the cache since the last malloc; read without the lock, too
 * @id: of the stream; CACHE_NOBODY: no stream has this cache
 * @bins: size to bin
 * @central: core.central at the last hit or free
 * @bytes: bytes of cached blocks
 * @floor: mallocs may take @bytes down to this without a new peak of what is live, rounded: @bytes less the cache's
 *	headroom (core/account.h), so that neither a malloc nor a free has to change it
 * @mallocs: hits
 * @last: the block of the last call, if that was a hit
 * @served: core.pressure + 1 at the last hit, in 32 bits; 0: no hit yet
 * @count: cached blocks
 * @lent: those of them that are lent
 * @room: the cache's headroom for bytes as requested
 *
 * What a free needs besides:
 *
 * @wary: @nervous or @watch is not 0
 * @legacy: the stream is the legacy default stream, which can be recorded at any time
 * @pressure: core.pressure at the last free, in 32 bits
 * @blocks: address to block; all but the stranded ones
 * @freed: the number of the last free
 * @marked: the last free that the mark covers
 * @unmarked_most: an upper bound on the size of the largest uncovered block
 * @unmarked: uncovered bytes: of blocks with @freed above @marked
 * @most: bytes that may be cached
 * @limit: bytes that may be uncovered
 * @stream: the stream
 *
 * The rest:
 *
 * @nervous: frees still to be recorded since core.pressure changed
 * @watch: frees until one takes the slow path; 0: none has to
 * @listed: lists of the bins that may have cached blocks, by class
 * @classes: a bit for each class whose list is not empty
 * @mark: the event to record again, owned by the cache alone; NULL: none, or others share it
 * @mark_seq: number of its record among the stream's; 0: not recorded
 * @recorded: events that were recorded on the stream, or put off
 * @put_off: how many records of the mark were put off since the last that was made, see cache_mark()
 * @flushed: blocks that the cache has let go of
 * @added: blocks that were allocated past the cache
 * @before: the stream's mallocs when its phase began
 * @spare: unused structures, for later blocks
 * @spares: how many there are
 * @spare_bin: unused bins, for later sizes
 *
 * Under core.lock:
 *
 * @adopted: the last mark that was shared with other streams, as an event with references
 * @stranded: its stranded blocks
 * @stranded_bytes: bytes of them
 *
 * Between other people's work nothing of this is in the processor's caches, so a hit is to find all it needs in two of
 * their lines, and a free in three.
 */
struct cache {
	struct brief_lock lock;
	/* under cache.lock: */
	_Atomic uint32_t run;
	uint64_t id;
	struct table bins;
	uint64_t central;
	uint64_t bytes;
	int64_t floor;
	uint64_t mallocs;

	_Alignas(LINE_SIZE) struct block *last;
	uint32_t served;
	uint16_t count;
	uint16_t lent;
	bool wary;
	bool legacy;
	uint32_t pressure;
	struct table blocks;
	uint64_t room;
	uint64_t freed;
	uint64_t marked;

	_Alignas(LINE_SIZE) size_t unmarked_most;
	uint64_t unmarked;
	uint64_t most;
	uint64_t limit;
	struct stream *stream;
	uint8_t nervous;
	uint16_t watch;
	struct bin *listed[CACHE_CLASSES];
	uint64_t classes[CACHE_CLASS_WORDS];
	struct backend_event *mark;
	uint64_t mark_seq;
	uint64_t recorded;
	unsigned int put_off;
	uint64_t flushed;
	uint64_t added;
	uint64_t before;
	struct block *spare;
	size_t spares;
	struct bin *spare_bin;
	/* under core.lock: */
	struct event *adopted;
	struct block *stranded;
	uint64_t stranded_bytes;
};

/* No stream's id. */
#define CACHE_NOBODY UINT64_MAX

/**
 * cache_new() - make a cache for a new stream
 * @stream: the stream
 * @legacy: whether it is the legacy default stream
 * @limit: bytes that may be uncovered
 * @spare: a retired cache to use again; NULL: allocate one
 *
 * Return: the cache.
 */
struct cache *cache_new(struct stream *stream, bool legacy, uint64_t limit, struct cache *spare);

/**
 * cache_is_empty() - whether a cache has no block, live, cached or stranded
 * @cache: the cache
 */
bool cache_is_empty(struct cache *cache);

/**
 * cache_retire() - part with the stream; stream_forget() keeps the cache for another
 * @cache: the cache, which is empty
 */
void cache_retire(struct cache *cache);

/**
 * cache_end() - let no call find it as that of a stream any more
 * @cache: the cache; a call that uses it ends first
 */
void cache_end(struct cache *cache);

/**
 * cache_clear() - free all that a cache has
 * @cache: the cache, which stays good to be locked
 * @be: the device, entered if possible
 */
void cache_clear(struct cache *cache, struct backend *be);

/**
 * cache_delete() - free a cache and all of its blocks
 * @cache: the cache
 * @be: the device, entered if possible
 */
void cache_delete(struct cache *cache, struct backend *be);

/**
 * cache_mark() - record the mark, so that it covers all frees so far
 * @cache: the cache
 * @handle: a handle of its stream
 *
 * While the legacy default stream is the only one, nobody else needs the event. So 15 of 16 records are put off: an
 * event is recorded once somebody asks whether it is complete, or waits for it.
 *
 * Return: 0, or what the backend's event_create and event_record return; nothing has changed then.
 */
int cache_mark(struct cache *cache, struct CUstream_st *handle) REQUIRES(cache->lock);

/**
 * cache_mark_legacy() - record the mark of the legacy default stream, which needs no handle of the caller
 * @cache: its cache
 *
 * If the stream is under capture or the driver fails, the frees stay uncovered. That is no error.
 */
void cache_mark_legacy(struct cache *cache) REQUIRES(cache->lock);

/**
 * cache_adopt() - share the mark as an event that others can wait for
 * @cache: the cache
 *
 * Return: the event, with a reference that belongs to the cache; NULL: nothing was recorded yet.
 */
struct event *cache_adopt(struct cache *cache) REQUIRES(cache->lock);

/**
 * cache_watch() - let a free take the slow path before long
 * @cache: the cache
 * @frees: which of its frees: 1 for the next
 */
void cache_watch(struct cache *cache, uint16_t frees);

/*
 * Whether the cache must be flushed: it is full, or has so many blocks that its stream may not keep them at rest. The
 * stream is at rest with @live live blocks: 1 before a free, 0 after.
 */
static inline bool cache_is_full(const struct cache *cache, uint32_t live)
{
	return cache->count >= CACHE_AT_REST &&
	       (cache->count >= CACHE_BLOCKS_MAX || cache->blocks.used == cache->count + live);
}

/* How many blocks the stream has allocated, from the cache or not. */
static inline uint64_t cache_allocations(const struct cache *cache) REQUIRES(cache->lock);
static inline uint64_t cache_allocations(const struct cache *cache)
{
	brief_assert_held(&cache->lock);
	return cache->mallocs + cache->added;
}

/* Frees in a row so far. Only a request of the stream has use for it, so others' changes need not be seen. */
static inline uint32_t cache_run(const struct cache *cache)
{
	return atomic_load_explicit(&cache->run, memory_order_relaxed);
}

static inline void cache_set_run(struct cache *cache, uint32_t run) REQUIRES(cache->lock);
static inline void cache_set_run(struct cache *cache, uint32_t run)
{
	brief_assert_held(&cache->lock);
	atomic_store_explicit(&cache->run, run, memory_order_relaxed);
}

/* Frees into the cache: each such block was served again, is still here, or was let go of. */
static inline uint64_t cache_frees(const struct cache *cache) REQUIRES(cache->lock);
static inline uint64_t cache_frees(const struct cache *cache)
{
	brief_assert_held(&cache->lock);
	return cache->mallocs + cache->flushed + cache->count;
}

static inline void cache_uncount(struct cache *cache, const struct block *block) REQUIRES(cache->lock);
static inline void cache_uncount(struct cache *cache, const struct block *block)
{
	brief_assert_held(&cache->lock);
	cache->count--;
	if (G_UNLIKELY(block->lent))
		cache->lent--;
	cache->bytes -= block->bin->size;
}

/* What live bytes, rounded, may grow by without a new peak, as far as this cache knows. */
static inline uint64_t cache_headroom(const struct cache *cache) REQUIRES(cache->lock);
static inline uint64_t cache_headroom(const struct cache *cache)
{
	brief_assert_held(&cache->lock);
	return cache->bytes - (uint64_t)cache->floor;
}

/* Whether a malloc makes no new peak of what is live, as far as this cache knows. */
static inline bool cache_is_below_peak(const struct cache *cache, size_t size, size_t requested) REQUIRES(cache->lock);
static inline bool cache_is_below_peak(const struct cache *cache, size_t size, size_t requested)
{
	brief_assert_held(&cache->lock);
	return (int64_t)(cache->bytes - size) >= cache->floor && requested <= cache->room;
}

/**
 * cache_class() - the size class of a size
 * @size: bytes
 *
 * There are four classes to a power of two.
 *
 * Return: the class, below CACHE_CLASSES; it never decreases as sizes grow.
 */
unsigned int cache_class(size_t size);

/**
 * cache_unlist() - take a bin without cached blocks out of the list of its class
 * @cache: the cache
 * @bin: the bin, which may be freed
 */
void cache_unlist(struct cache *cache, struct bin *bin) REQUIRES(cache->lock);

/**
 * cache_forget() - remove a block from the tables of its cache
 * @block: the block; the lock of its cache is held, too
 */
void cache_forget(struct block *block);

/* For the slow path, with the backend entered. */

/**
 * cache_add() - make a block for a region that was allocated
 * @region: the region
 * @lent: whether it is a small request in memory that large ones could have
 */
void cache_add(struct region *region, bool lent);

/**
 * cache_enter() - the same, and count the region as live
 * @region: the region
 * @lent: as for cache_add()
 *
 * A stream most often has the headroom of its own frees, so that no other cache need be asked.
 *
 * Return: whether the cache has the headroom; otherwise account_enter() is to follow.
 */
bool cache_enter(struct region *region, bool lent);

/**
 * cache_begins() - whether a malloc is the first after a long run of frees: a new phase
 * @cache: the cache of its stream
 */
bool cache_begins(struct cache *cache);

/**
 * cache_holds() - whether an allocated region is free from the program's point of view: cached or stranded
 * @region: the region, of any kind
 */
bool cache_holds(const struct region *region);

/**
 * cache_take() - begin a free on the slow path
 * @region: an allocated region
 *
 * Its stream's cache neither frees nor serves it until cache_untake(), cache_drop() or cache_strand().
 *
 * Return: false if it is already freed or being freed.
 */
bool cache_take(struct region *region);

/**
 * cache_share() - let the free of an allocated region take the slow path
 * @region: the region
 *
 * Return: false if it is already freed or being freed.
 */
bool cache_share(struct region *region);

/**
 * cache_mark_work() - cover work of the library's own on an allocated block
 * @region: the region, which has a block
 * @handle: a handle of the stream of the block, to which the work was submitted
 * @reserved: an event of the driver; NULL afterwards if the cache had none
 *
 * A free on any stream is then ordered after that work, as after an earlier free by the owner.
 *
 * Return: 0, or what the backend's event_record returns; nothing has changed then but @reserved.
 */
int cache_mark_work(struct region *region, struct CUstream_st *handle, struct backend_event **reserved);

/**
 * cache_work() - a point behind the work of the library's own on an allocated region
 * @region: the region
 *
 * Return: the event, valid while the caller holds core.lock; NULL: there is nothing to wait for.
 */
struct event *cache_work(struct region *region);

/**
 * cache_untake() - undo cache_take(): it stays allocated
 * @region: the region
 * @shared: whether its free must take the slow path
 */
void cache_untake(struct region *region, bool shared);

/**
 * cache_drop() - finish a free on the slow path: the cache forgets the block
 * @region: the region
 */
void cache_drop(struct region *region);

/**
 * cache_behind() - what another stream must wait for before it can free a region
 * @region: the region, after cache_take()
 * @event: receives the event, valid while the caller holds core.lock; NULL: nothing to wait for
 *
 * Return: false if no event covers the owner's earlier free, so that the region has to be stranded.
 */
bool cache_behind(struct region *region, struct event **event);

/**
 * cache_strand() - keep a region that another stream freed until an event covers its owner's earlier free
 * @region: the region, after cache_take()
 * @event: the point in the stream that freed it
 */
void cache_strand(struct region *region, struct event *event);

#endif /* CACHE_H */
