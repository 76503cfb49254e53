// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdatomic.h>

#include "calls/pool.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/zombie.h"
#include "policy/paged-gather.h"
#include "policy/paged.h"
#include "policy/reclaim.h"

/* The oldest free region that fits, once its stream is past it: VPMM_REUSE_BLOCK's way to avoid a harvest. */
static int paged_wait_oldest(struct vpmm_pool *pool, size_t size, struct region **found)
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

static int paged_find_free(struct vpmm_pool *pool, size_t size, struct stream *stream, struct region **found)
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
static int paged_find(struct vpmm_pool *pool, size_t size, struct stream *stream, struct region **found)
{
	int err;

	err = paged_find_free(pool, size, stream, found);
	/* What other streams have cached may be what is missing. */
	if (!err && !*found && pool->settings.cache && cache_flush_all(pool))
		err = paged_find_free(pool, size, stream, found);
	if (err)
		return err;
	if (!*found)
		atomic_fetch_add_explicit(&pool->pressure, 1, memory_order_relaxed);
	if (!*found && pool->settings.reuse == VPMM_REUSE_BLOCK) {
		err = paged_wait_oldest(pool, size, found);
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

static int paged_try(struct vpmm_pool *pool, size_t size, struct stream *stream, struct CUstream_st *handle,
		     struct region **region)
{
	int err;

	err = paged_find(pool, size, stream, region);
	return err || *region ? err : defrag_gather(pool, size, stream, handle, region);
}

int paged_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream, struct CUstream_st *handle)
{
	struct region *region;
	int err;

	if (pool->settings.cache)
		cache_flush(pool, stream, handle, 0);
	err = zombie_reap(pool);
	if (err)
		return err;
	err = paged_try(pool, size, stream, handle, &region);
	for (int round = 0; err == -ENOMEM && round < PRESSURE_ROUNDS; round++) {
		err = pressure_relieve(pool, size, stream, handle, round);
		if (!err)
			err = paged_try(pool, size, stream, handle, &region);
	}
	if (err)
		return err;

	region_cut(&pool->regions, region, size);
	region_set_malloc(&pool->regions, region, stream);
	live_enter(pool, region);
	*addr = region->addr;
	return 0;
}

/* The region that paged_wait_oldest() would come to. */
static struct region *oldest_fit(struct vpmm_pool *pool, size_t size)
{
	for (GList *link = pool->regions.by_age.head; link; link = link->next) {
		struct region *region = link->data;

		if (region->size >= size)
			return region;
	}
	return NULL;
}

int paged_forecast(struct vpmm_pool *pool, size_t size, struct stream *stream, uint64_t room,
		   struct vpmm_forecast *forecast)
{
	struct defrag_cost cost;
	struct region *region;
	int err;

	err = zombie_reap(pool);
	if (!err)
		err = paged_find_free(pool, size, stream, &region);
	if (err)
		return err;
	if (!region && pool->settings.reuse == VPMM_REUSE_BLOCK) {
		region = oldest_fit(pool, size);
		forecast->waits = region && region->stream != stream && event_pending(region->event);
	}
	if (region) {
		forecast->way = VPMM_WAY_REUSE;
		return 0;
	}
	defrag_forecast(pool, size, stream, &cost);
	if (cost.create > room)
		return 0;
	forecast->waits = cost.waits;
	if (cost.pieces == 1 && !cost.create) {
		forecast->way = VPMM_WAY_REUSE;
		return 0;
	}
	forecast->way = cost.create ? VPMM_WAY_GROW : VPMM_WAY_HARVEST;
	forecast->grown = cost.create;
	forecast->remapped = cost.moved;
	forecast->calls = (cost.moved + 2 * cost.create) / pool->settings.page_size + 1;
	return 0;
}
