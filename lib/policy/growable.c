// SPDX-License-Identifier: LGPL-2.1-or-later
/* Maps memory into the address space of growable blocks, and takes it away again. */
#include <errno.h>

#include "core/alias.h"
#include "core/allocation.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/gather-plan.h"
#include "policy/gather.h"
#include "policy/growable.h"
#include "policy/harvest.h"
#include "policy/policy.h"
#include "policy/settle.h"
#include "util/error.h"

/* Old mappings are in the way of large holes. They go first, lest one block after another take more addresses. */
static int find_growable_hole(struct core *core, size_t max, struct region **hole, struct chunk **added)
{
	int err = 0;

	*added = NULL;
	*hole = region_find_unmapped(&core->regions, max);
	if (!*hole)
		err = core->regions.keeps ? alias_trim(core) : zombie_reap(core);
	return err || *hole ? err : chunk_find(core, &core->regions, max, hole, added);
}

/* Whether a range that takes all of a hole would pass for the rest of a growable block's, until a block starts there. */
static bool follows_growable(const struct region *hole, size_t max)
{
	return hole->size == max && hole->prev && (hole->prev->reserved || hole->prev->max);
}

int growable_reserve(struct core *core, size_t max, uint64_t *addr, struct chunk **added)
{
	struct region_map *map = &core->regions;
	struct region *hole;
	int err;

	lock_assert_held(&core->lock);
	err = find_growable_hole(core, max, &hole, added);
	if (!err && follows_growable(hole, max))
		err = find_growable_hole(core, max + core->settings.page_size, &hole, added);
	if (err)
		return err;
	/* The far end: other blocks grow into the start of a hole. */
	if (hole->size > max)
		hole = region_split(map, hole, hole->size - max);
	region_reserve(map, hole);
	*addr = hole->addr;
	return 0;
}

void growable_abandon(struct core *core, uint64_t addr, struct chunk *added)
{
	lock_assert_held(&core->lock);
	region_unreserve(&core->regions, region_at(&core->regions, addr));
	chunk_drop(core, added);
}

/*
 * What the block has lost may still be free as it was, and its old mappings be there: then it can become free there
 * again. Return: bytes of that, whole extents.
 */
static size_t still_mapped(struct core *core, uint64_t addr, size_t most, struct order *order)
{
	uint64_t stamp = ++core->extents.stamp;
	size_t size = 0;

	while (size < most) {
		const struct place *place = extent_place(&core->extents, addr + size);
		struct extent *extent = place ? place->extent : NULL;

		if (!extent || !extent_is_whole(extent) || extent->size > most - size || extent->stamp == stamp)
			break;
		extent->stamp = stamp;
		order_add_range(order, &core->regions, extent->home->addr, extent->size);
		size += extent->size;
	}
	return size;
}

/* Waits on the host until no work is pending through an old mapping. */
static int wait_for_zombie(struct core *core, const struct region *zombie)
{
	struct order order;
	int err;

	order_init(&order, NULL);
	order_add(&order, zombie);
	err = order_poll(&order);
	if (!err && !order_is_ready(&order))
		err = order_wait(&order, NULL, true, &core->counts.waits);
	order_clear(&order);
	return err;
}

/* Unmaps what is still mapped in a reserved range, whose memory others have by now. */
static int unmap_reserved(struct core *core, uint64_t addr, size_t size)
{
	struct region_map *map = &core->regions;
	uint64_t end = addr + size;
	struct region *region;
	int err;

	while (addr < end) {
		region = region_at(map, addr);
		if (region->kind == REGION_ZOMBIE) {
			err = wait_for_zombie(core, region);
			if (err)
				return err;
			/* It may have merged with its neighbours. */
			region = region_at(map, addr);
			region = region_isolate(map, addr, region->addr + region->size - addr);
			err = extent_unmap(&core->extents, addr, region->size,
					   region->event ? region->event->handle : NULL);
			if (err)
				return err;
			region = region_set_unmapped(map, region);
		}
		addr = region->addr + region->size;
	}
	return 0;
}

/* Waits for all that is to come before, and records a point behind that. Nothing of the waits is left to fail later. */
static int wait_and_record(struct core *core, struct order *order, const struct request *request, struct event **event)
{
	int err = live_wait(core, order, request->handle);

	return err ? err : stream_record(request->stream, request->handle, event);
}

/* Plans what is mapped behind the @kept bytes that still are. */
static int plan_rest(struct gathering *g, struct core *core, struct order *order, const struct request *request,
		     uint64_t addr, size_t kept)
{
	int err;

	err = unmap_reserved(core, addr + kept, request->size - kept);
	if (err)
		return err;
	gather_decide_behind(g, core, order, request->size, addr, kept, region_at(&core->regions, addr + kept),
			     request->frugal, true);
	gather_order(g);
	return 0;
}

static int map_packed(struct core *core, uint64_t addr, const struct request *request, struct event *behind,
		      struct event **event)
{
	struct gathering g = { 0 };
	struct order order;
	uint64_t start;
	size_t kept;
	int err = 0;

	order_init(&order, request->stream);
	order_add_event(&order, behind);
	kept = still_mapped(core, addr, request->size, &order);
	if (kept < request->size)
		err = plan_rest(&g, core, &order, request, addr, kept);
	if (!err)
		err = wait_and_record(core, &order, request, event);
	if (!err && kept < request->size) {
		err = gather_carry_out(&g, request->handle, &start);
		if (err)
			event_unref(*event);
	}
	if (!err && kept)
		alias_claim(core, addr, kept);
	gather_clear(&g);
	order_clear(&order);
	return err;
}

static int map_paged(struct core *core, uint64_t addr, const struct request *request, struct event *behind,
		     struct event **event)
{
	int err = unmap_reserved(core, addr, request->size);

	return err ? err : harvest_into(core, request, addr, NULL, behind, event);
}

int growable_map(struct core *core, uint64_t addr, const struct request *request, struct event *behind,
		 struct event **event)
{
	int err;

	lock_assert_held(&core->lock);
	err = settle_caches(core, request);
	if (!err)
		err = settle_mappings(core);
	if (err)
		return err;
	return core->regions.keeps ? map_packed(core, addr, request, behind, event) :
	       map_paged(core, addr, request, behind, event);
}

void growable_extend(struct core *core, struct region *region, size_t more)
{
	uint64_t end = region->addr + region->size;

	lock_assert_held(&core->lock);
	if (core->regions.keeps) {
		extent_add_live(&core->extents, end, more);
		memo_leave(&core->memo, region->addr, region->size);
		memo_enter(&core->memo, region->addr, region->size + more);
	}
	region_extend(&core->regions, region, more);
	account_enter(&core->account, more, 0);
}

size_t growable_least(struct core *core, const struct region *region, size_t size)
{
	const struct place *place;

	lock_assert_held(&core->lock);
	if (size >= region->size)
		return region->size;
	place = extent_place_mapped(&core->extents, region->addr + size - 1);
	return place->addr + place->extent->size - region->addr;
}

/* What is lost is free at its new mapping. The old one stays until the event has passed. */
static void lose(struct core *core, struct region *region, size_t size, uint64_t addr, const GPtrArray *extents,
		 struct stream *stream, struct event *event)
{
	struct region_map *map = &core->regions;
	size_t lost = region->size - size;

	if (core->regions.keeps) {
		memo_leave(&core->memo, region->addr, region->size);
		memo_enter(&core->memo, region->addr, size);
		extent_sub_live(&core->extents, region->addr + size, lost);
	}
	account_leave(&core->account, lost, 0);
	region_set_lost(map, region_split(map, region, size), stream, event);
	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		extent->home = extent->places;
	}
	region_set_free(map, region_isolate(map, addr, lost), stream, event);
}

int growable_cut(struct core *core, struct region *region, size_t size, struct stream *stream, struct event *event)
{
	size_t lost = region->size - size;
	struct region *hole;
	struct chunk *added;
	GPtrArray *extents;
	uint64_t addr;
	int err;

	lock_assert_held(&core->lock);
	err = chunk_find(core, &core->regions, lost, &hole, &added);
	if (err)
		return err;
	addr = hole->addr;
	extents = g_ptr_array_new();
	extent_collect(&core->extents, region->addr + size, lost, extents);
	err = chunk_map(core, &core->regions, addr, extents);
	if (!err)
		lose(core, region, size, addr, extents, stream, event);
	else
		chunk_drop(core, added);
	g_ptr_array_free(extents, TRUE);
	return err;
}
