// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

#include "address.h"
#include "chunk.h"
#include "defrag.h"
#include "error.h"
#include "pool.h"
#include "stats.h"
#include "zombie.h"

static int pool_create_pages(struct vpmm_pool *pool, struct region *hole, size_t size)
{
	GPtrArray *extents = g_ptr_array_new();
	size_t left = 0;
	int err;

	err = extent_create(&pool->extents, size, extents);
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
		region_set_zombie(&pool->regions, hole);
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
	err = chunk_add(pool, MAX(pool->settings.pages, 1) * pool->settings.page_size, &hole);
	if (err || !pool->settings.pages)
		return err;
	return pool_create_pages(pool, hole, pool->settings.pages * pool->settings.page_size);
}

static void pool_unmap(struct vpmm_pool *pool)
{
	for (guint i = 0; i < pool->regions.chunks->len; i++) {
		struct chunk *chunk = pool->regions.chunks->pdata[i];

		for (struct region *region = chunk->first; region; region = region->next) {
			if (region->kind != REGION_UNMAPPED)
				extent_unmap(&pool->extents, region->addr, region->size,
					     region->event ? region->event->handle : NULL);
		}
	}
}

/* Everything but the backend. */
static void pool_release(struct vpmm_pool *pool)
{
	extent_map_clear(&pool->extents);
	chunk_unreserve(pool);
	region_map_clear(&pool->regions);
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
	log_init(&made->log, fitting.log_level, fitting.log, fitting.log_data);
	region_map_init(&made->regions);
	extent_map_init(&made->extents, backend, fitting.page_size);
	stream_map_init(&made->streams, backend, region_pass, &made->regions);
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
	GHashTableIter iter;
	gpointer small;

	pool_drain(pool);
	pool_unmap(pool);
	g_hash_table_iter_init(&iter, pool->small);
	while (g_hash_table_iter_next(&iter, NULL, &small))
		be->ops->small_free(be, ((struct small *)small)->addr, NULL);
	log_add(&pool->log, VPMM_LOG_INFO, "pool destroyed after %" G_GUINT64_FORMAT " allocations",
		pool->counts.mallocs);
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

/* A free region as it is, without waiting, or, with VPMM_REUSE_BLOCK, with waiting; none is no error. */
static int pool_find(struct vpmm_pool *pool, size_t size, struct stream *stream, struct region **found)
{
	int err;

	*found = region_find_own(&pool->regions, stream, size);
	if (!*found) {
		err = stream_poll_busy(&pool->streams, false);
		if (err)
			return err;
		*found = region_find_passed(&pool->regions, size);
	}
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
	pool->peak_live = MAX(pool->peak_live, pool->regions.bytes[REGION_MALLOC]);
	*addr = region->addr;
	return 0;
}

int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle)
{
	size_t page_size = pool->settings.page_size;
	struct stream *stream;
	int err;

	err = stream_get(&pool->streams, handle, &stream);
	if (err)
		return err;
	if (size < page_size)
		err = pool_malloc_small(pool, addr, size, handle);
	else if (size > SIZE_MAX / 4)
		err = error_set(-ENOMEM, "more than a device can address");
	else
		err = pool_malloc_pages(pool, addr, (size + page_size - 1) / page_size * page_size, stream, handle);
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
	struct event *event;
	int err;

	/* A stream that is not known to be behind the allocation is not behind those who had the memory before either. */
	if (region->stream != stream && event_pending(region->event)) {
		err = event_wait(region->event, handle);
		if (err)
			return err;
		pool->counts.waits++;
	}
	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	region_set_free(&pool->regions, region, stream, event);
	event_unref(event);
	return 0;
}

int pool_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct region *region = region_find_malloc(&pool->regions, addr);
	struct small *small = region ? NULL : g_hash_table_lookup(pool->small, &addr);
	struct stream *stream;
	int err;

	if (!region && !small)
		return error_set(-EINVAL, "no allocation of this pool starts there");
	err = stream_get(&pool->streams, handle, &stream);
	if (err)
		return err;
	if (region)
		err = pool_free_pages(pool, region, stream, handle);
	else
		err = pool_free_small(pool, small, handle);
	if (!err)
		pool->counts.frees++;
	return err;
}
