// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_malloc_growable(), and the growth and the shrinking of such blocks. */
#include <errno.h>

#include "calls/clear.h"
#include "calls/enter.h"
#include "calls/growable.h"
#include "calls/pool.h"
#include "calls/submission.h"
#include "core/alias.h"
#include "core/allocation.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/owner.h"
#include "core/wait-set.h"
#include "pending/deferred-free.h"
#include "pending/users.h"
#include "policy/gather.h"
#include "policy/policy.h"
#include "policy/reclaim.h"
#include "policy/settle.h"
#include "policy/trim.h"
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

/* Whether a range that takes all of a hole would pass for a growable block's, until a block starts there. */
static bool follows_growable(const struct region *hole, size_t max)
{
	return hole->size == max && hole->prev && (hole->prev->reserved || hole->prev->max);
}

/* Reserves address space: @added is the chunk that was reserved for it, or NULL. */
static int growable_reserve(struct core *core, size_t max, uint64_t *addr, struct chunk **added)
{
	struct region_map *map = &core->regions;
	struct region *hole;
	int err;

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

static void growable_abandon(struct core *core, uint64_t addr, struct chunk *added)
{
	region_unreserve(&core->regions, region_at(&core->regions, addr));
	chunk_drop(core, added);
}

/*
 * Memory that the block has lost may still be free, with its old mapping in place: then it can become free there again,
 * but for pages, whose old mappings go. Return: bytes of such memory, whole extents.
 */
static size_t still_mapped(struct core *core, uint64_t addr, size_t most, struct order *order)
{
	uint64_t stamp = ++core->extents.stamp;
	size_t size = 0;

	while (core->regions.keeps && size < most) {
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
					   event_recorded(region->event));
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

static int map_at(struct core *core, uint64_t addr, const struct request *request, struct event *behind,
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

/*
 * Maps free and new extents at an address, where the block ends so far, or is to start; bytes and stream are those of
 * @request. All of it is free then, and the stream is ordered after its earlier uses; @event is a point in the stream
 * behind that. Waits on the host where a mapping that the block has lost is in the way and work through it is pending,
 * and under VPMM_REUSE=block. On failure only the layout of free memory may have changed.
 */
static int growable_map(struct core *core, uint64_t addr, const struct request *request, struct event *behind,
			struct event **event)
{
	int err;

	err = settle_caches(core, request);
	if (!err)
		err = settle_mappings(core);
	if (err)
		return err;
	return map_at(core, addr, request, behind, event);
}

/* The block takes in what growable_map() has mapped behind it. */
static void growable_extend(struct core *core, struct region *region, size_t more)
{
	uint64_t end = region->addr + region->size;

	extent_add_live(&core->extents, end, more);
	memo_leave(&core->memo, region->addr, region->size);
	memo_enter(&core->memo, region->addr, region->size + more);
	region_extend(&core->regions, region, more);
	account_enter(&core->account, more, 0);
}

/* The least memory that a block can shrink to: whole extents. */
static size_t growable_least(struct core *core, const struct region *region, size_t size)
{
	const struct place *place;

	if (size >= region->size)
		return region->size;
	place = extent_place_mapped(&core->extents, region->addr + size - 1);
	return place->addr + place->extent->size - region->addr;
}

/* Lost memory is free at its new mapping. The old mapping stays until the event has passed. */
static void lose(struct core *core, struct region *region, size_t size, uint64_t addr, const GPtrArray *extents,
		 struct stream *stream, struct event *event)
{
	struct region_map *map = &core->regions;
	size_t lost = region->size - size;

	memo_leave(&core->memo, region->addr, region->size);
	memo_enter(&core->memo, region->addr, size);
	extent_sub_live(&core->extents, region->addr + size, lost);
	account_leave(&core->account, lost, 0);
	region_set_lost(map, region_split(map, region, size), stream, event);
	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		extent->home = extent->places;
	}
	region_set_free(map, region_isolate(map, addr, lost), stream, event);
}

/* Frees what a block loses, at another address. If that fails the block keeps all. */
static int growable_cut(struct core *core, struct region *region, size_t size, struct stream *stream,
			struct event *event)
{
	size_t lost = region->size - size;
	struct region *hole;
	struct chunk *added;
	GPtrArray *extents;
	uint64_t addr;
	int err;

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

static int reserve_growable(struct vpmm_pool *pool, size_t max, const struct request *request, uint64_t *addr,
			    struct chunk **added)
{
	int err;

	err = growable_reserve(&pool->core, max, addr, added);
	for (int round = 0; err == -ENOMEM && round < RECLAIM_ROUNDS; round++) {
		err = reclaim(&pool->pending, request, round);
		if (!err)
			err = growable_reserve(&pool->core, max, addr, added);
	}
	return err;
}

static int map_growable(struct vpmm_pool *pool, uint64_t addr, struct request *request, struct event *behind,
			struct event **event)
{
	int err, last;

	err = growable_map(&pool->core, addr, request, behind, event);
	for (int round = 0; err == -ENOMEM && round <= RECLAIM_ROUNDS; round++) {
		request->frugal = true;
		/* Free extents may be larger than the gap, and no extent can be mapped in part. */
		last = round < RECLAIM_ROUNDS ? reclaim(&pool->pending, request, round) :
		       trim_bytes(&pool->core, request->size);
		/* What cannot be waited for is no reason not to release what is free. */
		if (last && last != -ENOMEM)
			return last;
		err = growable_map(&pool->core, addr, request, behind, event);
	}
	return err;
}

static int allocate_growable(struct vpmm_pool *pool, uint64_t addr, size_t max, struct request *request)
{
	struct core *core = &pool->core;
	struct region *region;
	struct event *event;
	int err;

	err = map_growable(pool, addr, request, NULL, &event);
	if (err)
		return err;
	region = region_take(&core->regions, addr, request->size, request->stream, event);
	event_unref(event);
	region->max = max;
	live_enter(core, region, request->requested);
	return 0;
}

int pool_malloc_growable(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t max, struct CUstream_st *handle)
{
	struct core *core = &pool->core;
	struct request request = { .requested = size, .handle = handle };
	struct chunk *added;
	uint64_t start;
	int err;

	lock_assert_held(&core->lock);
	if (core->settings.page_size == SIZE_MAX)
		return error_set(-ENOTSUP, "the pool leaves every request to the driver, whose blocks cannot grow");
	if (max > GROWABLE_MOST)
		return error_set(-ENOMEM, "max is %zu bytes, more than a device can address", max);
	err = stream_get(&core->streams, handle, &request.stream);
	if (err == -EBUSY)
		return error_add(err, "a growable block cannot be part of a capture");
	if (err)
		return err;
	enter_stream(pool, request.stream, handle);
	request.size = core_page_up(&pool->core, size);
	err = reserve_growable(pool, core_page_up(&pool->core, max), &request, &start, &added);
	if (err)
		return err;
	err = allocate_growable(pool, start, max, &request);
	if (err) {
		growable_abandon(core, start, added);
		return err;
	}
	if (core->settings.scrub)
		err = scrub_malloc(pool, start, request.stream, handle);
	if (err)
		return err;
	core->counts.mallocs++;
	*addr = start;
	trim_some(core, request.stream);
	return 0;
}

/* The block is another stream's from now on; that has waited for what the block was ordered after. */
static int hand_over(struct vpmm_pool *pool, struct region *region, struct stream *stream, struct CUstream_st *handle,
		     struct event **event)
{
	bool told;
	int err;

	err = hold_free_behind(&pool->pending, region, stream, handle, &told);
	if (!err)
		err = stream_record(stream, handle, event);
	if (err)
		return err;
	region_hand(region, stream, *event);
	live_hand_out(&pool->core, region);
	return 0;
}

/* Gives back what it can. If that cannot be mapped elsewhere the block keeps it, which is no error. */
static int shrink(struct vpmm_pool *pool, struct region *region, size_t least, struct stream *stream,
		  struct CUstream_st *handle)
{
	struct core *core = &pool->core;
	const struct region lost = { .addr = region->addr + least, .size = region->size - least,
				     .stream = region->stream };
	struct error_kept kept;
	struct event *event;
	int err;

	err = hand_over(pool, region, stream, handle, &event);
	if (err)
		return err;
	error_keep(&kept);
	if (!lost.size)
		goto out;
	owner_note(core, &lost, stream);
	if (growable_cut(core, region, least, stream, event))
		error_restore(&kept);
out:
	event_unref(event);
	return 0;
}

/* Clears what the block gains: from its end as requested on, as what it had before it became smaller is behind that. */
static int scrub_growth(struct submission *s, struct region *region)
{
	struct core *core = &s->pool->core;
	size_t from = MIN(live_requested(region), region->size);
	const struct region gain = { .addr = region->addr + from, .size = region->size - from };
	int err;

	if (!core->settings.scrub || !gain.size)
		return 0;
	if (core->settings.scrub == VPMM_SCRUB_STREAM && owner_take(core, &gain, region->stream))
		return 0;
	err = submission_clear(s, gain.addr, gain.size);
	return err ? err : submission_cover(s, region);
}

/* A clear may be under way. If no event can be behind it, its stream uses the block, which keeps what it has gained. */
static void undo_growth(struct submission *s, struct region *region, size_t had, struct stream *stream)
{
	struct error_kept kept;
	struct event *event;

	error_keep(&kept);
	if ((s->begun || region->size > had) && !submission_end(s, stream, &event)) {
		region_set_begin(region, event);
		if (region->size > had)
			growable_cut(&s->pool->core, region, had, stream, event);
		event_unref(event);
	}
	submission_keep(s, region->addr, stream);
	error_restore(&kept);
}

static int grow_growable(struct submission *s, struct region *region, struct request *request)
{
	struct event *behind = event_ref(region->event), *event;
	struct core *core = &s->pool->core;
	size_t had = region->size;
	int err;

	err = map_growable(s->pool, region->addr + had, request, behind, &event);
	event_unref(behind);
	if (err)
		return err;
	growable_extend(core, region, request->size);
	region_hand(region, request->stream, event);
	live_hand_out(core, region);
	event_unref(event);
	err = scrub_growth(s, region);
	if (err)
		undo_growth(s, region, had, request->stream);
	return err;
}

/* What was another stream's is cleared for one that asks for no more as well, see needs_scrub() in realloc.c. */
static int fit(struct submission *s, struct region *region, size_t size, bool keeps, struct stream *stream)
{
	struct core *core = &s->pool->core;
	bool handed = core->settings.scrub == VPMM_SCRUB_STREAM && region->stream != stream;
	int err;

	err = shrink(s->pool, region, keeps ? region->size : growable_least(core, region, size), stream, s->handle);
	if (err || (size <= live_requested(region) && !handed))
		return err;
	err = scrub_growth(s, region);
	if (err)
		undo_growth(s, region, region->size, stream);
	return err;
}

int growable_resize(struct vpmm_pool *pool, struct region *region, size_t size, bool keeps, struct stream *stream,
		    struct CUstream_st *handle)
{
	struct core *core = &pool->core;
	struct request request = { .requested = size, .stream = stream, .handle = handle };
	size_t bytes = core_page_up(&pool->core, size);
	struct submission s;
	int err;

	lock_assert_held(&core->lock);
	err = submission_begin(&s, pool, handle, false);
	if (err)
		return err;
	request.size = bytes - MIN(bytes, region->size);
	err = request.size ? grow_growable(&s, region, &request) : fit(&s, region, size, keeps, stream);
	submission_drop(&s);
	if (!err)
		live_request(core, region, size);
	return err;
}
