// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdbool.h>

#include "calls/pool.h"
#include "core/cache.h"
#include "core/zombie.h"
#include "policy/span.h"
#include "policy/trim.h"
#include "util/error.h"

/* How many extents may be looked at and given back; there are never as many as this. */
#define ALL UINT64_MAX

/* Whether all of an extent is of one kind at a place, and nobody works through it any more. */
static bool place_is(struct vpmm_pool *pool, const struct place *place, enum region_kind kind)
{
	const struct region *region = region_at(&pool->regions, place->addr);
	uint64_t end = place->addr + place->extent->size;

	if (!region)
		return false;
	for (; region && region->addr < end; region = region->next) {
		if (region->kind != kind || event_pending(region->event))
			return false;
	}
	return true;
}

/* The place where all of an extent is free, while it is dead at the others; NULL: it cannot go. */
static struct place *place_of_free(struct vpmm_pool *pool, const struct extent *extent)
{
	struct place *free = NULL;

	for (struct place *place = extent->places; place; place = place->next) {
		if (!free && place_is(pool, place, REGION_FREE))
			free = place;
		else if (!place_is(pool, place, REGION_ZOMBIE))
			return NULL;
	}
	return free;
}

static void place_is_gone(struct vpmm_pool *pool, uint64_t addr, size_t size)
{
	region_set_unmapped(&pool->regions, region_isolate(&pool->regions, addr, size));
}

/* The place where it is free goes last, so that it stays free somewhere whatever fails. */
static int drop(struct vpmm_pool *pool, struct extent *extent, const struct place *free)
{
	uint64_t addr = free->addr;
	size_t size = extent->size;
	struct place *place, *next;
	int err;

	for (place = extent->places; place; place = next) {
		uint64_t dead = place->addr;

		next = place->next;
		if (place == free)
			continue;
		err = extent_unmap(&pool->extents, dead, size, NULL);
		if (err)
			return err;
		place_is_gone(pool, dead, size);
	}
	err = extent_drop(&pool->extents, extent);
	if (!err)
		place_is_gone(pool, addr, size);
	return err;
}

/* One extent, if the pool holds more than it is to keep without it; *@dropped counts those that went. */
static int try_drop(struct vpmm_pool *pool, struct extent *extent, uint64_t keep, uint64_t *dropped)
{
	const struct place *free;
	int err;

	if (pool_mapped(pool) < extent->size || pool_mapped(pool) - extent->size < keep)
		return 0;
	free = place_of_free(pool, extent);
	if (!free)
		return 0;
	err = drop(pool, extent, free);
	if (!err)
		++*dropped;
	return err;
}

/* The longest free come first. Those that cannot go yet are looked at again when it is their turn. */
static int trim_whole(struct vpmm_pool *pool, uint64_t keep, uint64_t looks, uint64_t most)
{
	GQueue *whole = &pool->extents.whole;
	uint64_t dropped = 0;
	int err = 0;

	for (looks = MIN(looks, whole->length); looks && dropped < most && !err; looks--) {
		GList *link = g_queue_pop_head_link(whole);

		g_queue_push_tail_link(whole, link);
		err = try_drop(pool, link->data, keep, &dropped);
	}
	return err;
}

/* Pages are not counted, so they are found by what is free: from the end of a region, so that what is left is one. */
static int trim_region(struct vpmm_pool *pool, const struct region *region, uint64_t keep, uint64_t *looks,
		       uint64_t most, uint64_t *dropped)
{
	uint64_t addr = region->addr, end = addr + region->size;
	int err = 0;

	for (; addr < end && *looks && *dropped < most && !err; --*looks) {
		struct extent *extent = extent_place(&pool->extents, end - 1)->extent;

		end -= extent->size;
		err = try_drop(pool, extent, keep, dropped);
	}
	return err;
}

static int trim_pages(struct vpmm_pool *pool, uint64_t keep, uint64_t looks, uint64_t most)
{
	GList *link = pool->regions.by_age.head, *next;
	uint64_t dropped = 0;
	int err = 0;

	for (; link && looks && dropped < most && !err; link = next, looks--) {
		const struct region *region = link->data;

		next = link->next;
		if (pool_mapped(pool) < pool->settings.page_size || pool_mapped(pool) - pool->settings.page_size < keep)
			break;
		if (!event_pending(region->event))
			err = trim_region(pool, region, keep, &looks, most, &dropped);
		if (!looks)
			break;
	}
	return err;
}

static int trim(struct vpmm_pool *pool, uint64_t keep, uint64_t looks, uint64_t most)
{
	if (pool->settings.paged)
		return trim_pages(pool, keep, looks, most);
	return trim_whole(pool, keep, looks, most);
}

int trim_small(struct vpmm_pool *pool, uint64_t keep, uint64_t *released)
{
	const struct backend_ops *ops = pool->backend->ops;
	uint64_t mapped = pool_mapped(pool), before = 0, after = 0, peak;
	bool pending;
	int err = 0;

	if (pool->settings.small == VPMM_SMALL_DRIVER) {
		if (released)
			err = ops->small_held(pool->backend, &before, &peak);
		if (!err)
			err = ops->small_trim(pool->backend, keep > mapped ? keep - mapped : 0, &pending);
		if (!err && released)
			err = ops->small_held(pool->backend, &after, &peak);
	}
	if (!err && released)
		*released = before - after;
	return err;
}

int trim_pool(struct vpmm_pool *pool, uint64_t keep, uint64_t *released)
{
	uint64_t before = pool->extents.given_back, small = 0;
	guint stray;
	int err;

	extent_retry_stray(&pool->extents);
	stray = pool->extents.stray->len;
	if (pool->settings.cache)
		cache_flush_all(pool);
	err = stream_poll_busy(&pool->streams, false);
	if (!err)
		err = zombie_reap(pool);
	if (err)
		return err;
	span_return_all(pool);
	err = span_trim(pool, keep);
	if (!err)
		err = trim(pool, keep, ALL, ALL);
	budget_note_trim(pool);
	if (!err)
		err = trim_small(pool, keep, released ? &small : NULL);
	if (!err && pool->extents.stray->len > stray)
		err = error_add(-EIO, "the driver did not take all memory back");
	if (!err && released)
		*released = pool->extents.given_back - before + small;
	return err;
}

void trim_some(struct vpmm_pool *pool)
{
	struct error_kept kept;

	error_keep(&kept);
	if (!stream_poll_some(&pool->streams) && (!pool->settings.paged || !zombie_reap(pool)))
		trim(pool, pool->settings.keep, TRIM_LOOKS, TRIM_EXTENTS);
	error_restore(&kept);
}
