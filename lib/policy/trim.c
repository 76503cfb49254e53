// SPDX-License-Identifier: LGPL-2.1-or-later
/* Gives device memory back: extents that are not in use. */
#include <errno.h>
#include <stdbool.h>

#include "core/alias.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "core/core.h"
#include "policy/growth.h"
#include "policy/span.h"
#include "policy/trim.h"
#include "util/error.h"

/* No bound on the extents to look at or to release. */
#define ALL UINT64_MAX

/* So many queries of streams, which take some 20 us. */
#define TRIM_POLLS 64

/* Whether all of a mapping is of one kind, with no pending work through it. */
static bool place_is(struct core *core, const struct place *place, enum region_kind kind)
{
	const struct region *region = region_around(&core->regions, place->addr);
	uint64_t end = place->addr + place->extent->size;

	for (; region && region->addr < end; region = region->next) {
		if (region->kind != kind || event_pending(region->event))
			return false;
	}
	return true;
}

/*
 * The mapping where all of an extent is free, if the others are zombies without pending work; NULL: it cannot be
 * released.
 */
static struct place *place_of_free(struct core *core, const struct extent *extent)
{
	struct place *free = NULL;

	for (struct place *place = extent->places; place; place = place->next) {
		if (!free && place_is(core, place, REGION_FREE))
			free = place;
		else if (!place_is(core, place, REGION_ZOMBIE))
			return NULL;
	}
	return free;
}

static void place_is_gone(struct core *core, uint64_t addr, size_t size)
{
	region_set_unmapped(&core->regions, region_isolate(&core->regions, addr, size));
}

/* Unmaps that mapping last, so that the extent stays free there if a call fails. */
static int release_extent(struct core *core, struct extent *extent, const struct place *free)
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
		err = extent_unmap(&core->extents, dead, size, NULL);
		if (err)
			return err;
		place_is_gone(core, dead, size);
	}
	err = extent_drop(&core->extents, extent);
	if (!err)
		place_is_gone(core, addr, size);
	return err;
}

/* Releases an extent if the pool then still holds @keep bytes; *@dropped counts them. */
static int try_drop(struct core *core, struct extent *extent, uint64_t keep, uint64_t *dropped)
{
	const struct place *free;
	int err;

	if (core_mapped(core) < extent->size || core_mapped(core) - extent->size < keep)
		return 0;
	free = place_of_free(core, extent);
	if (!free)
		return 0;
	err = release_extent(core, extent, free);
	if (!err)
		++*dropped;
	return err;
}

bool trim_is_free(struct core *core, const struct extent *extent)
{
	return place_of_free(core, extent);
}

int trim_extent(struct core *core, struct extent *extent)
{
	const struct place *free = place_of_free(core, extent);

	return free ? release_extent(core, extent, free) : 0;
}

int trim_whole(struct core *core, uint64_t keep, uint64_t looks, uint64_t most)
{
	const GQueue *whole = extent_whole(&core->extents);
	uint64_t dropped = 0;
	int err = 0;

	lock_assert_held(&core->lock);
	/* An extent that cannot be released yet goes to the end of the queue. */
	for (looks = MIN(looks, whole->length); looks && dropped < most && !err; looks--) {
		struct extent *extent = whole->head->data;

		extent_requeue(&core->extents, extent);
		err = try_drop(core, extent, keep, &dropped);
	}
	return err;
}

int trim_small(struct core *core, uint64_t keep, uint64_t *released)
{
	const struct backend_ops *ops = core->backend->ops;
	uint64_t mapped = core_mapped(core), before = 0, after = 0, peak;
	bool pending;
	int err = 0;

	lock_assert_held(&core->lock);
	if (core->settings.small == VPMM_SMALL_DRIVER) {
		if (released)
			err = ops->small_held(core->backend, &before, &peak);
		if (!err)
			err = ops->small_trim(core->backend, keep > mapped ? keep - mapped : 0, &pending);
		if (!err && released)
			err = ops->small_held(core->backend, &after, &peak);
	}
	if (!err && released)
		*released = before - after;
	return err;
}

int trim_bytes(struct core *core, uint64_t bytes)
{
	uint64_t before = core->extents.given_back, last;
	int err;

	if (core->resting)
		return 0;
	do {
		last = core->extents.given_back;
		err = trim_whole(core, 0, ALL, 1);
	} while (!err && core->extents.given_back != last && core->extents.given_back - before < bytes);
	return err;
}

/* A trim asks for events that it records itself, and an idle device too takes some microseconds for one. */
static int poll_a_while(struct stream_map *map)
{
	int err = stream_poll_busy(map, false);

	for (guint polls = 0; polls < TRIM_POLLS && !err && map->busy.head; polls += map->busy.length)
		err = stream_poll_busy(map, false);
	return err;
}

int trim_at_rest(struct core *core, uint64_t keep, uint64_t *released)
{
	uint64_t before = core->extents.given_back, small = 0;
	guint stray;
	int err;

	lock_assert_held(&core->lock);
	extent_retry_stray(&core->extents);
	stray = core->extents.stray->len;
	cache_flush_all(core);
	err = poll_a_while(&core->streams);
	if (!err)
		err = zombie_reap(core);
	if (err)
		return err;
	err = span_trim(core, keep);
	if (!err)
		err = trim_whole(core, keep, ALL, ALL);
	growth_note_trim(core, core->extents.given_back - before);
	if (!err)
		err = trim_small(core, keep, released ? &small : NULL);
	if (!err && core->extents.stray->len > stray)
		err = error_add(-EIO, "the driver did not take all memory back");
	if (!err && released)
		*released = core->extents.given_back - before + small;
	return err;
}

int trim_pool(struct core *core, uint64_t keep, uint64_t *released)
{
	if (!core->resting)
		return trim_at_rest(core, keep, released);
	if (released)
		*released = 0;
	return 0;
}

/* While the pool holds too much, each cache lets a free take the slow path now and then, which comes here. */
static void watch_caches(struct core *core, struct stream *own, bool released)
{
	bool over = core->settings.cache && core_mapped(core) > core_keep(core);
	uint16_t frees = released ? CACHE_WATCH_SOON : CACHE_WATCH;

	if (over && !core->watched) {
		for_each_stream(stream, &core->streams)
			cache_watch(stream->cache, frees);
	} else if (over && own) {
		cache_watch(own->cache, frees);
	}
	core->watched = over;
}

static void trim_excess(struct core *core, struct stream *stream) __attribute__((cold));
static void trim_excess(struct core *core, struct stream *stream)
{
	uint64_t before = core->extents.given_back;
	struct error_kept kept;

	error_keep(&kept);
	/* In paged mode, zombies are in the way of holes. */
	if (!stream_poll_some(&core->streams) && (core->regions.keeps || !zombie_reap(core)))
		trim_whole(core, core_keep(core), TRIM_LOOKS, TRIM_EXTENTS);
	error_restore(&kept);
	watch_caches(core, stream, core->extents.given_back != before);
}

void trim_some(struct core *core, struct stream *stream)
{
	lock_assert_held(&core->lock);
	if (core->resting || core_mapped(core) <= core_keep(core))
		core->watched = false;
	else
		trim_excess(core, stream);
}
