// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

#include "address.h"
#include "alias.h"
#include "budget.h"
#include "chunk.h"
#include "defrag.h"
#include "error.h"
#include "fit.h"
#include "gather.h"
#include "live.h"
#include "order.h"
#include "pool.h"
#include "span.h"
#include "stats.h"
#include "zombie.h"

/* Requests below this part of a page are small: apart from the others, as what is small stays longest. */
#define SMALL_PART 16

/* Old places are worth keeping, but a driver has room for some half a million mappings, of all pools together. */
#define MOST_PLACES ((uint64_t)64 * 1024)

/* For so many allocations after two threads were seen to make them, they are taken to go on so. */
#define CROWDED 1024

/* The caches of more streams than these are looked into only when memory is short. */
#define FEW_STREAMS 16

/* What a pool starts with comes in this many extents, or in pages. */
#define INITIAL_EXTENTS 128

/* Small requests wait for another stream rather than take more, once this part of all memory is free for them. */
#define SPAN_WASTE 512

/* Some can be moved apart from the others. */
static size_t initial_piece(const struct vpmm_pool *pool, size_t size)
{
	size_t page_size = pool->settings.page_size;

	return CLAMP(size / INITIAL_EXTENTS / page_size * page_size, page_size, pool->settings.extent_max);
}

static int pool_create_pages(struct vpmm_pool *pool, struct region *hole, size_t size)
{
	GPtrArray *extents = g_ptr_array_new();
	size_t left = 0;
	int err;

	err = extent_create(&pool->extents, size, initial_piece(pool, size), !pool->settings.paged, extents);
	if (err)
		goto out;
	err = extent_map_at(&pool->extents, hole->addr, extents, &left);
	if (err)
		goto out_zombie;
	extent_settle(&pool->extents, hole->addr, extents);
	region_cut(&pool->regions, hole, size);
	region_set_free(&pool->regions, hole, NULL, NULL);
	pool->counts.grown += size;
	stats_note_peaks(pool);
	goto out;

out_zombie:
	if (left) {
		region_cut(&pool->regions, hole, left);
		region_set_stray(&pool->regions, hole);
	}
	extent_release(&pool->extents, extents, 0);
out:
	g_ptr_array_free(extents, TRUE);
	return err ? error_add(err, "creating %zu initial pages", pool->settings.pages) : 0;
}

/* All that a pool has at the start: a chunk, and the initial pages. */
static int pool_populate(struct vpmm_pool *pool)
{
	struct region *hole;
	int err;

	if (pool->settings.page_size == SIZE_MAX)
		return 0;
	err = chunk_add(pool, &pool->regions, MAX(pool->settings.pages, 1) * pool->settings.page_size, &hole);
	if (err || !pool->settings.pages)
		return err;
	return pool_create_pages(pool, hole, pool->settings.pages * pool->settings.page_size);
}

/* One call for all that is mapped in a row; its streams are past it, or it has none. */
static void map_unmap(struct vpmm_pool *pool, struct region_map *map)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		const struct chunk *chunk = map->chunks->pdata[i];
		const struct region *region = chunk->lender ? NULL : chunk->first;

		while (region) {
			uint64_t start = region->addr;

			while (region && region->kind != REGION_UNMAPPED)
				region = region->next;
			if (!region || region->addr > start)
				extent_unmap(&pool->extents, start,
					     (region ? region->addr : chunk->addr + chunk->size) - start, NULL);
			region = region ? region->next : NULL;
		}
	}
}

static void pool_unmap(struct vpmm_pool *pool)
{
	map_unmap(pool, &pool->regions);
	map_unmap(pool, &pool->spans);
}

/* Everything but the backend. */
static void pool_release(struct vpmm_pool *pool)
{
	extent_map_clear(&pool->extents);
	chunk_unreserve(pool, &pool->regions);
	chunk_unreserve(pool, &pool->spans);
	region_map_clear(&pool->regions);
	region_map_clear(&pool->spans);
	memo_clear(&pool->memo);
	stream_map_clear(&pool->streams);
	g_hash_table_destroy(pool->small);
	pthread_mutex_destroy(&pool->lock);
}

/* How many pools there have been. */
static _Atomic uint64_t serials;

int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings)
{
	struct settings fitting = *settings;
	struct backend_info info;
	struct error_kept kept;
	struct vpmm_pool *made;
	int err;

	err = backend->ops->info(backend, &info);
	if (err)
		return err;
	err = settings_fit(&fitting, &info);
	if (err)
		return err;

	made = g_new0(struct vpmm_pool, 1);
	pthread_mutex_init(&made->lock, NULL);
	made->backend = backend;
	made->device = info.device;
	made->settings = fitting;
	made->most_places = info.mapping_limit ? MIN(MOST_PLACES, info.mapping_limit / 4) : MOST_PLACES;
	made->serial = atomic_fetch_add(&serials, 1) + 1;
	log_init(&made->log, fitting.log_level, fitting.log, fitting.log_data);
	region_map_init(&made->regions, &made->streams, 0, !fitting.paged);
	region_map_init(&made->spans, &made->streams, 1, true);
	memo_init(&made->memo);
	extent_map_init(&made->extents, backend, fitting.page_size);
	stream_map_init(&made->streams, backend, region_pass);
	made->streams.unmarked = info.memory_total / 1024;
	made->small = address_table_new(g_free);

	err = pool_populate(made);
	if (err)
		goto err_release;
	log_add(&made->log, VPMM_LOG_INFO, "pool created on %s device %d, %s, with pages of %zu bytes", info.name,
		info.device, info.device_name, fitting.page_size);
	*pool = made;
	return 0;

err_release:
	error_keep(&kept);
	log_deliver(&made->log, log_take(&made->log));
	pool_unmap(made);
	pool_release(made);
	g_free(made);
	error_restore(&kept);
	return err;
}

/* Errors are of no use here: all that can be given back is. */
static void pool_drain(struct vpmm_pool *pool)
{
	GList *link, *next;

	cache_drain(pool);
	for (link = pool->streams.busy.head; link; link = next) {
		struct stream *stream = link->data;

		next = link->next;
		event_sync(stream->pending.tail->data);
	}
	zombie_reap(pool);
}

void pool_delete(struct vpmm_pool *pool)
{
	struct backend *be = pool->backend;
	struct cache_sums cached;
	GHashTableIter iter;
	gpointer small;

	pool_drain(pool);
	pool_unmap(pool);
	g_hash_table_iter_init(&iter, pool->small);
	while (g_hash_table_iter_next(&iter, NULL, &small))
		be->ops->small_free(be, ((struct small *)small)->addr, NULL);
	cache_sum(pool, &cached);
	log_add(&pool->log, VPMM_LOG_INFO, "pool destroyed after %" G_GUINT64_FORMAT " allocations",
		pool->counts.mallocs + cached.mallocs);
	log_deliver(&pool->log, log_take(&pool->log));
	pool_release(pool);
	g_free(pool);
}

static int pool_malloc_small(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle)
{
	struct small *small;
	int err;

	err = pool->backend->ops->small_alloc(pool->backend, size, handle, addr);
	if (err)
		return err;
	small = g_new(struct small, 1);
	small->addr = *addr;
	small->size = size;
	g_hash_table_insert(pool->small, &small->addr, small);
	pool->small_live += size;
	return 0;
}

/* The oldest free region that fits, once its stream is past it: VPMM_REUSE_BLOCK's way to avoid a harvest. */
static int pool_wait_oldest(struct vpmm_pool *pool, size_t size, struct region **found)
{
	for (GList *link = pool->regions.by_age.head; link; link = link->next) {
		struct region *region = link->data;

		if (region->size < size)
			continue;
		*found = region;
		if (!event_pending(region->event))
			return 0;
		pool->counts.waits++;
		return event_sync(region->event);
	}
	return 0;
}

static int pool_find_free(struct vpmm_pool *pool, size_t size, struct stream *stream, struct region **found)
{
	int err;

	*found = region_find_own(&pool->regions, stream, size);
	if (*found)
		return 0;
	err = stream_poll_busy(&pool->streams, false);
	if (err)
		return err;
	*found = region_find_passed(&pool->regions, size);
	return 0;
}

/* A free region as it is, without waiting, or, with VPMM_REUSE_BLOCK, with waiting; none is no error. */
static int pool_find(struct vpmm_pool *pool, size_t size, struct stream *stream, struct region **found)
{
	int err;

	err = pool_find_free(pool, size, stream, found);
	/* What other streams have cached may be what is missing. */
	if (!err && !*found && pool->settings.cache && cache_flush_all(pool))
		err = pool_find_free(pool, size, stream, found);
	if (err)
		return err;
	if (!*found)
		atomic_fetch_add_explicit(&pool->pressure, 1, memory_order_relaxed);
	if (!*found && pool->settings.reuse == VPMM_REUSE_BLOCK) {
		err = pool_wait_oldest(pool, size, found);
		if (err)
			return err;
	}
	if (*found) {
		pool->counts.reuses++;
		if ((*found)->stream && (*found)->stream != stream)
			pool->counts.steals++;
	}
	return 0;
}

static int pool_malloc_pages(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			     struct CUstream_st *handle)
{
	struct region *region;
	int err;

	if (pool->settings.cache)
		cache_flush(pool, stream, handle);
	err = zombie_reap(pool);
	if (err)
		return err;
	err = pool_find(pool, size, stream, &region);
	if (!err && !region)
		err = defrag_gather(pool, size, stream, handle, &region);
	if (err)
		return err;

	region_cut(&pool->regions, region, size);
	region_set_malloc(&pool->regions, region, stream);
	live_enter(pool, region);
	*addr = region->addr;
	return 0;
}

/* Allocates a range for a stream, which comes after whoever had it. */
static int pool_take(struct vpmm_pool *pool, struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
		     struct CUstream_st *handle)
{
	bool block = pool->settings.reuse == VPMM_REUSE_BLOCK;
	struct region *region;
	struct order order;
	int err = 0;

	order_init(&order, stream);
	for (region = region_at(map, addr); region && region->addr < addr + size; region = region->next)
		order_add(&order, region);
	if (!order_is_met(&order)) {
		pool->counts.steals++;
		err = order_meet(&order, handle, block, &pool->counts.waits);
	}
	if (!err)
		live_enter(pool, region_take(map, addr, size, stream, order.own));
	order_clear(&order);
	return err;
}

/* Several threads have allocated lately, and not from their caches alone. */
static bool pool_is_crowded(struct vpmm_pool *pool)
{
	if (!pthread_equal(pool->thread, pthread_self())) {
		if (pool->thread)
			pool->crowded = pool->counts.mallocs + CROWDED;
		pool->thread = pthread_self();
	}
	return pool->counts.mallocs < pool->crowded;
}

/*
 * What other streams have cached may be what is missing. They are to let others have what they free for a while. Of
 * several threads each needs some for itself; taking it from one another, they would all be held up for ever.
 */
static void pool_reclaim(struct vpmm_pool *pool)
{
	if (pool->counts.mallocs < pool->crowded)
		cache_flush_idle(pool);
	else
		cache_flush_all(pool);
	atomic_fetch_add_explicit(&pool->pressure, 1, memory_order_relaxed);
}

/* What is cached is free; the better it is known, the better is the choice of what to take. */
static void pool_look_around(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle)
{
	bool crowded = pool_is_crowded(pool);

	cache_flush(pool, stream, handle);
	if (!crowded && !pool->streams.sole && g_hash_table_size(pool->streams.by_id) <= FEW_STREAMS)
		pool_reclaim(pool);
}

static int pool_malloc_span(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			    struct CUstream_st *handle)
{
	struct region_map *spans = &pool->spans;
	struct region *region;
	int err = 0;

	*addr = 0;
	if (spans->dead.head) {
		err = zombie_reap(pool);
		if (err)
			return err;
	}
	region = region_find_own(spans, stream, size);
	if (!region && !pool->streams.sole) {
		pool_reclaim(pool);
		err = stream_poll_busy(&pool->streams, false);
		if (err)
			return err;
		region = region_find_own(spans, stream, size);
	}
	if (!region)
		region = span_borrow(pool, stream, size);
	if (region)
		*addr = region->addr;
	else if (spans->bytes[REGION_FREE] > pool_mapped(pool) / SPAN_WASTE || !budget_room(pool, size))
		region_find_run(spans, size, addr);
	if (*addr)
		pool->counts.reuses++;
	else
		err = span_grow(pool, size, addr);
	if (!err)
		err = pool_take(pool, spans, *addr, size, stream, handle);
	if (!err)
		span_settle(pool);
	return err;
}

/* What was decided here before, if it can be had: without waiting for others, or, if @wait, with it. */
static int pool_recall(struct vpmm_pool *pool, size_t size, struct stream *stream, bool wait, uint64_t *addr)
{
	uint64_t known = memo_find(&pool->memo, size);
	struct order order;
	int err = 0;

	*addr = 0;
	if (!known)
		return 0;
	order_init(&order, stream);
	if (!alias_reaches(pool, known, size, &order))
		goto out;
	if (!wait && !order_is_met(&order))
		err = order_poll(&order);
	if (!err && (wait || order_is_met(&order))) {
		alias_claim(pool, known, size);
		*addr = known;
	}
out:
	order_clear(&order);
	return err;
}

/*
 * A row of free regions of whatever streams may be the better choice even if there is another without a wait: where
 * memory is short, as what is broken now has to be made up for.
 */
static void pool_choose_run(struct vpmm_pool *pool, size_t size, uint64_t *addr)
{
	uint64_t breaks = *addr ? fit_breaks(pool, *addr, size) : UINT64_MAX;
	uint64_t start = 0;
	size_t run;

	if (!breaks || (*addr && budget_room(pool, size)))
		return;
	run = region_find_run(&pool->regions, size, &start);
	if (!run)
		return;
	start = fit_within(pool, start, run, size);
	if (fit_breaks(pool, start, size) < breaks)
		*addr = start;
}

/* Memory that is mapped already, and free, or will be. *@addr stays 0 where there is none. */
static int pool_find_mapped(struct vpmm_pool *pool, size_t size, struct stream *stream, uint64_t *addr)
{
	int err;

	/* What nobody has to wait for any more is one with its neighbours, and fits more. */
	err = pool->streams.sole ? 0 : stream_poll_some(&pool->streams);
	if (!err)
		err = pool_recall(pool, size, stream, false, addr);
	if (err || *addr)
		return err;
	if (fit_find(pool, stream, size, addr)) {
		if (!pool->streams.sole)
			pool_choose_run(pool, size, addr);
		return 0;
	}
	if (pool->streams.sole)
		return 0;
	pool_reclaim(pool);
	err = stream_poll_busy(&pool->streams, false);
	if (err || fit_find(pool, stream, size, addr))
		return err;
	err = pool_recall(pool, size, stream, true, addr);
	if (!err && !*addr)
		pool_choose_run(pool, size, addr);
	return err;
}

static int pool_gather(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
		       struct CUstream_st *handle)
{
	struct order order;
	int err;

	order_init(&order, stream);
	err = gather_block(pool, &order, handle, size, addr);
	if (!err) {
		memo_put(&pool->memo, size, *addr);
		live_enter(pool, region_take(&pool->regions, *addr, size, stream, order.own));
	}
	order_clear(&order);
	return err;
}

static int pool_malloc_extents(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			       struct CUstream_st *handle)
{
	int err;

	if (pool->regions.dead.head) {
		err = zombie_reap(pool);
		if (err)
			return err;
	}
	*addr = 0;
	err = pool_find_mapped(pool, size, stream, addr);
	if (err)
		return err;
	if (!*addr)
		return pool_gather(pool, addr, size, stream, handle);
	memo_put(&pool->memo, size, *addr);
	err = pool_take(pool, &pool->regions, *addr, size, stream, handle);
	pool->counts.reuses += !err;
	return err;
}

/* As the specification has it: whole pages, or the driver. */
static int pool_malloc_paged(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			     struct CUstream_st *handle)
{
	if (size < pool->settings.page_size)
		return pool_malloc_small(pool, addr, size, handle);
	return pool_malloc_pages(pool, addr, pool_round(pool, size), stream, handle);
}

static int pool_malloc_packed(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			      struct CUstream_st *handle)
{
	size_t page_size = pool->settings.page_size;
	size_t bytes = pool_round(pool, size);
	int err = -ENOMEM;

	if (size < page_size && pool->settings.small == VPMM_SMALL_DRIVER)
		return pool_malloc_small(pool, addr, size, handle);
	pool_look_around(pool, stream, handle);
	if (bytes < page_size / SMALL_PART)
		err = pool_malloc_span(pool, addr, bytes, stream, handle);
	/* When there is no page for small requests to be had, they get what others have free. */
	return err == -ENOMEM ? pool_malloc_extents(pool, addr, bytes, stream, handle) : err;
}

/* Before a call changes the maps: what the caches did since the last one is the past. */
static void pool_begin_central(struct vpmm_pool *pool, struct stream *stream)
{
	if (!pool->settings.cache)
		return;
	cache_note_peak(pool, false);
	atomic_fetch_add_explicit(&pool->central, 1, memory_order_relaxed);
	cache_remember(pool, stream);
}

int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle)
{
	bool paged = pool->settings.paged;
	struct stream *stream;
	int err;

	err = stream_get(&pool->streams, handle, &stream);
	if (err)
		return err;
	pool_begin_central(pool, stream);
	if (size > SIZE_MAX / 4 && pool->settings.page_size != SIZE_MAX)
		err = error_set(-ENOMEM, "more than a device can address");
	else if (paged)
		err = pool_malloc_paged(pool, addr, size, stream, handle);
	else
		err = pool_malloc_packed(pool, addr, size, stream, handle);
	if (!err)
		pool->counts.mallocs++;
	return err;
}

static int pool_free_small(struct vpmm_pool *pool, struct small *small, struct CUstream_st *handle)
{
	int err;

	err = pool->backend->ops->small_free(pool->backend, small->addr, handle);
	if (err)
		return err;
	pool->small_live -= small->size;
	g_hash_table_remove(pool->small, &small->addr);
	return 0;
}

static int pool_free_pages(struct vpmm_pool *pool, struct region *region, struct stream *stream,
			   struct CUstream_st *handle)
{
	struct event *behind, *event;
	bool told = true;
	int err;

	/* A stream that is not known to be behind the allocation is not behind those who had the memory before either. */
	if (region->stream != stream)
		told = cache_behind(region, &behind);
	if (region->stream != stream && told && event_pending(behind)) {
		err = event_wait(behind, handle);
		if (err)
			return err;
		pool->counts.waits++;
	}
	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	if (told) {
		cache_drop(region);
		live_leave(pool, region, stream, event);
	} else {
		cache_strand(region, event);
	}
	event_unref(event);
	if (pool->settings.cache)
		cache_flush_full(pool, stream, handle);
	return 0;
}

bool pool_knows(struct vpmm_pool *pool, uint64_t addr)
{
	const struct region *region = live_find(pool, addr);

	return region ? !cache_holds(region) : g_hash_table_contains(pool->small, &addr);
}

int pool_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct region *region = live_find(pool, addr);
	struct small *small = region ? NULL : g_hash_table_lookup(pool->small, &addr);
	struct stream *stream;
	int err;

	if ((!region && !small) || (region && !cache_take(region)))
		return error_set(-EINVAL, "no allocation of this pool starts there");
	err = stream_get(&pool->streams, handle, &stream);
	if (err)
		goto err_untake;
	pool_begin_central(pool, stream);
	if (region)
		err = pool_free_pages(pool, region, stream, handle);
	else
		err = pool_free_small(pool, small, handle);
	if (err)
		goto err_untake;
	pool->counts.frees++;
	return 0;

err_untake:
	if (region)
		cache_untake(region);
	return err;
}
