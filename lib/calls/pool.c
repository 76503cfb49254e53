// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

#include "calls/capture.h"
#include "calls/pool.h"
#include "calls/retire.h"
#include "calls/scrub.h"
#include "calls/stats.h"
#include "core/allocation.h"
#include "core/chunk.h"
#include "core/zombie.h"
#include "pending/deferred-free.h"
#include "pending/graph.h"
#include "pending/users.h"
#include "policy/packed.h"
#include "policy/paged.h"
#include "policy/reclaim.h"
#include "policy/trim.h"
#include "policy/tuning.h"
#include "util/address.h"
#include "util/error.h"

/* Mappings that a driver has room for where it does not say: CUDA's, as measured. */
#define MAPPINGS ((uint64_t)512 * 1024)

/* Part of a device's memory that one stream may free without an event. */
#define UNMARKED_PART (16 * 1024)

/* Of what a pool is to keep, a stream may keep no more than this part for itself. */
#define CACHE_SHARE 16

/* What a pool starts with comes in this many extents, or in pages. */
#define INITIAL_EXTENTS 128

/* Some can be moved apart from the others. */
static size_t initial_piece(const struct vpmm_pool *pool, size_t size)
{
	size_t page_size = pool->settings.page_size;

	return CLAMP(size / INITIAL_EXTENTS / page_size * page_size, page_size, pool->settings.extent_max);
}

static int pool_create_pages(struct vpmm_pool *pool, struct region *hole, size_t size)
{
	GPtrArray *extents = g_ptr_array_new();
	size_t piece = initial_piece(pool, size), left = 0;
	int err;

	err = extent_judge(&pool->extents, size, piece);
	if (!err)
		err = extent_create(&pool->extents, size, piece, !pool->settings.paged, extents);
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

/* There is no later call that could try again. */
static void unmap_at_last(struct vpmm_pool *pool, uint64_t addr, size_t size)
{
	if (extent_unmap(&pool->extents, addr, size, NULL))
		extent_unmap(&pool->extents, addr, size, NULL);
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
				unmap_at_last(pool, start,
					      (region ? region->addr : chunk->addr + chunk->size) - start);
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
	hold_clear(pool);
	g_hash_table_destroy(pool->silent);
	g_hash_table_destroy(pool->graphs);
	g_hash_table_destroy(pool->uses);
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
	made->most_places = (info.mapping_limit ? info.mapping_limit : MAPPINGS) / tuning_mappings_part;
	made->trim_places = made->most_places;
	log_init(&made->log, fitting.log_level, fitting.log, fitting.log_data);
	region_map_init(&made->regions, &made->streams, 0, !fitting.paged);
	region_map_init(&made->spans, &made->streams, 1, true);
	memo_init(&made->memo);
	extent_map_init(&made->extents, backend, fitting.page_size);
	stream_map_init(&made->streams, backend, info.memory_total / UNMARKED_PART, region_pass);
	made->uses = use_table_new();
	made->graphs = graph_table_new();
	g_queue_init(&made->holds);
	g_queue_init(&made->shared_holds);
	g_queue_init(&made->shared_uses);
	made->silent = hold_silent_new();
	if (fitting.keep < UINT64_MAX)
		made->streams.most_cached = fitting.keep / CACHE_SHARE;
	made->extents.limit = fitting.limit;
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
	log_finish(&made->log);
	pool_unmap(made);
	pool_release(made);
	g_free(made);
	error_restore(&kept);
	return err;
}

/* Errors are of no use here: all that can be given back is. */
static void pool_drain(struct vpmm_pool *pool)
{
	cache_drain(pool);
	/* Nor does anything tell of streams that could not be marked when what they used was freed, or of such clears. */
	if (g_hash_table_size(pool->silent) || (pool->small_cleared && g_hash_table_size(pool->small)))
		pool->backend->ops->sync(pool->backend);
	stream_sync_busy(&pool->streams);
	zombie_reap(pool);
}

void pool_delete(struct vpmm_pool *pool)
{
	struct backend *be = pool->backend;
	GHashTableIter iter;
	gpointer small;

	pool_drain(pool);
	pool_unmap(pool);
	g_hash_table_iter_init(&iter, pool->small);
	while (g_hash_table_iter_next(&iter, NULL, &small)) {
		uint64_t addr = ((struct small *)small)->addr;

		if (be->ops->small_free(be, addr, NULL))
			be->ops->small_free(be, addr, NULL);
	}
	log_finish(&pool->log);
	pool_release(pool);
	g_free(pool);
}

void pool_announce_end(struct vpmm_pool *pool)
{
	struct cache_sums cached;

	cache_sum(pool, &cached);
	log_add(&pool->log, VPMM_LOG_INFO, "pool destroyed after %" G_GUINT64_FORMAT " allocations",
		pool->counts.mallocs + cached.mallocs);
}

static int pool_try_small(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle)
{
	int err;

	err = extent_judge_limit(&pool->extents, size);
	return err ? err : pool->backend->ops->small_alloc(pool->backend, size, handle, addr);
}

static int pool_malloc_small(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			     struct CUstream_st *handle)
{
	struct small *small;
	int err;

	err = pool_try_small(pool, addr, size, handle);
	for (int round = 0; err == -ENOMEM && round < PRESSURE_ROUNDS; round++) {
		err = pressure_relieve(pool, size, stream, handle, round);
		if (!err)
			err = trim_pool(pool, 0, NULL);
		if (!err)
			err = pool_try_small(pool, addr, size, handle);
	}
	if (err)
		return err;
	small = g_new0(struct small, 1);
	small->addr = *addr;
	small->size = size;
	g_hash_table_insert(pool->small, &small->addr, small);
	pool->small_live += size;
	pool->extents.apart = pool->small_live;
	return 0;
}

void pool_begin_central(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle)
{
	retire_idle(pool, stream);
	if (g_hash_table_size(pool->silent) && !stream->captured)
		hold_hear(pool, stream, handle);
	if (pool->holds.head)
		hold_poll(pool, handle, stream->captured);
	if (!pool->streams.sole) {
		if (pool->regions.alone)
			region_share(&pool->regions);
		if (pool->spans.alone)
			region_share(&pool->spans);
	}
	if (!pool->settings.cache)
		return;
	cache_note_peak(pool, false);
	atomic_fetch_add_explicit(&pool->central, 1, memory_order_relaxed);
	/* Under capture nobody asks for the cache. */
	if (!stream->captured)
		cache_remember(pool, stream);
}

int pool_malloc_regions(struct vpmm_pool *pool, uint64_t *addr, size_t bytes, struct stream *stream,
			struct CUstream_st *handle)
{
	if (pool->settings.paged)
		return paged_malloc(pool, addr, bytes, stream, handle);
	return packed_malloc(pool, addr, bytes, stream, handle);
}

int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t id)
{
	struct stream *stream;
	size_t bytes;
	int err = 0;

	if (id != CACHE_NOBODY)
		stream = stream_meet(&pool->streams, id, handle);
	else
		err = stream_get(&pool->streams, handle, &stream);
	if (err == -EBUSY)
		return capture_malloc(pool, addr, size, handle);
	if (err)
		return err;
	pool_begin_central(pool, stream, handle);
	bytes = pool_round(pool, size);
	if (size > SIZE_MAX / 4 && pool->settings.page_size != SIZE_MAX)
		err = error_set(-ENOMEM, "more than a device can address");
	else if (!bytes)
		err = pool_malloc_small(pool, addr, size, stream, handle);
	else
		err = pool_malloc_regions(pool, addr, bytes, stream, handle);
	if (!err && G_UNLIKELY(pool->settings.scrub))
		err = scrub_malloc(pool, *addr, stream, handle);
	if (!err)
		pool->counts.mallocs++;
	if (!err && pool_mapped(pool) > pool->settings.keep)
		trim_some(pool);
	return err;
}

void pool_forget_small(struct vpmm_pool *pool, const struct small *small)
{
	pool->small_live -= small->size;
	pool->extents.apart = pool->small_live;
	g_hash_table_remove(pool->small, &small->addr);
}

static int pool_free_small(struct vpmm_pool *pool, struct small *small, struct CUstream_st *handle)
{
	int err;

	err = pool->backend->ops->small_free(pool->backend, small->addr, handle);
	if (err)
		return err;
	pool_forget_small(pool, small);
	return 0;
}

static int pool_free_pages(struct vpmm_pool *pool, struct region *region, struct stream *stream,
			   struct CUstream_st *handle)
{
	struct event *event;
	bool told;
	int err;

	err = hold_free_behind(pool, region, stream, handle, &told);
	if (err)
		return err;
	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	if (told) {
		cache_drop(region);
		scrub_free(pool, region, stream);
		live_leave(pool, region, stream, event);
	} else {
		cache_strand(region, event);
	}
	event_unref(event);
	if (pool->settings.cache)
		cache_flush_full(pool, stream, handle);
	return 0;
}

/* What others use too: it is not free before they are past this point. */
static int pool_free_used(struct vpmm_pool *pool, struct region *region, struct small *small, const struct use *use,
			  struct stream *stream, struct CUstream_st *handle)
{
	struct hold *hold;
	int err;

	err = hold_new(pool, region, small, use, stream->id, 0, &hold);
	if (err)
		return err;
	if (region)
		err = hold_free_behind(pool, region, stream, handle, &hold->told);
	if (!err)
		err = stream_record(stream, handle, &hold->event);
	if (err)
		goto err_delete;
	hold->stream = stream;
	/* The driver takes it back in the order of another stream. */
	if (small)
		g_ptr_array_add(hold->events, event_ref(hold->event));
	hold_keep(pool, hold);
	hold_poll(pool, handle, false);
	return 0;

err_delete:
	hold_delete(hold);
	return err;
}

static struct small *small_find(struct vpmm_pool *pool, uint64_t addr)
{
	struct small *small = g_hash_table_lookup(pool->small, &addr);

	return small && !small->held ? small : NULL;
}

bool pool_knows(struct vpmm_pool *pool, uint64_t addr)
{
	const struct region *region = live_find(pool, addr);

	return region ? !cache_holds(region) : small_find(pool, addr) != NULL;
}

int pool_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct region *region = live_find(pool, addr);
	struct small *small = region ? NULL : small_find(pool, addr);
	const struct use *use = use_find(pool, addr);
	struct stream *stream;
	int err;

	if ((!region && !small) || (region && !cache_take(region)))
		return error_set(-EINVAL, "no allocation of this pool starts there");
	err = stream_get(&pool->streams, handle, &stream);
	if (err == -EBUSY) {
		err = capture_free(pool, region, small, handle);
		if (err)
			goto err_untake;
		return 0;
	}
	if (err)
		goto err_untake;
	pool_begin_central(pool, stream, handle);
	if (use)
		err = pool_free_used(pool, region, small, use, stream, handle);
	else if (region)
		err = pool_free_pages(pool, region, stream, handle);
	else
		err = pool_free_small(pool, small, handle);
	if (err)
		goto err_untake;
	pool->counts.frees++;
	if (pool_mapped(pool) > pool->settings.keep)
		trim_some(pool);
	return 0;

err_untake:
	if (region)
		cache_untake(region, use);
	return err;
}

int pool_use(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct region *region = live_find(pool, addr);
	struct backend *be = pool->backend;
	uint64_t id, graph = 0;
	int err;

	if ((!region && !small_find(pool, addr)) || (region && cache_holds(region)))
		return error_set(-EINVAL, "no allocation of this pool starts there");
	err = be->ops->stream_id(be, handle, &id);
	if (err == -EBUSY)
		err = capture_id(pool, handle, &graph);
	if (err)
		return err;
	/* Its stream may have freed it meanwhile. */
	if (region && !cache_share(region, true))
		return error_set(-EINVAL, "no allocation of this pool starts there");
	if (graph && !use_is_home(use_find(pool, addr), handle))
		use_set_home(pool, addr, NULL);
	if (graph)
		use_add_graph(pool, addr, graph);
	else
		use_add_stream(pool, addr, id, handle);
	return 0;
}
