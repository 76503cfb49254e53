// SPDX-License-Identifier: LGPL-2.1-or-later
/* The bookkeeping that begins and ends every allocation, on the slow path. */
#include "core/account.h"
#include "core/alias.h"
#include "core/allocation.h"
#include "core/core.h"
#include "core/wait-set.h"

struct region *live_find(struct core *core, uint64_t addr)
{
	struct region *region = region_find_malloc(&core->spans, addr);

	lock_assert_held(&core->lock);
	if (!region)
		region = region_find_malloc(&core->regions, addr);
	return region && !region->held ? region : NULL;
}

/* Whether the region counts for the extents below it. Slabs never move. */
static bool is_packed(const struct core *core, const struct region *region)
{
	return region->chunk->map == &core->regions;
}

/* Whether it is small and in memory that large requests could have, as no slab had room. */
static bool is_lent(const struct core *core, const struct region *region)
{
	return region->size < core_small_size(core) && is_packed(core, region);
}

void live_hand_out(const struct core *core, const struct region *region)
{
	const struct backend_ops *ops = core->backend->ops;

	if (ops->hand_out)
		ops->hand_out(core->backend, region->addr, region->size, region->stream->id);
}

int live_wait(struct core *core, struct order *order, struct CUstream_st *handle)
{
	if (order_is_ready(order))
		return 0;
	core->counts.steals++;
	return order_wait(order, handle, core->settings.reuse == VPMM_REUSE_BLOCK, &core->counts.waits);
}

size_t live_enter(struct core *core, struct region *region, size_t requested)
{
	size_t left = 0;

	lock_assert_held(&core->lock);
	if (is_packed(core, region)) {
		left = extent_add_live(&core->extents, region->addr, region->size);
		memo_enter(&core->memo, region->addr, region->size);
	}
	region->requested = requested;
	/* No cache serves a growable block: it has address space that others do not expect. */
	if (!core->settings.cache || region->max || !cache_enter(region, is_lent(core, region)))
		account_enter(&core->account, region->size, requested);
	live_hand_out(core, region);
	return left;
}

size_t live_requested(const struct region *region)
{
	return region->block ? region->block->requested : region->requested;
}

void live_request(struct core *core, struct region *region, size_t requested)
{
	size_t before = live_requested(region);

	lock_assert_held(&core->lock);
	if (requested > before)
		account_enter(&core->account, 0, requested - before);
	else
		account_leave(&core->account, 0, before - requested);
	region->requested = requested;
	if (region->block)
		region->block->requested = requested;
}

/* Takes it out of all that goes by its address, size or stream. */
static void live_lift(struct core *core, struct region *region)
{
	region->requested = live_requested(region);
	cache_drop(region);
	if (is_packed(core, region))
		memo_leave(&core->memo, region->addr, region->size);
}

/* What is live and what its extents have of that is as before, in other pieces. */
static void live_lay(struct core *core, struct region *region)
{
	if (is_packed(core, region))
		memo_enter(&core->memo, region->addr, region->size);
	if (!core->settings.cache)
		return;
	cache_add(region, is_lent(core, region));
	cache_take(region);
}

struct region *live_split(struct core *core, struct region *region, size_t size)
{
	struct region *upper;

	lock_assert_held(&core->lock);
	live_lift(core, region);
	upper = region_split(region->chunk->map, region, size);
	upper->requested = region->requested - MIN(region->requested, size);
	region->requested -= upper->requested;
	live_lay(core, region);
	live_lay(core, upper);
	return upper;
}

void live_join(struct core *core, struct region *region, struct region *upper)
{
	lock_assert_held(&core->lock);
	live_lift(core, region);
	live_lift(core, upper);
	region->requested += upper->requested;
	region_join(region->chunk->map, region, upper);
	live_lay(core, region);
}

void live_hand(struct core *core, struct region *region, struct stream *stream)
{
	lock_assert_held(&core->lock);
	live_lift(core, region);
	region_hand(region, stream, NULL);
	live_lay(core, region);
}

void live_end(struct core *core, struct region *region, struct stream *stream, struct event *event, bool covered)
{
	lock_assert_held(&core->lock);
	account_leave(&core->account, region->size, live_requested(region));
	if (covered) {
		cache_drop(region);
		live_leave(core, region, stream, event);
	} else {
		cache_strand(region, event);
	}
}

void live_leave(struct core *core, struct region *region, struct stream *stream, struct event *event)
{
	bool packed = is_packed(core, region), split = false;
	uint64_t addr = region->addr;
	size_t size = region->size;

	lock_assert_held(&core->lock);
	if (packed) {
		memo_leave(&core->memo, addr, size);
		split = extent_sub_live(&core->extents, addr, size);
	}
	if (region->max) {
		region->max = 0;
		region_unreserve(region->chunk->map, region->next);
	}
	region_set_free(region->chunk->map, region, stream, event);
	/* An extent is whole only if all of it is free at one mapping: gather it where this made the larger region. */
	if (split)
		alias_unify(core, addr, size);
}
