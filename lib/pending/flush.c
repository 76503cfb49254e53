// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the central calls do with the caches. All of it is under the lock of the pool. */
#include <stdatomic.h>
#include <stdlib.h>

#include "calls/pool.h"
#include "calls/scrub.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "util/error.h"

/* With more streams than this, not every malloc looks at all of them, unless there may be so much more to be seen. */
#define PEAK_STREAMS 4
#define PEAK_PART 64

/* So many are sorted as they come. */
#define FEW 24

static enum block_state state_of(const struct block *block)
{
	enum block_state state;

	pthread_mutex_lock(&block->cache->lock);
	state = block->state;
	pthread_mutex_unlock(&block->cache->lock);
	return state;
}

bool cache_holds(const struct region *region)
{
	enum block_state state = region->block ? state_of(region->block) : BLOCK_LIVE;

	return state == BLOCK_CACHED || state == BLOCK_STRANDED;
}

static bool is_live(const struct block *block)
{
	return block->state == BLOCK_LIVE || block->state == BLOCK_SHARED;
}

bool cache_take(struct region *region)
{
	struct block *block = region->block;
	bool live;

	if (!block)
		return true;
	pthread_mutex_lock(&block->cache->lock);
	live = is_live(block);
	if (live)
		block->state = BLOCK_TAKEN;
	pthread_mutex_unlock(&block->cache->lock);
	return live;
}

bool cache_share(struct region *region, bool shared)
{
	struct block *block = region->block;
	bool live;

	if (!block)
		return true;
	pthread_mutex_lock(&block->cache->lock);
	live = is_live(block);
	if (live)
		block->state = shared ? BLOCK_SHARED : BLOCK_LIVE;
	pthread_mutex_unlock(&block->cache->lock);
	return live;
}

void cache_untake(struct region *region, bool shared)
{
	struct block *block = region->block;

	if (!block)
		return;
	pthread_mutex_lock(&block->cache->lock);
	block->state = shared ? BLOCK_SHARED : BLOCK_LIVE;
	pthread_mutex_unlock(&block->cache->lock);
}

void cache_drop(struct region *region)
{
	struct cache *cache = region->block ? region->block->cache : NULL;

	if (!cache)
		return;
	pthread_mutex_lock(&cache->lock);
	cache_forget(region->block);
	pthread_mutex_unlock(&cache->lock);
}

/* On the legacy stream, whose handle is good at any time, but for captures that it has a part in. */
static void mark_legacy(struct cache *cache)
{
	struct backend *be = cache->stream->map->backend;
	struct error_kept kept;
	uint64_t id;

	error_keep(&kept);
	if (be->ops->stream_id(be, STREAM_LEGACY, &id) || cache_mark(cache, STREAM_LEGACY))
		error_restore(&kept);
}

bool cache_behind(struct region *region, struct event **event)
{
	struct block *block = region->block;
	struct cache *cache = block ? block->cache : NULL;
	bool told = true;

	*event = region->event;
	if (!block || !block->freed)
		return true;
	pthread_mutex_lock(&cache->lock);
	if (block->freed > cache->marked && cache->legacy)
		mark_legacy(cache);
	if (block->freed > cache->marked)
		told = false;
	else
		*event = cache_adopt(cache);
	pthread_mutex_unlock(&cache->lock);
	return told;
}

void cache_strand(struct region *region, struct event *event)
{
	struct block *block = region->block;
	struct cache *cache = block->cache;

	pthread_mutex_lock(&cache->lock);
	block->state = BLOCK_STRANDED;
	cache_forget(block);
	pthread_mutex_unlock(&cache->lock);
	block->event = event_ref(event);
	block->next = cache->stranded;
	cache->stranded = block;
	cache->stranded_bytes += region->size;
}

/* A region that a cache lets go of, and when it was freed. */
struct freed {
	uint64_t when;
	struct region *region;
};

static int compare_freed(const void *a, const void *b)
{
	const struct freed *x = a, *y = b;

	return x->when < y->when ? -1 : x->when > y->when;
}

/* Most often there are a few, and a call for each comparison is more than all else. */
static void sort_freed(struct freed *freed, size_t count)
{
	if (count > FEW) {
		qsort(freed, count, sizeof(*freed), compare_freed);
		return;
	}
	for (size_t i = 1; i < count; i++) {
		struct freed next = freed[i];
		size_t j = i;

		for (; j > 0 && freed[j - 1].when > next.when; j--)
			freed[j] = freed[j - 1];
		freed[j] = next;
	}
}

/* Takes what is marked out of a bin: the last, as those freed later come first. @lent: only what is. */
static size_t bin_harvest(struct cache *cache, struct bin *bin, bool lent, struct freed *freed)
{
	struct block **link = &bin->top, *block;
	size_t count = 0;

	while (*link && (*link)->freed > cache->marked)
		link = &(*link)->next;
	while ((block = *link)) {
		if (lent && !block->lent) {
			link = &block->next;
			continue;
		}
		*link = block->next;
		freed[count++] = (struct freed){ .when = block->freed, .region = block->region };
		cache_uncount(cache, block);
	}
	return count;
}

static size_t class_harvest(struct cache *cache, unsigned int class, size_t least, struct freed *freed)
{
	size_t count = 0;
	struct bin *next;

	for (struct bin *bin = cache->listed[class]; bin; bin = next) {
		next = bin->next;
		if (bin->size >= least || cache->lent)
			count += bin_harvest(cache, bin, bin->size < least, freed + count);
		if (!bin->top)
			cache_unlist(cache, bin);
	}
	return count;
}

/* The first class from one on that may have cached blocks; CACHE_CLASSES: there is none. */
static unsigned int next_class(const struct cache *cache, unsigned int class)
{
	while (class < CACHE_CLASSES) {
		uint64_t left = cache->classes[class / 64] >> class % 64;

		if (left)
			return class + (unsigned int)__builtin_ctzll(left);
		class = (class / 64 + 1) * 64;
	}
	return CACHE_CLASSES;
}

static size_t cache_harvest(struct cache *cache, size_t least, struct freed *freed, struct event **event)
{
	/* Of what is smaller, only what is lent is of interest. */
	unsigned int class = next_class(cache, cache->lent ? 0 : cache_class(least));
	size_t count = 0;

	for (; class < CACHE_CLASSES; class = next_class(cache, class + 1))
		count += class_harvest(cache, class, least, freed + count);
	for (size_t i = 0; i < count; i++)
		cache_forget(freed[i].region->block);
	if (count)
		*event = event_ref(cache_adopt(cache));
	return count;
}

/* What a cache lets go of, and the event that it is behind. */
struct flush {
	struct freed freed[CACHE_BLOCKS_MAX];
	size_t count;
	struct event *event;
};

/* Takes what is marked, of @least bytes or more; the cache's lock is held. */
static void flush_begin(struct flush *flush, struct cache *cache, size_t least)
{
	flush->event = NULL;
	flush->count = cache->count ? cache_harvest(cache, least, flush->freed, &flush->event) : 0;
}

/* Frees it for the maps, in the order in which it was freed. */
static bool flush_end(struct flush *flush, struct vpmm_pool *pool, struct cache *cache)
{
	sort_freed(flush->freed, flush->count);
	for (size_t i = 0; i < flush->count; i++) {
		scrub_free(pool, flush->freed[i].region, cache->stream);
		live_leave(pool, flush->freed[i].region, cache->stream, flush->event);
	}
	event_unref(flush->event);
	return flush->count;
}

static bool flush_marked(struct vpmm_pool *pool, struct cache *cache, size_t least)
{
	struct flush flush;

	pthread_mutex_lock(&cache->lock);
	flush_begin(&flush, cache, least);
	pthread_mutex_unlock(&cache->lock);
	return flush_end(&flush, pool, cache);
}

static void free_stranded(struct vpmm_pool *pool, struct block **link, struct event *event)
{
	struct block *block = *link;
	struct cache *cache = block->cache;
	struct region *region = block->region;

	*link = block->next;
	cache->stranded_bytes -= region->size;
	region->block = NULL;
	live_leave(pool, region, event->stream, event);
	event_unref(block->event);
	g_aligned_free(block);
}

/* What the stream had freed before others freed it: the stream waits for those, and is behind all of it then. */
static int flush_stranded(struct vpmm_pool *pool, struct cache *cache, struct CUstream_st *handle)
{
	struct event *event;
	int err = 0;

	for (struct block *block = cache->stranded; block; block = block->next) {
		if (!event_pending(block->event))
			continue;
		err = event_wait(block->event, handle);
		if (err)
			return err;
		pool->counts.waits++;
	}
	pthread_mutex_lock(&cache->lock);
	err = cache_mark(cache, handle);
	event = err ? NULL : event_ref(cache_adopt(cache));
	pthread_mutex_unlock(&cache->lock);
	while (!err && cache->stranded)
		free_stranded(pool, &cache->stranded, event);
	event_unref(event);
	return err;
}

/* See to it that the mark stands for all that a flush lets go of; the cache's lock is held. */
static int flush_mark(struct cache *cache, struct CUstream_st *handle, size_t least)
{
	if (!cache->count || !cache->unmarked || (cache->unmarked_most < least && !cache->lent))
		return 0;
	return cache_mark(cache, handle);
}

void cache_flush(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle, size_t least)
{
	struct cache *cache = stream->cache;
	struct error_kept kept;
	struct flush flush;
	bool failed;

	error_keep(&kept);
	failed = cache->stranded && flush_stranded(pool, cache, handle);
	pthread_mutex_lock(&cache->lock);
	/* What stays is to leave room for what is freed next. */
	if (cache->bytes > cache->most / 2)
		least = 0;
	if (flush_mark(cache, handle, least))
		failed = true;
	flush_begin(&flush, cache, least);
	pthread_mutex_unlock(&cache->lock);
	flush_end(&flush, pool, cache);
	if (failed)
		error_restore(&kept);
}

void cache_flush_full(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle)
{
	struct cache *cache = stream->cache;
	bool full;

	pthread_mutex_lock(&cache->lock);
	full = cache->count == CACHE_BLOCKS_MAX;
	pthread_mutex_unlock(&cache->lock);
	if (full)
		cache_flush(pool, stream, handle, 0);
}

/* What is stranded need not wait for its own stream any more once the mark has passed. */
static bool flush_passed(struct vpmm_pool *pool, struct cache *cache)
{
	struct block **link = &cache->stranded;
	bool any = false;
	uint64_t marked;

	pthread_mutex_lock(&cache->lock);
	cache_adopt(cache);
	marked = cache->marked;
	pthread_mutex_unlock(&cache->lock);
	if (stream_poll(cache->stream) || event_pending(cache->adopted))
		return false;
	while (*link) {
		if ((*link)->freed > marked) {
			link = &(*link)->next;
			continue;
		}
		free_stranded(pool, link, (*link)->event);
		any = true;
	}
	return any;
}

bool cache_flush_streams(struct vpmm_pool *pool, bool idle, size_t least)
{
	uint64_t pressure = atomic_load_explicit(&pool->pressure, memory_order_relaxed);
	struct error_kept kept;
	GHashTableIter iter;
	gpointer stream;
	bool any = false;

	error_keep(&kept);
	g_hash_table_iter_init(&iter, pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream)) {
		struct cache *cache = ((struct stream *)stream)->cache;
		bool busy;

		pthread_mutex_lock(&cache->lock);
		busy = idle && cache->served == pressure + 1;
		if (!busy && cache->legacy && cache->count && cache->unmarked)
			mark_legacy(cache);
		pthread_mutex_unlock(&cache->lock);
		if (busy)
			continue;
		if (flush_marked(pool, cache, least))
			any = true;
		if (cache->stranded && flush_passed(pool, cache))
			any = true;
	}
	error_restore(&kept);
	return any;
}

bool cache_flush_all(struct vpmm_pool *pool)
{
	return cache_flush_streams(pool, false, 0);
}

uint64_t cache_withheld(struct cache *cache)
{
	uint64_t bytes;

	pthread_mutex_lock(&cache->lock);
	bytes = cache->bytes + cache->stranded_bytes;
	pthread_mutex_unlock(&cache->lock);
	return bytes;
}

/* All frees up to one have completed, with what was submitted before them: as good as if the mark stood for them. */
static void cache_settle(struct cache *cache, uint64_t freed)
{
	if (freed <= cache->marked)
		return;
	cache->marked = freed;
	cache->unmarked = 0;
	for (size_t i = 0; i <= cache->blocks.mask; i++) {
		const struct block *block = cache->blocks.slots[i].value;

		if (block && block->freed > freed)
			cache->unmarked += block->bin->size;
	}
	for (const struct block *block = cache->stranded; block; block = block->next)
		cache->unmarked += block->freed > freed ? block->region->size : 0;
}

int cache_settle_all(struct vpmm_pool *pool)
{
	guint count = g_hash_table_size(pool->streams.by_id), i = 0;
	uint64_t *freed = g_new0(uint64_t, count);
	GHashTableIter iter;
	gpointer stream;
	int err;

	/* What other threads free while this one waits is not settled by it. */
	g_hash_table_iter_init(&iter, pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream)) {
		struct cache *cache = ((struct stream *)stream)->cache;

		pthread_mutex_lock(&cache->lock);
		freed[i++] = cache->freed;
		pthread_mutex_unlock(&cache->lock);
	}
	err = pool->backend->ops->sync(pool->backend);
	if (err)
		goto out;
	g_hash_table_iter_init(&iter, pool->streams.by_id);
	for (i = 0; g_hash_table_iter_next(&iter, NULL, &stream); i++) {
		struct cache *cache = ((struct stream *)stream)->cache;

		pthread_mutex_lock(&cache->lock);
		cache_settle(cache, freed[i]);
		pthread_mutex_unlock(&cache->lock);
	}
	err = stream_poll_busy(&pool->streams, false);
	if (err)
		goto out;
	cache_flush_all(pool);
	err = stream_poll_busy(&pool->streams, false);
out:
	g_free(freed);
	return err;
}

void cache_drain(struct vpmm_pool *pool)
{
	bool unmarked = false;
	GHashTableIter iter;
	gpointer stream;

	g_hash_table_iter_init(&iter, pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream)) {
		struct cache *cache = ((struct stream *)stream)->cache;

		pthread_mutex_lock(&cache->lock);
		if (cache->legacy && cache->unmarked)
			mark_legacy(cache);
		cache_adopt(cache);
		unmarked = unmarked || cache->unmarked;
		pthread_mutex_unlock(&cache->lock);
	}
	/* Of streams that have freed without an event, and may be gone, nothing else tells that they are past it. */
	if (unmarked)
		pool->backend->ops->sync(pool->backend);
}

static void add_cache(struct cache_sums *sums, struct cache *cache)
{
	pthread_mutex_lock(&cache->lock);
	sums->mallocs += cache->mallocs;
	sums->frees += cache->frees;
	sums->bytes += cache->bytes + cache->stranded_bytes;
	pthread_mutex_unlock(&cache->lock);
}

void cache_sum(struct vpmm_pool *pool, struct cache_sums *sums)
{
	GHashTableIter iter;
	gpointer stream;

	*sums = (struct cache_sums){ .mallocs = pool->streams.mallocs, .frees = pool->streams.frees };
	g_hash_table_iter_init(&iter, pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream))
		add_cache(sums, ((struct stream *)stream)->cache);
}

/* Whether no look can find much more, unless less is cached than when there was the last. */
static bool peak_is_near(const struct vpmm_pool *pool, uint64_t most)
{
	return most - MIN(most, pool->peak_cached) <= pool->peak_live + pool->peak_live / PEAK_PART;
}

void cache_note_peak(struct vpmm_pool *pool, bool asked)
{
	uint64_t most = pool_live(pool), cached = 0, more = 0;
	unsigned int served = 0;
	uint64_t central = atomic_load_explicit(&pool->central, memory_order_relaxed);
	guint streams = g_hash_table_size(pool->streams.by_id);
	GHashTableIter iter;
	gpointer stream;

	if (most <= pool->peak_asked)
		return;
	if (!asked && streams > PEAK_STREAMS && ++pool->peak_skipped < streams && peak_is_near(pool, most))
		return;
	pool->peak_skipped = 0;
	g_hash_table_iter_init(&iter, pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream)) {
		struct cache *cache = ((struct stream *)stream)->cache;

		pthread_mutex_lock(&cache->lock);
		cached += cache->bytes + cache->stranded_bytes;
		if (cache->central == central) {
			more = cache->bytes - cache->lowest;
			served++;
		}
		pthread_mutex_unlock(&cache->lock);
	}
	pool->peak_cached = cached;
	/* Since the maps changed last it may have had fewer. When several had, nobody knows whether it was at once. */
	most = most - cached + (served == 1 ? more : 0);
	pool->peak_live = MAX(pool->peak_live, most);
	pool->peak_asked = pool->peak_live;
}

struct region *cache_last(struct vpmm_pool *pool, bool *served)
{
	uint64_t central = atomic_load_explicit(&pool->central, memory_order_relaxed);
	struct region *last = NULL;
	GHashTableIter iter;
	gpointer stream;

	*served = false;
	g_hash_table_iter_init(&iter, pool->streams.by_id);
	while (!last && g_hash_table_iter_next(&iter, NULL, &stream)) {
		struct cache *cache = ((struct stream *)stream)->cache;

		pthread_mutex_lock(&cache->lock);
		if (cache->central == central) {
			*served = true;
			last = cache->last ? cache->last->region : NULL;
		}
		pthread_mutex_unlock(&cache->lock);
	}
	return last;
}
