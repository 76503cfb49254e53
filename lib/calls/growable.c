// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_malloc_growable(), and the growth and the shrinking of such blocks. */
#include <errno.h>

#include "calls/clear.h"
#include "calls/enter.h"
#include "calls/growable.h"
#include "calls/pool.h"
#include "calls/submission.h"
#include "core/allocation.h"
#include "core/core.h"
#include "core/owner.h"
#include "pending/deferred-free.h"
#include "pending/users.h"
#include "policy/growable.h"
#include "policy/policy.h"
#include "policy/reclaim.h"
#include "policy/trim.h"
#include "util/error.h"

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
		/* What is free may be in extents that are larger than what is missing, and none may be mapped in part. */
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
