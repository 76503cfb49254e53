// SPDX-License-Identifier: LGPL-2.1-or-later
/* The hot path: what a stream's malloc and free do with its cache, and what the cache is made of. */
#include <stdatomic.h>
#include <string.h>
#include <glib.h>

#include "calls/pool.h"
#include "core/cache.h"

/* Bins that have no block are kept while there are no more than this. */
#define BINS_KEPT 1024

/* The classes begin with the smallest size, 512 bytes. */
#define CLASSES_LOG 9

/* Blocks are kept to be used again while there are no more than this; a training step frees a thousand in a row. */
#define SPARES_KEPT 4096

/* Memory that shares no line with what other threads write to. */
static void *alloc_apart(size_t size, size_t align)
{
	return g_aligned_alloc0(1, (size + align - 1) / align * align, align);
}

struct cache *cache_new(struct stream *stream, bool legacy, uint64_t limit, struct cache *spare)
{
	struct cache *cache = spare;

	if (!cache) {
		cache = alloc_apart(sizeof(*cache), CACHE_ALIGN);
		pthread_mutex_init(&cache->lock, NULL);
		table_init(&cache->blocks);
		table_init(&cache->bins);
	}
	pthread_mutex_lock(&cache->lock);
	cache->id = stream->id;
	cache->stream = stream;
	cache->legacy = legacy;
	cache->limit = limit;
	cache->most = stream->map->most_cached;
	pthread_mutex_unlock(&cache->lock);
	return cache;
}

bool cache_is_empty(struct cache *cache)
{
	bool empty;

	pthread_mutex_lock(&cache->lock);
	empty = !cache->blocks.used && !cache->stranded;
	pthread_mutex_unlock(&cache->lock);
	return empty;
}

static void bins_free(struct cache *cache)
{
	for (size_t i = 0; i <= cache->bins.mask; i++)
		g_aligned_free(cache->bins.slots[i].value);
	table_clear(&cache->bins);
}

/* What was marked was of blocks that are gone, so the event is as good for another stream. */
void cache_retire(struct cache *cache)
{
	struct stream_map *map = cache->stream->map;

	map->unmarked_left += cache->limit;
	map->mallocs += cache->mallocs;
	map->frees += cache->frees;
	event_unref(cache->adopted);
	pthread_mutex_lock(&cache->lock);
	bins_free(cache);
	table_init(&cache->bins);
	cache->id = CACHE_NOBODY;
	cache->stream = NULL;
	memset(cache->listed, 0, sizeof(cache->listed));
	memset(cache->classes, 0, sizeof(cache->classes));
	cache->adopted = NULL;
	cache->last = NULL;
	cache->freed = cache->marked = cache->mark_seq = cache->recorded = 0;
	cache->unmarked_most = 0;
	cache->served = cache->nervous = 0;
	cache->mallocs = cache->frees = cache->central = 0;
	pthread_mutex_unlock(&cache->lock);
}

static void blocks_free(struct block *block)
{
	struct block *next;

	for (; block; block = next) {
		next = block->next;
		event_unref(block->event);
		g_aligned_free(block);
	}
}

void cache_delete(struct cache *cache, struct backend *be)
{
	blocks_free(cache->spare);
	blocks_free(cache->stranded);
	for (size_t i = 0; i <= cache->blocks.mask; i++)
		g_aligned_free(cache->blocks.slots[i].value);
	table_clear(&cache->blocks);
	bins_free(cache);
	event_unref(cache->adopted);
	if (cache->mark)
		be->ops->event_destroy(be, cache->mark);
	pthread_mutex_destroy(&cache->lock);
	g_aligned_free(cache);
}

void cache_remember(struct vpmm_pool *pool, struct stream *stream)
{
	struct cache *_Atomic *known = &pool->known[stream->id % CACHE_KNOWN];

	/* All threads read it, so it is written to as seldom as possible. */
	if (atomic_load_explicit(known, memory_order_relaxed) != stream->cache)
		atomic_store_explicit(known, stream->cache, memory_order_release);
}

/* Locks a cache if it is that of a stream. */
static bool cache_lock_known(struct cache *cache, uint64_t id)
{
	if (!cache)
		return false;
	pthread_mutex_lock(&cache->lock);
	if (G_LIKELY(cache->id == id))
		return true;
	pthread_mutex_unlock(&cache->lock);
	return false;
}

static struct cache *cache_look_up(struct vpmm_pool *pool, uint64_t id)
{
	struct cache *cache = NULL;
	struct stream *stream;

	/* Without the lock, another thread may forget the stream; its cache stays. */
	pthread_mutex_lock(&pool->lock);
	stream = stream_find(&pool->streams, id);
	if (stream) {
		cache_remember(pool, stream);
		cache = stream->cache;
	}
	pthread_mutex_unlock(&pool->lock);
	return cache;
}

/*
 * Locks the cache of a stream; *@cache is NULL where the pool has not met the stream, or has forgotten it. Then the
 * central call meets it, and lets the pool know.
 */
static int cache_lock(struct vpmm_pool *pool, struct CUstream_st *handle, uint64_t *id, struct cache **cache)
{
	struct backend *be = pool->backend;
	int err;

	err = be->ops->stream_id(be, handle, id);
	if (G_UNLIKELY(err))
		return err;
	*cache = atomic_load_explicit(&pool->known[*id % CACHE_KNOWN], memory_order_acquire);
	if (G_LIKELY(cache_lock_known(*cache, *id)))
		return 0;
	*cache = cache_look_up(pool, *id);
	if (!cache_lock_known(*cache, *id))
		*cache = NULL;
	return 0;
}

/* What central calls have done so far makes a period of its own of what follows. */
static void enter_period(struct cache *cache, struct vpmm_pool *pool)
{
	uint64_t central = atomic_load_explicit(&pool->central, memory_order_relaxed);

	if (cache->central == central)
		return;
	cache->central = central;
	cache->lowest = cache->bytes;
}

unsigned int cache_class(size_t size)
{
	unsigned int log;

	if (size >> CLASSES_LOG == 0)
		return 0;
	log = 63 - (unsigned int)__builtin_clzll(size);
	return MIN((log - CLASSES_LOG) * 4 + (size >> (log - 2) & 3), CACHE_CLASSES - 1);
}

int cache_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t *id)
{
	struct cache *cache;
	struct block *block;
	struct bin *bin;
	int err;

	size = pool_round(pool, size);
	if (!size)
		return 0;
	err = cache_lock(pool, handle, id, &cache);
	if (G_UNLIKELY(err || !cache))
		return err;
	bin = table_find(&cache->bins, size);
	block = bin ? bin->top : NULL;
	if (block) {
		enter_period(cache, pool);
		bin->top = block->next;
		block->state = BLOCK_LIVE;
		cache->last = block;
		cache_uncount(cache, block);
		cache->mallocs++;
		cache->served = atomic_load_explicit(&pool->pressure, memory_order_relaxed) + 1;
		*addr = block->addr;
	}
	pthread_mutex_unlock(&cache->lock);
	return block ? 1 : 0;
}

int cache_mark(struct cache *cache, struct CUstream_st *handle)
{
	struct backend *be = cache->stream->map->backend;
	int err;

	if (!cache->mark) {
		err = be->ops->event_create(be, &cache->mark);
		if (err)
			return err;
	}
	err = be->ops->event_record(be, cache->mark, handle);
	if (err)
		return err;
	cache->mark_seq = ++cache->recorded;
	cache->marked = cache->freed;
	cache->unmarked = 0;
	cache->unmarked_most = 0;
	return 0;
}

int cache_mark_work(struct region *region, struct CUstream_st *handle)
{
	struct block *block = region->block;
	struct cache *cache = block->cache;
	uint64_t before;
	int err;

	pthread_mutex_lock(&cache->lock);
	before = block->freed;
	block->freed = ++cache->freed;
	err = cache_mark(cache, handle);
	if (err)
		block->freed = before;
	pthread_mutex_unlock(&cache->lock);
	return err;
}

/* Nobody in the pool has been short of memory lately. */
static bool is_calm(struct cache *cache, struct vpmm_pool *pool)
{
	uint64_t pressure = atomic_load_explicit(&pool->pressure, memory_order_relaxed);

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
 * Whether so many more bytes may be unmarked once a block is freed. There may be more as long as there is nobody to keep
 * them from; but a stream that has nothing else may be about to go, and others to come. Who is alone is asked last, as
 * other threads write there.
 */
static bool may_be_unmarked(const struct cache *cache, uint64_t more)
{
	const struct stream *stream = cache->stream;
	uint64_t bytes = cache->unmarked + more;

	if (G_LIKELY(bytes <= cache->limit))
		return true;
	if (bytes > CACHE_SOLE_SHARES * cache->limit || cache->blocks.used == cache->count + 1)
		return false;
	return atomic_load_explicit(&stream->map->sole, memory_order_relaxed) == stream;
}

/* A free with a record, or, where that will do, without. */
static int note_free(struct cache *cache, struct vpmm_pool *pool, struct block *block, struct CUstream_st *handle)
{
	uint64_t before = block->freed;
	uint64_t more = before > cache->marked ? 0 : block->bin->size;
	bool calm = is_calm(cache, pool);
	int err;

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
	bin->link = &cache->listed[bin->class];
	bin->next = *bin->link;
	if (bin->next)
		bin->next->link = &bin->next;
	*bin->link = bin;
	cache->classes[bin->class / 64] |= UINT64_C(1) << bin->class % 64;
}

static void bin_push(struct cache *cache, struct block *block)
{
	block->state = BLOCK_CACHED;
	block->next = block->bin->top;
	block->bin->top = block;
	if (!block->bin->link)
		bin_list(cache, block->bin);
	cache->last = NULL;
	cache->count++;
	cache->lent += block->lent;
	cache->bytes += block->bin->size;
	cache->frees++;
}

int cache_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct cache *cache;
	struct block *block;
	uint64_t id;
	int ret;

	ret = cache_lock(pool, handle, &id, &cache);
	if (G_UNLIKELY(ret || !cache))
		return ret;
	block = table_find(&cache->blocks, addr);
	if (block && block->state == BLOCK_LIVE && cache->count < CACHE_BLOCKS_MAX &&
	    block->bin->size <= cache->most - cache->bytes) {
		ret = note_free(cache, pool, block, handle);
		if (!ret) {
			enter_period(cache, pool);
			bin_push(cache, block);
			ret = 1;
		}
	}
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

struct event *cache_adopt(struct cache *cache)
{
	if (cache->mark_seq) {
		event_unref(cache->adopted);
		cache->adopted = stream_adopt(cache->stream, cache->mark, cache->mark_seq);
		cache->mark = NULL;
		cache->mark_seq = 0;
	}
	return cache->adopted;
}

static struct bin *bin_of(struct cache *cache, size_t size)
{
	struct bin *bin = table_find(&cache->bins, size);

	if (!bin) {
		bin = alloc_apart(sizeof(*bin), CACHE_ALIGN / 2);
		bin->size = size;
		bin->class = cache_class(size);
		table_insert(&cache->bins, size, bin);
	}
	return bin;
}

void cache_add(struct region *region, bool lent)
{
	struct cache *cache = region->stream->cache;
	struct block *block;

	pthread_mutex_lock(&cache->lock);
	block = cache->spare;
	if (block) {
		cache->spare = block->next;
		cache->spares--;
	} else {
		block = alloc_apart(sizeof(*block), CACHE_ALIGN / 2);
	}
	*block = (struct block){
		.addr = region->addr,
		.region = region,
		.cache = cache,
		.bin = bin_of(cache, region->size),
		.state = BLOCK_LIVE,
		.lent = lent,
	};
	block->bin->blocks++;
	table_insert(&cache->blocks, block->addr, block);
	region->block = block;
	pthread_mutex_unlock(&cache->lock);
}

static void drop_unused(struct cache *cache, struct bin *bin)
{
	if (bin->blocks || cache->bins.used <= BINS_KEPT)
		return;
	table_remove(&cache->bins, bin->size);
	g_aligned_free(bin);
}

void cache_unlist(struct cache *cache, struct bin *bin)
{
	*bin->link = bin->next;
	if (bin->next)
		bin->next->link = bin->link;
	bin->link = NULL;
	if (!cache->listed[bin->class])
		cache->classes[bin->class / 64] &= ~(UINT64_C(1) << bin->class % 64);
	drop_unused(cache, bin);
}

void cache_forget(struct block *block)
{
	struct cache *cache = block->cache;
	struct bin *bin = block->bin;

	table_remove(&cache->blocks, block->addr);
	bin->blocks--;
	/* It may be long before anybody looks through the list. */
	if (!bin->blocks && bin->link)
		cache_unlist(cache, bin);
	else
		drop_unused(cache, bin);
	if (cache->last == block)
		cache->last = NULL;
	if (block->state == BLOCK_STRANDED)
		return;
	if (block->freed > cache->marked)
		cache->unmarked -= block->region->size;
	block->region->block = NULL;
	if (cache->spares == SPARES_KEPT) {
		g_aligned_free(block);
		return;
	}
	block->next = cache->spare;
	cache->spare = block;
	cache->spares++;
}
