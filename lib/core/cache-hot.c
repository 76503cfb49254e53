// SPDX-License-Identifier: LGPL-2.1-or-later
/* The hot path: what a stream's malloc and free do with its cache, mostly without the lock of the pool. */
#include <errno.h>
#include <stdatomic.h>
#include <glib.h>

#include "core/account.h"
#include "core/cache-hot.h"
#include "core/cache.h"
#include "core/core.h"
#include "trace/recorder.h"

void cache_remember(struct core *core, struct stream *stream)
{
	struct cache *_Atomic *known = &core->known[stream->id % CACHE_KNOWN];

	lock_assert_held(&core->lock);
	/* All threads read it, so it is written to as seldom as possible. */
	if (atomic_load_explicit(known, memory_order_relaxed) != stream->cache)
		atomic_store_explicit(known, stream->cache, memory_order_release);
}

/* Locks a cache if it is that of a stream. */
static bool cache_lock_known(struct cache *cache, uint64_t id) TRY_ACQUIRE(true, cache->lock);
static bool cache_lock_known(struct cache *cache, uint64_t id)
{
	if (!cache)
		return false;
	brief_acquire(&cache->lock);
	if (G_LIKELY(cache->id == id))
		return true;
	brief_release(&cache->lock);
	return false;
}

static struct cache *cache_look_up(struct core *core, uint64_t id)
{
	struct cache *cache = NULL;
	struct stream *stream;

	/* A free that names no pool asks one that need not have the block, and must not wait for it. */
	if (!lock_try(&core->lock))
		return NULL;
	/* Without the lock, another thread may forget the stream; its cache stays. */
	stream = core->streams.ended ? NULL : stream_find(&core->streams, id);
	if (stream) {
		cache_remember(core, stream);
		cache = stream->cache;
	}
	lock_release(&core->lock);
	return cache;
}

/*
 * Locks the cache of a stream, if it returns 0. *@cache is NULL where the pool does not know the stream, or has
 * forgotten it; the slow path then makes it known.
 */
NO_LOCK_ANALYSIS
static int cache_lock(struct core *core, struct CUstream_st *handle, uint64_t *id, struct cache **cache)
{
	int err;

	err = core->ops->stream_id(core->backend, handle, id);
	if (G_UNLIKELY(err))
		return err;
	*cache = atomic_load_explicit(&core->known[*id % CACHE_KNOWN], memory_order_acquire);
	if (G_LIKELY(cache_lock_known(*cache, *id)))
		return 0;
	*cache = cache_look_up(core, *id);
	if (!cache_lock_known(*cache, *id))
		*cache = NULL;
	return 0;
}

/* For cache_last(): that a cache served a call since the latest slow path. */
static void note_hit(struct cache *cache, struct core *core)
{
	brief_assert_held(&cache->lock);
	cache->central = atomic_load_explicit(&core->central, memory_order_relaxed);
}

/*
 * Tells whether the first malloc of a phase goes to the policy, which flushes the cache then (begin_phase()). It does
 * not if the cache has all blocks of the phase before: a loop that allocates and frees the same blocks needs no policy.
 */
static bool leave_to_policy(struct cache *cache, const struct core *core)
{
	brief_assert_held(&cache->lock);
	if (core->regions.keeps && cache_allocations(cache) - cache->before > cache->count)
		return true;
	cache->before = cache_allocations(cache);
	return false;
}

/* The block to be served; NULL: none. */
static inline struct block *find_block(struct cache *cache, const struct core *core, size_t size)
{
	struct bin *bin = table_find(&cache->bins, size);
	struct block *block = bin ? bin->top : NULL;

	brief_assert_held(&cache->lock);
	if (G_UNLIKELY(cache_run(cache) >= CACHE_PHASE) && block && leave_to_policy(cache, core))
		return NULL;
	return block;
}

/* Return: 1, for cache_malloc(). */
static inline int take_cached(struct cache *cache, struct core *core, struct block *block, size_t requested,
			       uint64_t *addr)
{
	brief_assert_held(&cache->lock);
	note_hit(cache, core);
	cache_set_run(cache, 0);
	block->bin->top = block->next;
	block->state = BLOCK_LIVE;
	block->requested = requested;
	cache->last = block;
	cache_uncount(cache, block);
	cache->room -= requested;
	cache->mallocs++;
	cache->served = (uint32_t)atomic_load_explicit(&core->pressure, memory_order_relaxed) + 1;
	*addr = block->addr;
	return 1;
}

/* With headroom from elsewhere. Return: 1; 0: the stream has no such block any more; -EAGAIN: it may be a new peak. */
static int take_with_headroom(struct core *core, struct cache *cache, uint64_t id, size_t size, size_t requested,
			uint64_t *addr)
{
	struct block *block;
	int ret = -EAGAIN;

	/* What another thread uses up meanwhile has to be found again. */
	while (ret == -EAGAIN && account_fund(&core->account, cache, size, requested)) {
		if (!cache_lock_known(cache, id))
			return 0;
		brief_assert_held(&cache->lock);
		block = find_block(cache, core, size);
		if (!block)
			ret = 0;
		else if (cache_is_below_peak(cache, size, requested))
			ret = take_cached(cache, core, block, requested, addr);
		brief_release(&cache->lock);
	}
	return ret;
}

/* With the locks of all caches, so that a new peak is the live bytes of one moment. Return: 1; 0, as above. */
static int take_at_peak(struct core *core, struct cache *cache, uint64_t id, size_t size, size_t requested,
			 uint64_t *addr)
{
	struct block *block;
	int ret = 0;

	account_lock_all(&core->account);
	brief_assert_held(&cache->lock);
	block = cache->id == id ? find_block(cache, core, size) : NULL;
	if (block) {
		account_cover(&core->account, cache, size, requested);
		ret = take_cached(cache, core, block, requested, addr);
	}
	account_unlock_all(&core->account);
	return ret;
}

/* As cache_malloc(), where the cache has too little headroom. Releases its lock. */
static int malloc_near_peak(struct core *core, struct cache *cache, size_t size, size_t requested, uint64_t *addr)
	__attribute__((cold, noinline)) RELEASE(cache->lock);
static int malloc_near_peak(struct core *core, struct cache *cache, size_t size, size_t requested, uint64_t *addr)
{
	uint64_t id = cache->id;
	int ret;

	brief_release(&cache->lock);
	ret = take_with_headroom(core, cache, id, size, requested, addr);
	return ret == -EAGAIN ? take_at_peak(core, cache, id, size, requested, addr) : ret;
}

int cache_malloc(struct core *core, uint64_t *addr, size_t requested, struct CUstream_st *handle, uint64_t *id)
{
	size_t size = core_round(core, requested);
	struct cache *cache;
	struct block *block;
	int ret;

	if (!size)
		return 0;
	ret = cache_lock(core, handle, id, &cache);
	if (G_UNLIKELY(ret || !cache))
		return ret;
	brief_assert_held(&cache->lock);
	block = find_block(cache, core, size);
	if (block && G_UNLIKELY(!cache_is_below_peak(cache, size, requested)))
		return malloc_near_peak(core, cache, size, requested, addr);
	ret = block ? take_cached(cache, core, block, requested, addr) : 0;
	brief_release(&cache->lock);
	return ret;
}

/*
 * Whether so many more bytes may be uncovered once a block is freed. A stream that is alone may have more of them, as
 * no other could use them; but one that has nothing else may be about to go, and others to come. Whether it is alone is
 * asked last, as other threads write there.
 */
static inline __attribute__((always_inline)) bool may_be_unmarked(const struct cache *cache, uint64_t more)
{
	const struct stream *stream = cache->stream;
	uint64_t bytes = cache->unmarked + more;

	brief_assert_held(&cache->lock);
	if (G_LIKELY(bytes <= cache->limit))
		return true;
	if (bytes > CACHE_SOLE_SHARES * cache->limit || cache->blocks.used == cache->count + 1u)
		return false;
	return atomic_load_explicit(&stream->map->sole, memory_order_relaxed) == stream;
}

static inline __attribute__((always_inline)) void note_unmarked(struct cache *cache, struct block *block, uint64_t more)
{
	brief_assert_held(&cache->lock);
	block->freed = ++cache->freed;
	cache->unmarked += more;
	cache->unmarked_most = MAX(cache->unmarked_most, block->bin->size);
}

/* Whether a free is to be recorded, as a stream was short of memory lately. */
static bool is_nervous(struct cache *cache, uint32_t pressure)
{
	brief_assert_held(&cache->lock);
	if (cache->pressure != pressure) {
		cache->pressure = pressure;
		cache->nervous = CACHE_NERVOUS;
	}
	if (!cache->nervous)
		return false;
	cache->nervous--;
	return true;
}

/* The rare part of note_free(). @more: bytes that become uncovered without a record. */
static int note_free_wary(struct cache *cache, struct block *block, struct CUstream_st *handle, uint64_t more,
			  uint32_t pressure) __attribute__((cold, noinline));
static int note_free_wary(struct cache *cache, struct block *block, struct CUstream_st *handle, uint64_t more,
			  uint32_t pressure)
{
	uint64_t before = block->freed;
	bool nervous = is_nervous(cache, pressure), due = cache->watch == 1;
	int err;

	brief_assert_held(&cache->lock);
	cache->watch -= cache->watch > 0;
	cache->wary = cache->nervous || cache->watch;
	if (due)
		return 1;
	if (cache->legacy || (!nervous && may_be_unmarked(cache, more))) {
		note_unmarked(cache, block, more);
		return 0;
	}
	block->freed = ++cache->freed;
	err = cache_mark(cache, handle);
	if (err)
		block->freed = before;
	return err;
}

/*
 * A free with a record, or, where that will do, without. Return: 0; 1: it is to take the slow path. Inline, as are
 * others, in both instances of take_back().
 */
static inline __attribute__((always_inline)) int note_free(struct cache *cache, struct core *core, struct block *block,
							   struct CUstream_st *handle)
{
	uint64_t more = block->freed > cache->marked ? 0 : block->bin->size;
	uint32_t pressure = (uint32_t)atomic_load_explicit(&core->pressure, memory_order_relaxed);

	brief_assert_held(&cache->lock);
	if (G_UNLIKELY(cache->pressure != pressure || cache->wary) ||
	    (!cache->legacy && !may_be_unmarked(cache, more)))
		return note_free_wary(cache, block, handle, more, pressure);
	note_unmarked(cache, block, more);
	return 0;
}

static inline __attribute__((always_inline)) void bin_list(struct cache *cache, struct bin *bin)
{
	brief_assert_held(&cache->lock);
	bin->link = &cache->listed[bin->class];
	bin->next = *bin->link;
	if (bin->next)
		bin->next->link = &bin->next;
	*bin->link = bin;
	cache->classes[bin->class / 64] |= UINT64_C(1) << bin->class % 64;
}

static inline __attribute__((always_inline)) void bin_push(struct cache *cache, struct block *block)
{
	brief_assert_held(&cache->lock);
	block->state = BLOCK_CACHED;
	block->next = block->bin->top;
	block->bin->top = block;
	if (!block->bin->link)
		bin_list(cache, block->bin);
	cache->last = NULL;
	cache_set_run(cache, cache_run(cache) + 1);
	cache->count++;
	if (G_UNLIKELY(block->lent))
		cache->lent++;
	cache->bytes += block->bin->size;
	cache->room += block->requested;
}

static void record_zero(struct core *core, uint64_t addr, size_t bytes, uint64_t id) __attribute__((cold));
static void record_zero(struct core *core, uint64_t addr, size_t bytes, uint64_t id)
{
	recorder_add(core->recorder, &(struct record){ .op = RECORD_MALLOC, .addr = addr, .bytes = bytes, .stream = id,
						       .flags = RECORD_ZERO, .pool = core->recorded_as });
}

/* Nobody else can free the block before the call returns. */
int cache_malloc_recorded(struct core *core, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t *id,
			  bool zero)
{
	int ret;

	ret = cache_malloc(core, addr, size, handle, id);
	if (ret > 0 && G_UNLIKELY(zero))
		record_zero(core, *addr, size, *id);
	else if (ret > 0)
		recorder_add_cached(core->recorder, core->recorded_as, RECORD_MALLOC, *addr, size, *id);
	return ret;
}

/* @recorded is a constant wherever this is inlined, so that a pool without a recorder has nothing of one. */
static inline __attribute__((always_inline)) int take_back(struct core *core, uint64_t addr, struct CUstream_st *handle,
							   bool recorded)
{
	struct cache *cache;
	struct block *block;
	uint64_t id;
	int ret;

	ret = cache_lock(core, handle, &id, &cache);
	if (G_UNLIKELY(ret || !cache))
		return ret;
	brief_assert_held(&cache->lock);
	block = table_find(&cache->blocks, addr);
	if (block && block->state == BLOCK_LIVE && !cache_is_full(cache, 1) &&
	    block->bin->size <= cache->most - cache->bytes) {
		ret = note_free(cache, core, block, handle);
		if (!ret) {
			note_hit(cache, core);
			bin_push(cache, block);
			if (recorded)
				recorder_add_cached(core->recorder, core->recorded_as, RECORD_FREE, addr, 0, id);
			ret = 1;
		} else if (ret > 0) {
			ret = 0;
		}
	}
	brief_release(&cache->lock);
	return ret;
}

int cache_free(struct core *core, uint64_t addr, struct CUstream_st *handle)
{
	return take_back(core, addr, handle, false);
}

/* Records it under the lock of the cache, before another thread can have the block. */
int cache_free_recorded(struct core *core, uint64_t addr, struct CUstream_st *handle)
{
	return take_back(core, addr, handle, true);
}
