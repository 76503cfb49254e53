/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What stands in front of the region maps: each stream keeps what it frees, by size, and has it back without the pool's
 * lock, and without a walk but for one over what is cached where no block is of the size. Of the driver it takes to be
 * told which stream it is, and, at times, the record of an event.
 *
 * A block is an allocation that was made for the stream, live or freed and cached. For the maps it is allocated either
 * way. The pool's own, central, calls flush what is cached before they need the truth; a flush is an ordinary free.
 *
 * The stream itself needs no event to use a block again: what it submits comes after what it submitted. Others do. An
 * event can be recorded while a call is given a handle of the stream, and at any time on the legacy default stream,
 * which is always there; later the handle may be gone, and that of a per-thread stream means another stream elsewhere.
 * So a cache has one mark, an event that is recorded again and again, and stands for all frees up to then. A free goes
 * without a record, and leaves its block unmarked, as long as the bytes of such blocks stay below a limit and nobody
 * in the pool is short of memory: what is unmarked is the stream's alone until its next call that looks around for as
 * much, or is marked, and a small block may so stay its own for long. The
 * bytes of a block count until the next record even if it is allocated again meanwhile, as what was submitted before
 * that free may still be pending, and another stream that frees the block need not come after it.
 *
 * The limit of a stream is a sixteenth of a thousandth (1/1024) of the device's memory, or, once many have come, a
 * sixteenth of what all of them leave of twice that thousandth; so no more than that can be kept from others, however
 * many streams are destroyed without a word. The first has eight times as much as long as it is the only one, and has
 * something allocated: there is nobody to keep anything from, and it is not about to go. What is too little to be of use
 * is none: each free of such a stream is marked. A stream that has nothing left is forgotten now and then, and its cache
 * and its share go to one to come.
 *
 * A cache has its own lock. A thread may have a cache in its hand when that changes its stream, so caches are not freed
 * before the pool, and tell whose they are.
 */
#ifndef CACHE_H
#define CACHE_H

#include <stdbool.h>
#include <stdint.h>

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

/* How many blocks a stream caches; when there are more to be freed, it is flushed, so that no flush takes long. */
#define CACHE_BLOCKS_MAX 256

/*
 * A stream that has freed all it had keeps fewer than this. A program that begins anew then comes to addresses that were
 * chosen when it began before, rather than to those that it freed last.
 */
#define CACHE_AT_REST 16

/* After somebody was short of memory, so many frees of each cache are marked. */
#define CACHE_NERVOUS 64

/* The only stream may leave so many times as much unmarked. */
#define CACHE_SOLE_SHARES 8

/* Bins of sizes that are alike, four classes to a doubling from the smallest size on; the last has all above. */
#define CACHE_CLASSES 128
#define CACHE_CLASS_WORDS (CACHE_CLASSES / 64)

/* So many streams are found without a lock: those that were met last, each where its id says. */
#define CACHE_KNOWN 1024

/* No two threads write to one cache line, nor to the one that the processor fetches along with it. */
#define CACHE_ALIGN 128

enum block_state {
	BLOCK_LIVE,		/* allocated */
	BLOCK_CACHED,		/* freed, in its bin */
	BLOCK_SHARED,		/* allocated, and not to be cached when it is freed */
	BLOCK_TAKEN,		/* a central free is at it */
	BLOCK_STRANDED		/* not in the table: freed on a stream that may not come after an unmarked free */
};

/**
 * struct block - an allocation that was made for a stream
 * @addr: where
 * @region: the region; never NULL
 * @cache: of the stream
 * @bin: of its size
 * @next: the next in its bin, or among those that are stranded or spare
 * @freed: which of the cache's frees was its last, or stands for work of the library; 0: it was not freed yet
 * @event: stranded: the point in the stream that freed it
 * @state: what it is
 * @lent: it is a small request in memory that large ones could have: not in pages of the spans' own
 */
struct block {
	uint64_t addr;
	struct region *region;
	struct cache *cache;
	struct bin *bin;
	struct block *next;
	uint64_t freed;
	struct event *event;
	enum block_state state;
	bool lent;
};

/**
 * struct bin - the blocks of one size
 * @size: bytes
 * @top: those that are cached, the last that was freed first
 * @blocks: how many there are, cached or not
 * @class: of its size
 * @link: what points at it in the cache's list of those of its class that may have cached blocks; NULL: it is not there
 * @next: the next in there
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
 * struct cache - what one stream keeps
 * @lock: the pool's comes before it, and no thread holds that of two caches
 *
 * Under cache.lock:
 *
 * @id: of the stream; CACHE_NOBODY: it has none
 * @stream: the stream
 * @legacy: it is the legacy default stream, which can be recorded from anywhere
 * @limit: bytes that may be unmarked
 * @most: bytes that may be cached
 * @blocks: address to block; all but those that are stranded
 * @bins: size to bin
 * @listed: the bins that may have cached blocks, by class
 * @classes: a bit for each class that has any of those
 * @freed: how many frees it has taken, ever
 * @marked: how many of them the mark stands for
 * @unmarked: bytes of blocks whose last free is after that
 * @unmarked_most: bytes of the largest block that was freed after that, or more
 * @mark: the event to record, which nobody else has; NULL: there is none yet
 * @mark_seq: which of its stream's events it is; 0: not recorded
 * @recorded: how many events were recorded on the stream
 * @pressure: the pool's, as of the last free
 * @served: the pool's pressure, and one more, as of the last allocation that was served; 0: there was none
 * @nervous: how many frees are to be marked after a change of it
 * @count: how many blocks are cached
 * @lent: how many of them are small, in memory that large requests could have
 * @bytes: bytes of them
 * @lowest: the fewest that these were since @central changed
 * @mallocs: allocations that were served
 * @frees: frees that were taken
 * @central: the pool's, as of the last malloc or free that was served
 * @last: the block, if that was a malloc
 * @spare: blocks to be used again
 * @spares: how many
 *
 * Under core.lock:
 *
 * @adopted: the mark before @mark was last recorded, as others see it
 * @stranded: blocks that are
 * @stranded_bytes: bytes of them
 */
struct cache {
	struct lock lock;
	/* under cache.lock: */
	uint64_t id;
	struct stream *stream;
	bool legacy;
	uint64_t limit;
	uint64_t most;
	struct table blocks;
	struct table bins;
	struct bin *listed[CACHE_CLASSES];
	uint64_t classes[CACHE_CLASS_WORDS];
	uint64_t freed;
	uint64_t marked;
	uint64_t unmarked;
	size_t unmarked_most;
	struct backend_event *mark;
	uint64_t mark_seq;
	uint64_t recorded;
	uint64_t pressure;
	uint64_t served;
	unsigned int nervous;
	size_t count;
	size_t lent;
	uint64_t bytes;
	uint64_t lowest;
	uint64_t mallocs;
	uint64_t frees;
	uint64_t central;
	struct block *last;
	struct block *spare;
	size_t spares;
	/* under core.lock: */
	struct event *adopted;
	struct block *stranded;
	uint64_t stranded_bytes;
};

/* No stream's id. */
#define CACHE_NOBODY UINT64_MAX

/**
 * cache_new() - a cache for a stream that was just met
 * @stream: the stream
 * @legacy: whether it is the legacy default stream
 * @limit: bytes that may be unmarked
 * @spare: one that was retired, to be used again; NULL: there is none
 *
 * Return: the cache.
 */
struct cache *cache_new(struct stream *stream, bool legacy, uint64_t limit, struct cache *spare);

/**
 * cache_is_empty() - whether a cache knows no block
 * @cache: the cache
 */
bool cache_is_empty(struct cache *cache);

/**
 * cache_retire() - its stream is forgotten
 * @cache: the cache, which is empty
 */
void cache_retire(struct cache *cache);

/**
 * cache_delete() - forget a cache, whatever is in it
 * @cache: the cache
 * @be: the device, entered if that is possible
 */
void cache_delete(struct cache *cache, struct backend *be);

/**
 * cache_mark() - let the mark stand for all that the cache has taken so far
 * @cache: the cache
 * @handle: a handle of its stream
 *
 * Return: 0, or what the backend's event_create and event_record return; nothing has changed then.
 */
int cache_mark(struct cache *cache, struct CUstream_st *handle) REQUIRES(cache->lock);

/**
 * cache_mark_legacy() - the same of the legacy default stream, whose handle is good at any time
 * @cache: its cache
 *
 * Where the stream has a part in a capture, or the driver fails, nothing is marked; that is no error.
 */
void cache_mark_legacy(struct cache *cache) REQUIRES(cache->lock);

/**
 * cache_adopt() - the mark as an event that others may wait for and hold
 * @cache: the cache
 *
 * Return: the event, with a reference that is the cache's; NULL: there was no mark yet.
 */
struct event *cache_adopt(struct cache *cache) REQUIRES(cache->lock);

/* Whether a cache does not take one more block, the last that is live or another. */
static inline bool cache_is_full(const struct cache *cache)
{
	return cache->count >= CACHE_AT_REST &&
	       (cache->count >= CACHE_BLOCKS_MAX || cache->blocks.used == cache->count + 1);
}

/* A block is cached no more. */
static inline void cache_uncount(struct cache *cache, const struct block *block) REQUIRES(cache->lock);
static inline void cache_uncount(struct cache *cache, const struct block *block)
{
	lock_assert_held(&cache->lock);
	cache->count--;
	cache->lent -= block->lent;
	cache->bytes -= block->bin->size;
	if (cache->lowest > cache->bytes)
		cache->lowest = cache->bytes;
}

/**
 * cache_class() - which class a size is of
 * @size: bytes
 *
 * Each quarter of a power of two that sizes are larger than that is one.
 *
 * Return: the class, less than CACHE_CLASSES; of a larger size none that is less.
 */
unsigned int cache_class(size_t size);

/**
 * cache_unlist() - take a bin that has no cached block out of the list of its class
 * @cache: the cache
 * @bin: the bin; it may be gone then
 */
void cache_unlist(struct cache *cache, struct bin *bin) REQUIRES(cache->lock);

/**
 * cache_forget() - a block is no block of the cache any more
 * @block: the block; the lock of its cache is held, too
 */
void cache_forget(struct block *block);

/* What follows is for the slow path, with the backend entered. */

/**
 * cache_add() - a region was allocated for a stream
 * @region: the region
 * @lent: whether it is small, in memory that large requests could have: not in pages of the spans' own
 */
void cache_add(struct region *region, bool lent);

/**
 * cache_holds() - whether a region that is allocated for the maps is free in truth
 * @region: the region, of any kind
 */
bool cache_holds(const struct region *region);

/**
 * cache_take() - begin a central free
 * @region: an allocated region
 *
 * No stream takes it any more, until cache_untake() or cache_drop().
 *
 * Return: false if it is freed already.
 */
bool cache_take(struct region *region);

/**
 * cache_share() - whether an allocated region is to be freed by central calls only
 * @region: the region
 * @shared: whether it is
 *
 * Return: false if it is freed already.
 */
bool cache_share(struct region *region, bool shared);

/**
 * cache_mark_work() - the library has submitted work of its own on an allocated block to the stream of the block
 * @region: the region, which has a block
 * @handle: a handle of the stream
 *
 * Whoever frees it is ordered after that work, as after an earlier free of the stream.
 *
 * Return: 0, or what the backend's event_create and event_record return; nothing has changed then.
 */
int cache_mark_work(struct region *region, struct CUstream_st *handle);

/**
 * cache_untake() - it stays allocated
 * @region: the region
 * @shared: whether it is to be freed by central calls only
 */
void cache_untake(struct region *region, bool shared);

/**
 * cache_drop() - it is freed, and none of the cache's business any more
 * @region: the region
 */
void cache_drop(struct region *region);

/**
 * cache_behind() - what a stream has to come after before it can free another's region
 * @region: the region, taken
 * @event: receives the event, as long as the caller holds the lock; NULL: there is none to wait for
 *
 * Return: false when it cannot be told, so that the region is to be stranded.
 */
bool cache_behind(struct region *region, struct event **event);

/**
 * cache_strand() - keep a region that another stream has freed until this stream's earlier free is marked
 * @region: the region, taken
 * @event: the point in the other stream
 */
void cache_strand(struct region *region, struct event *event);

#endif /* CACHE_H */
