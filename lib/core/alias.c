// SPDX-License-Identifier: LGPL-2.1-or-later
/* Extents at several addresses: at which mapping each byte is free, and how old mappings are unmapped. */
#include <stddef.h>

#include "core/alias.h"
#include "core/core.h"
#include "core/region-index.h"
#include "core/wait-set.h"
#include "util/assume.h"
#include "util/circle.h"

bool alias_order(struct core *core, const struct extent *extent, size_t from, size_t to, struct order *order)
{
	lock_assert_held(&core->lock);
	/* With one lookup: a program that remaps for long has each extent at hundreds of addresses. */
	if (extent_is_whole(extent)) {
		/* The only stream is ordered after all of its own events. */
		if (!core->streams.sole)
			order_add_range(order, &core->regions, extent->home->addr + from, to - from);
		return true;
	}
	for (const struct place *place = extent->places; place; place = place->next) {
		struct region *region = region_listed_at(&core->regions, place->addr + from);
		uint64_t end = place->addr + to;

		/* Loose memory belongs to the only stream, which is ordered after it. */
		for (; region && region->addr < end; region = region->next) {
			if (region->kind == REGION_MALLOC)
				return false;
			if (region->kind == REGION_FREE)
				order_add(order, region);
		}
	}
	return true;
}

void alias_order_sole(struct core *core, struct order *order)
{
	lock_assert_held(&core->lock);
	if (core->streams.sole)
		order_add_event(order, stream_latest(order->stream));
}

/* Memory of an extent is free at its home alone. If the extent is split, all that is loose of it is free. */
static bool loose_is_free(const struct place *place)
{
	return place->extent->split || place->extent->home == place;
}

/* Whether a range of one mapping is free there as it is. @order: NULL, or receives what others have to wait for. */
static bool is_free_here(struct core *core, const struct place *place, uint64_t addr, uint64_t end,
			 struct order *order)
{
	struct region *region = region_listed_at(&core->regions, addr);

	for (; region && region->addr < end; region = region->next) {
		if (region->kind != REGION_FREE && (region->kind != REGION_LOOSE || !loose_is_free(place)))
			return false;
		if (order)
			order_add(order, region);
	}
	return true;
}

/* Whether an address is among those that a growable block may grow into. */
static bool is_reserved(struct core *core, uint64_t addr)
{
	const struct region *region = core->regions.growables ? region_around(&core->regions, addr) : NULL;

	return region && region->reserved;
}

/*
 * A walk comes to a part of an extent that a stream may have to wait for, or that may be free in part. Kept out of the
 * loop, which passes most parts by. Return: false if the part cannot be had.
 */
static bool walk_part(struct core *core, const struct place *place, uint64_t addr, uint64_t end,
		      struct order *order) __attribute__((noinline));
static bool walk_part(struct core *core, const struct place *place, uint64_t addr, uint64_t end,
		      struct order *order)
{
	/* The only stream is ordered after all of its own events. */
	struct order *others = core->streams.sole ? NULL : order;
	struct extent *extent = place->extent;
	uint64_t from = MAX(addr, place->addr), stop = MIN(end, place->addr + extent->size);

	if (extent_is_whole(extent)) {
		extent->here = extent->home == place;
		if (others)
			order_add_range(others, &core->regions, extent->home->addr + (from - place->addr), stop - from);
		return true;
	}
	extent->here = is_free_here(core, place, from, stop, others);
	return !order || extent->here || alias_order(core, extent, from - place->addr, stop - place->addr, order);
}

/*
 * Finds out what of a range is free there as it is, and what a stream has to wait for. @order: NULL: all of it is known
 * to be free, or to become so. Return: the first mapping that is free elsewhere, or else the last one; NULL: some of
 * the range is allocated, or has no memory.
 */
static struct place *walk_places(struct core *core, uint64_t addr, size_t size, struct order *order)
{
	struct place *place = extent_place(&core->extents, addr), *elsewhere = NULL;
	uint64_t stamp = ++core->extents.stamp, end = addr + size;
	bool alone = core->streams.sole;

	for (; place; place = place->above) {
		struct extent *extent = place->extent;

		/* A block cannot contain one extent twice. */
		if (extent->stamp == stamp)
			return NULL;
		extent->stamp = stamp;
		if (alone && extent_is_whole(extent))
			extent->here = extent->home == place;
		else if (!walk_part(core, place, addr, end, order))
			return NULL;
		if (!extent->here && !elsewhere)
			elsewhere = place;
		if (place->addr + extent->size >= end)
			return elsewhere ? elsewhere : place;
	}
	return NULL;
}

struct place *alias_reaches(struct core *core, uint64_t addr, size_t size, struct order *order)
{
	lock_assert_held(&core->lock);
	return is_reserved(core, addr) ? NULL : walk_places(core, addr, size, order);
}

/* Makes the free bytes of a part of an extent, which is mapped at @here, free at its mapping at @there. */
static void move_free(struct core *core, uint64_t here, uint64_t there, size_t from, size_t until)
{
	struct region_map *regions = &core->regions;
	uint64_t addr = here + from, end = here + until;

	while (addr < end) {
		struct region *region = region_listed_at(regions, addr);
		uint64_t stop = MIN(end, region->addr + region->size);

		if (region->kind == REGION_FREE || region->kind == REGION_LOOSE) {
			struct stream *stream = region->stream;
			struct event *event = event_ref(region->event);

			region_vacate(regions, region, addr, stop - addr);
			region_set_free(regions, region_isolate(regions, addr - here + there, stop - addr),
					stream, event);
			event_unref(event);
		}
		addr = stop;
	}
}

static void set_home(struct core *core, struct place *place)
{
	place->extent->home = place;
	extent_use(&core->extents, place);
}

/* Makes what is free or loose of a mapping a zombie, as it is about to be allocated at another. */
static void vacate(struct core *core, uint64_t addr, size_t size)
{
	struct region *region = region_listed_at(&core->regions, addr);
	uint64_t end = addr + size;

	for (;;) {
		addr = MAX(addr, region->addr);
		if (region->kind == REGION_FREE || region->kind == REGION_LOOSE)
			region = region_vacate(&core->regions, region, addr,
					       MIN(end, region->addr + region->size) - addr);
		if (region->addr + region->size >= end)
			return;
		region = region->next;
	}
}

/* Loose memory of an extent becomes free memory with a split, so other mappings of the extent must have none. */
static void vacate_others(struct core *core, const struct extent *extent)
{
	for (const struct place *place = extent->places; place; place = place->next) {
		if (place != extent->home)
			vacate(core, place->addr, extent->size);
	}
}

/*
 * Takes what is free of a part of an extent from its other mappings. @block: the part is about to be allocated;
 * otherwise it becomes free here, and all of an extent without allocations does.
 */
static void claim_part(struct core *core, struct place *place, size_t from, size_t until, bool block)
{
	struct extent *extent = place->extent;

	if (!extent->live) {
		from = 0;
		until = extent->size;
		block = false;
	}
	if (circle_first(&core->regions.loose) && !extent->split)
		vacate_others(core, extent);
	/* Unless it is split, all that is free of it is at its home. */
	for (const struct place *other = extent->split ? extent->places : extent->home; other;
	     other = extent->split ? other->next : NULL) {
		if (other != place && block)
			vacate(core, other->addr + from, until - from);
		else if (other != place)
			move_free(core, other->addr, place->addr, from, until);
	}
	extent->split = extent->live;
	set_home(core, place);
}

/*
 * Sets the homes of adjacent whole extents to their mappings here, as far as they are adjacent at their old homes too.
 * Returns their bytes; *@place becomes the mapping above them.
 */
static size_t come_home(struct core *core, struct place **place, uint64_t end)
{
	uint64_t home = (*place)->extent->home->addr;
	size_t size = 0;

	do {
		set_home(core, *place);
		size += (*place)->extent->size;
		*place = (*place)->above;
	} while (*place && (*place)->addr < end && extent_is_whole((*place)->extent) &&
		 (*place)->extent->home->addr == home + size);
	return size;
}

/* Makes the old home of extents loose: region_decide() makes it free if their home is here by then. */
static void loosen(struct core *core, uint64_t addr, size_t size)
{
	struct region_map *map = &core->regions;

	/* A program that no longer searches has no free region, as all that it frees stays loose. */
	if (!map->bytes[REGION_FREE])
		return;
	for (struct region *region = region_listed_at(map, addr); region && region->addr < addr + size;
	     region = region->next) {
		if (region->kind == REGION_FREE)
			region = region_set_free(map, region, region->stream, region->event);
	}
}

/*
 * Makes what a recall leaves of a mapping loose. The memory was used at other mappings until now, so whatever was known
 * of it there is too old: the stream's latest event covers all of it.
 */
static void become_loose(struct core *core, uint64_t addr, size_t size)
{
	struct region_map *map = &core->regions;
	struct stream *sole = core->streams.sole;
	struct region *region = region_listed_at(map, addr);
	uint64_t end = addr + size;

	for (; region && region->addr < end; region = region->next) {
		if (region->kind == REGION_ZOMBIE) {
			addr = MAX(addr, region->addr);
			region = region_isolate(map, addr, MIN(end, region->addr + region->size) - addr);
		}
		region = region_set_free(map, region, sole, stream_latest(sole));
	}
}

/*
 * Takes whole extents, as many in one step as are adjacent where they are free now. Of these the part of the range is
 * about to be allocated with @block, and need not be free at this mapping before. Returns the mapping above them.
 */
static struct place *claim_whole(struct core *core, struct place *place, uint64_t addr, uint64_t end, bool block)
{
	uint64_t here = place->addr, there = place->extent->home->addr;
	size_t size = come_home(core, &place, end);
	size_t from = block ? MAX(addr, here) - here : size;
	size_t until = MIN(end - here, size);

	if (block && core->regions.lazy && core->streams.sole) {
		loosen(core, there, size);
		if (from)
			become_loose(core, here, from);
		if (until < size)
			become_loose(core, here + until, size - until);
		return place;
	}
	if (from)
		move_free(core, there, here, 0, from);
	if (!block)
		return place;
	if (until < size)
		move_free(core, there, here, until, size);
	vacate(core, there + from, until - from);
	return place;
}

/* Claims a range, whose mappings have been walked: those below @place are free there. */
static void claim(struct core *core, struct place *place, uint64_t addr, size_t size, bool block)
{
	uint64_t end = addr + size;

	while (place && place->addr < end) {
		const struct extent *extent = place->extent;

		if (!extent->here && extent_is_whole(extent)) {
			place = claim_whole(core, place, addr, end, block);
			continue;
		}
		if (!extent->here)
			claim_part(core, place, MAX(addr, place->addr) - place->addr,
				   MIN(end - place->addr, extent->size), block);
		place = place->above;
	}
}

void alias_claim(struct core *core, uint64_t addr, size_t size)
{
	lock_assert_held(&core->lock);
	region_decide(&core->regions);
	claim(core, walk_places(core, addr, size, NULL), addr, size, false);
}

struct region *alias_take(struct core *core, struct place *first, uint64_t addr, size_t size, struct order *order)
{
	lock_assert_held(&core->lock);
	/* A later walk has left its own findings in the extents. */
	assume(first->extent->stamp == core->extents.stamp);
	claim(core, first, addr, size, true);
	/* The only stream follows all of its events, and the latest covers the others: see alias_order_sole(). */
	return region_take(&core->regions, addr, size, order->stream,
			   core->streams.sole ? stream_latest(order->stream) : order->own);
}

size_t alias_free_run(const struct region_map *map, const struct region *loose, bool *free)
{
	struct core *core = (struct core *)((char *)map - offsetof(struct core, regions));
	const struct place *place = extent_place_mapped(&core->extents, loose->addr);
	uint64_t end = loose->addr + loose->size, stop;

	*free = loose_is_free(place);
	do {
		stop = place->addr + place->extent->size;
		place = place->above;
	} while (stop < end && loose_is_free(place) == *free);
	return MIN(end, stop) - loose->addr;
}

void alias_unify(struct core *core, uint64_t addr, size_t size)
{
	uint64_t end = addr + size;

	lock_assert_held(&core->lock);
	while (addr < end) {
		struct place *place = extent_place_mapped(&core->extents, addr);

		if (place->extent->split && !place->extent->live)
			claim_part(core, place, 0, place->extent->size, false);
		addr = place->addr + place->extent->size;
	}
}

/* Whether a mapping is all zombie, with no pending work through it. */
static bool place_is_dead(struct core *core, const struct place *place)
{
	const struct region *region = region_around(&core->regions, place->addr);

	return region && region->kind == REGION_ZOMBIE && !region->event &&
	       place->addr + place->extent->size <= region->addr + region->size;
}

static int unmap_dead(struct core *core, const struct place *place)
{
	uint64_t addr = place->addr;
	size_t size = place->extent->size;
	int err = extent_unmap(&core->extents, addr, size, NULL);

	if (!err)
		region_set_unmapped(&core->regions, region_isolate(&core->regions, addr, size));
	return err;
}

/* While there are more than @keep, until @needed were. What is looked at and still needed counts as used. */
static int trim_places(struct core *core, uint64_t keep, uint64_t looks, uint64_t needed)
{
	int err = 0;

	for (; looks && needed && core->extents.places > keep && !err; looks--) {
		GList *oldest = circle_first(&core->extents.by_use);
		struct place *place;

		assume(oldest);
		place = oldest->data;
		if (place->extent->counts && place_is_dead(core, place)) {
			err = unmap_dead(core, place);
			continue;
		}
		extent_use(&core->extents, place);
		needed--;
	}
	return err;
}

int alias_trim(struct core *core)
{
	int err;

	lock_assert_held(&core->lock);
	/* Loose memory does not count as a stream's zombie yet. */
	region_decide(&core->regions);
	err = stream_poll_busy(&core->streams, true);
	return err ? err : trim_places(core, 0, core->extents.places, UINT64_MAX);
}

int alias_trim_some(struct core *core, uint64_t keep)
{
	lock_assert_held(&core->lock);
	return trim_places(core, keep, ALIAS_TRIM_LOOKS, ALIAS_TRIM_NEEDED);
}

static int reap_map(struct core *core, struct region_map *regions)
{
	GList *link;
	int err;

	while ((link = circle_first(&regions->dead))) {
		struct region *region = link->data;

		err = extent_unmap(&core->extents, region->addr, region->size,
				   event_recorded(region->event));
		if (err)
			return err;
		region_set_unmapped(regions, region);
	}
	return 0;
}

int zombie_reap(struct core *core)
{
	struct region_map *regions = &core->regions;
	int err = 0;

	lock_assert_held(&core->lock);
	if (!regions->keeps && region_bytes(regions, REGION_ZOMBIE))
		err = stream_poll_busy(&core->streams, true);
	if (!err)
		err = reap_map(core, regions);
	return err ? err : reap_map(core, &core->spans);
}
