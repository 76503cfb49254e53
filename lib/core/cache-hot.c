// SPDX-License-Identifier: LGPL-2.1-or-later
/* The hot path: what a stream's malloc and free do with its cache, mostly without the lock of the pool. */
#include <stdatomic.h>
#include <glib.h>

#include "core/cache-hot.h"
#include "core/cache.h"
#include "core/core.h"

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

	/* Without the lock, another thread may forget the stream; its cache stays. */
	lock_acquire(&core->lock);
	stream = stream_find(&core->streams, id);
	if (stream) {
		cache_remember(core, stream);
		cache = stream->cache;
	}
	lock_release(&core->lock);
	return cache;
}

/*
 * Locks the cache of a stream, if it returns 0. *@cache is NULL where the pool does not know the stream, or has forgotten
 * it; the slow path then makes it known.
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

/* What central calls have done so far makes a period of its own of what follows. */
static void enter_period(struct cache *cache, struct core *core)
{
	uint64_t central = atomic_load_explicit(&core->central, memory_order_relaxed);

	brief_assert_held(&cache->lock);
	if (cache->central == central)
		return;
	cache->central = central;
	cache->lowest = cache->bytes;
}

/*
 * Whether a new phase is the policy's. It is not if the cache has all that was allocated in the phase before: a loop that
 * allocates and frees the same blocks is served from the cache.
 */
static bool leave_to_policy(struct cache *cache, const struct core *core)
{
	brief_assert_held(&cache->lock);
	if (core->regions.keeps && cache_allocations(cache) - cache->before > cache->count)
		return true;
	cache->before = cache_allocations(cache);
	return false;
}

int cache_malloc(struct core *core, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t *id)
{
	struct cache *cache;
	struct block *block;
	struct bin *bin;
	int err;

	size = core_round(core, size);
	if (!size)
		return 0;
	err = cache_lock(core, handle, id, &cache);
	if (G_UNLIKELY(err || !cache))
		return err;
	brief_assert_held(&cache->lock);
	bin = table_find(&cache->bins, size);
	block = bin ? bin->top : NULL;
	if (G_UNLIKELY(cache->run >= CACHE_PHASE) && block && leave_to_policy(cache, core))
		block = NULL;
	if (block) {
		enter_period(cache, core);
		cache->run = 0;
		bin->top = block->next;
		block->state = BLOCK_LIVE;
		cache->last = block;
		cache_uncount(cache, block);
		cache->mallocs++;
		cache->served = (uint32_t)atomic_load_explicit(&core->pressure, memory_order_relaxed) + 1;
		*addr = block->addr;
	}
	brief_release(&cache->lock);
	return block ? 1 : 0;
}

/* Nobody in the pool has been short of memory lately. */
static bool is_calm(struct cache *cache, struct core *core)
{
	uint32_t pressure = (uint32_t)atomic_load_explicit(&core->pressure, memory_order_relaxed);

	brief_assert_held(&cache->lock);
	if (cache->pressure != pressure) {
		cache->pressure = pressure;
		cache->nervous = CACHE_NERVOUS;
	}
	if (!cache->nervous)
		return true;
	cache->nervous--;
	return false;
}

/*
 * Whether so many more bytes may be uncovered once a block is freed. A stream that is alone may have more of them, as no
 * other could use them; but one that has nothing else may be about to go, and others to come. Whether it is alone is
 * asked last, as other threads write there.
 */
static bool may_be_unmarked(const struct cache *cache, uint64_t more)
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

/* A free with a record, or, where that will do, without. */
static int note_free(struct cache *cache, struct core *core, struct block *block, struct CUstream_st *handle)
{
	uint64_t before = block->freed;
	uint64_t more = before > cache->marked ? 0 : block->bin->size;
	bool calm = is_calm(cache, core);
	int err;

	brief_assert_held(&cache->lock);
	block->freed = ++cache->freed;
	if (cache->legacy || (calm && may_be_unmarked(cache, more))) {
		cache->unmarked += more;
		cache->unmarked_most = MAX(cache->unmarked_most, block->bin->size);
		return 0;
	}
	err = cache_mark(cache, handle);
	if (err)
		block->freed = before;
	return err;
}

static void bin_list(struct cache *cache, struct bin *bin)
{
	brief_assert_held(&cache->lock);
	bin->link = &cache->listed[bin->class];
	bin->next = *bin->link;
	if (bin->next)
		bin->next->link = &bin->next;
	*bin->link = bin;
	cache->classes[bin->class / 64] |= UINT64_C(1) << bin->class % 64;
}

static void bin_push(struct cache *cache, struct block *block)
{
	brief_assert_held(&cache->lock);
	block->state = BLOCK_CACHED;
	block->next = block->bin->top;
	block->bin->top = block;
	if (!block->bin->link)
		bin_list(cache, block->bin);
	cache->last = NULL;
	cache->run++;
	cache->count++;
	cache->lent += block->lent;
	cache->bytes += block->bin->size;
}

int cache_free(struct core *core, uint64_t addr, struct CUstream_st *handle)
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
			enter_period(cache, core);
			bin_push(cache, block);
			ret = 1;
		}
	}
	brief_release(&cache->lock);
	return ret;
}
