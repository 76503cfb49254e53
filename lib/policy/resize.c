// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that change their size where they are, or are mapped at another address where there is room behind them. */
#include <errno.h>

#include "core/alias.h"
#include "core/allocation.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/gather.h"
#include "policy/policy.h"
#include "policy/resize.h"
#include "policy/settle.h"
#include "policy/tuning.h"

/* Whether the extents below a map can be mapped at several addresses. Slabs never move. */
static bool can_remap(const struct core *core, const struct region_map *map)
{
	return map == &core->regions;
}

/* The free bytes directly behind a block, up to a limit. */
static size_t free_behind(const struct region *region, size_t limit)
{
	size_t bytes = 0;

	for (region = region->next; region && region_is_free(region) && bytes < limit; region = region->next)
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
	size_t more = request->size - region->size, run;
	struct region *hole;
	struct gathering g;
	struct order order;
	uint64_t addr;
	int err = 0;

	region_decide(&core->regions);
	run = free_behind(region, more);
	for (hole = region->next; hole && region_is_free(hole);)
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
	return fill_hole(core, region, request, fits);
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

#define MIB ((size_t)1 << 20)

/* Finds out which extents are the block's alone. */
static void collect(struct core *core, const struct region *region, struct remap *remap, GPtrArray *extents)
{
	uint64_t addr = region->addr, end = addr + region->size;
	const struct place *place = extent_place_mapped(&core->extents, addr);

	*remap = (struct remap){ 0 };
	if (place->addr < addr)
		remap->head = MIN(place->addr + place->extent->size, end) - addr;
	for (addr += remap->head; addr < end; addr += place->extent->size) {
		place = extent_place_mapped(&core->extents, addr);
		if (place->extent->size > end - addr)
			break;
		g_ptr_array_add(extents, place->extent);
		remap->moved += place->extent->size;
	}
	remap->tail = region->size - remap->head - remap->moved;
}

/*
 * A mapping takes as long as the copy of so many bytes. But a copy needs memory for both blocks: where there is none,
 * whatever can be mapped is.
 */
static bool is_worthwhile(const struct remap *remap, const GPtrArray *extents)
{
	return remap->moved >= (size_t)tuning_remap_least * MIB &&
	       remap->moved / extents->len >= (size_t)tuning_remap_extent * MIB;
}

static int find_remap_hole(struct core *core, size_t size, struct region **hole, struct chunk **added)
{
	*added = NULL;
	*hole = region_find_largest_unmapped(&core->regions);
	return *hole && (*hole)->size >= size ? 0 : chunk_find(core, &core->regions, size, hole, added);
}

/* Maps the block's own extents. Until the block moves there that is one more old mapping of them. */
static int map_own(struct core *core, uint64_t addr, size_t size, GPtrArray *extents)
{
	int err;

	err = chunk_map(core, &core->regions, addr, extents);
	if (!err)
		region_set_zombie(&core->regions, region_isolate(&core->regions, addr, size));
	return err;
}

/*
 * Maps free and new extents at an address, whole pages. What is in front may not be used for that: the @front bytes
 * from @base on are as good as taken.
 */
static int map_more(struct core *core, const struct request *request, uint64_t addr, size_t size, uint64_t base,
		    size_t front)
{
	struct gathering g;
	struct order order;
	uint64_t start;
	int err;

	order_init(&order, request->stream);
	gather_decide_behind(&g, core, &order, front + size, base, front, region_at(&core->regions, addr),
			     request->frugal, true);
	gather_order(&g);
	err = gather_carry_out(&g, request->handle, &start);
	gather_clear(&g);
	order_clear(&order);
	return err;
}

static int map_all(struct core *core, const struct request *request, struct remap *remap, GPtrArray *extents)
{
	size_t front = core_page_up(core, remap->head);
	size_t back = core_page_up(core, request->size - remap->head - remap->moved);
	struct region *hole;
	struct chunk *added;
	uint64_t addr;
	int err;

	err = find_remap_hole(core, front + remap->moved + back, &hole, &added);
	if (err)
		return err;
	addr = hole->addr;
	remap->to = addr + front - remap->head;
	err = map_own(core, addr + front, remap->moved, extents);
	if (err) {
		chunk_drop(core, added);
		return err;
	}
	if (front)
		err = map_more(core, request, addr, front, addr, 0);
	if (!err)
		err = map_more(core, request, addr + front + remap->moved, back, addr, front);
	if (err)
		return err;
	counts_add_remapped(&core->counts, remap->moved);
	return 0;
}

int remap_map(struct core *core, const struct region *region, const struct request *request, struct remap *remap,
	      bool *worthwhile)
{
	GPtrArray *extents;
	int err = 0;

	lock_assert_held(&core->lock);
	*worthwhile = false;
	if (region->chunk->map != &core->regions ||
	    (!request->frugal && (!core->regions.keeps || region->size < (size_t)tuning_remap_least * MIB)))
		return 0;
	extents = g_ptr_array_new();
	collect(core, region, remap, extents);
	if (request->frugal ? remap->moved > 0 : is_worthwhile(remap, extents)) {
		err = settle_mappings(core);
		if (!err)
			err = map_all(core, request, remap, extents);
		*worthwhile = !err;
	}
	g_ptr_array_free(extents, TRUE);
	return err;
}

struct region *remap_commit(struct core *core, struct region *region, const struct remap *remap, size_t size,
			    size_t requested, struct stream *stream, struct event *event)
{
	lock_assert_held(&core->lock);
	/* No one else can come between. */
	live_end(core, region, stream, event, true);
	alias_claim(core, remap->to + remap->head, remap->moved);
	region = region_take(&core->regions, remap->to, size, stream, event);
	live_enter(core, region, requested);
	return region;
}
