// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that change their size where they are. */
#include <errno.h>

#include "core/alias.h"
#include "core/allocation.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/gather-plan.h"
#include "policy/gather.h"
#include "policy/harvest.h"
#include "policy/policy.h"
#include "policy/resize.h"
#include "policy/settle.h"

/* Whether the extents below a map can be mapped at several addresses. Slabs never move, and pages are not shared. */
static bool can_remap(const struct core *core, const struct region_map *map)
{
	return map == &core->regions && map->keeps;
}

/* The free bytes directly behind a block, up to a limit. */
static size_t free_behind(const struct region *region, size_t limit)
{
	size_t bytes = 0;

	for (region = region->next; region && region->kind == REGION_FREE && bytes < limit; region = region->next)
		bytes += region->size;
	return bytes;
}

/*
 * Whether a block would have one extent at two of its mappings. It must not: once all of the extent is free, that is at
 * one of them.
 */
static bool has_twice(struct core *core, const struct region *region, size_t more)
{
	uint64_t stamp = ++core->extents.stamp, end = region->addr + region->size + more;
	const struct place *place;

	for (uint64_t addr = region->addr; addr < end; addr = place->addr + place->extent->size) {
		place = extent_place(&core->extents, addr);
		if (!place)
			return false;
		if (place->extent->stamp == stamp)
			return true;
		place->extent->stamp = stamp;
	}
	return false;
}

/* Whether what follows a block is free, or can become so there without a driver call. */
static bool reaches(struct core *core, const struct region *region, size_t more, struct order *order)
{
	uint64_t end = region->addr + region->size;

	if (more > region->chunk->addr + region->chunk->size - end)
		return false;
	if (can_remap(core, region->chunk->map))
		return alias_reaches(core, end, more, order) && !has_twice(core, region, more);
	if (free_behind(region, more) < more)
		return false;
	order_add_range(order, region->chunk->map, end, more);
	return true;
}

/* Makes what follows a block free for a stream, if it can be. */
static int claim_behind(struct core *core, const struct region *region, const struct request *request, bool *fits)
{
	size_t more = request->size - region->size;
	struct order order;
	int err = 0;

	order_init(&order, request->stream);
	*fits = reaches(core, region, more, &order);
	if (*fits)
		err = live_wait(core, &order, request->handle);
	if (*fits && !err && can_remap(core, region->chunk->map))
		alias_claim(core, region->addr + region->size, more);
	order_clear(&order);
	return err;
}

/* Maps free and new extents into the hole behind a block, or behind what is free there. */
static int fill_hole(struct core *core, const struct region *region, const struct request *request, bool *fits)
{
	size_t more = request->size - region->size, run = free_behind(region, more);
	struct region *hole = region->next;
	struct gathering g;
	struct order order;
	uint64_t addr;
	int err = 0;

	while (hole && hole->kind == REGION_FREE)
		hole = hole->next;
	*fits = false;
	if (!hole || hole->kind != REGION_UNMAPPED || run >= more || has_twice(core, region, run))
		return 0;
	order_init(&order, request->stream);
	if (gather_decide_behind(&g, core, &order, more, region->addr + region->size, run, hole, request->frugal,
				 false)) {
		gather_order(&g);
		err = gather_carry_out(&g, request->handle, &addr);
		*fits = !err;
	}
	gather_clear(&g);
	order_clear(&order);
	/* Without memory for that, there may be free memory to copy the block to. */
	return err == -ENOMEM ? 0 : err;
}

/* The same with pages. What is free in front of the hole has to be one region, which stays where it is. */
static int fill_hole_paged(struct core *core, const struct region *region, const struct request *request, bool *fits)
{
	size_t run = free_behind(region, request->size);
	struct region *beside = run ? region->next : NULL, *hole = run ? beside->next : region->next;
	const struct request rest = { .size = request->size - region->size - run, .stream = request->stream,
				      .handle = request->handle, .frugal = request->frugal };
	struct event *event;
	int err;

	if (!hole || hole->kind != REGION_UNMAPPED || hole->size < rest.size)
		return 0;
	err = harvest_into(core, &rest, hole->addr, beside, NULL, &event);
	if (err)
		return err == -ENOMEM ? 0 : err;
	event_unref(event);
	return claim_behind(core, region, request, fits);
}

int resize_extend(struct core *core, struct region *region, const struct request *request, bool *fits)
{
	int err;

	lock_assert_held(&core->lock);
	err = claim_behind(core, region, request, fits);
	if (err || *fits)
		return err;
	/* Blocks in caches count as allocated, and may be what follows. */
	err = settle_caches(core, request);
	if (!err)
		err = claim_behind(core, region, request, fits);
	if (err || *fits || region->chunk->map != &core->regions)
		return err;
	err = settle_mappings(core);
	if (err)
		return err;
	return core->regions.keeps ? fill_hole(core, region, request, fits) :
	       fill_hole_paged(core, region, request, fits);
}

void resize_commit(struct core *core, struct region *region, size_t size, size_t requested, struct stream *stream,
		   struct event *event)
{
	struct region_map *map = region->chunk->map;
	uint64_t addr = region->addr;

	lock_assert_held(&core->lock);
	/* Free as a whole and allocated again: no one else can come between. */
	live_end(core, region, stream, event, true);
	live_enter(core, region_take(map, addr, size, stream, event), requested);
}
