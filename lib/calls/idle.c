// SPDX-License-Identifier: LGPL-2.1-or-later
/* Serves requests for idle memory, and for shareable blocks, which are idle too as they are new. */
#include <errno.h>

#include "calls/clear.h"
#include "calls/enter.h"
#include "calls/idle.h"
#include "calls/pool.h"
#include "calls/request.h"
#include "calls/submission.h"
#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "core/region-index.h"
#include "core/small.h"
#include "policy/policy.h"
#include "policy/trim.h"
#include "util/assume.h"
#include "util/error.h"

/* NULL: no event can be recorded on it now. */
static int find_idle_stream(struct vpmm_pool *pool, struct CUstream_st *handle, bool clears, struct stream **stream)
{
	struct error_kept kept;
	int err;

	*stream = NULL;
	error_keep(&kept);
	err = stream_get(&pool->core.streams, handle, stream);
	if (err != -EBUSY)
		return err;
	if (clears || pool->core.settings.scrub)
		return error_add(err, "memory cannot be cleared now");
	error_restore(&kept);
	return 0;
}

static int check_idle_size(const struct vpmm_pool *pool, size_t size, bool shareable)
{
	if (shareable && pool->core.settings.export_as == VPMM_EXPORT_NONE)
		return error_set(-ENOTSUP,
				 "VPMM_SHAREABLE is for pools with VPMM_EXPORT (export_as in struct vpmm_opts)");
	if (!shareable && pool->core.settings.page_size == SIZE_MAX)
		return error_set(-ENOTSUP, "the pool leaves every request to the driver, which orders it on a stream");
	return size > SIZE_MAX / 4 ? error_set(-ENOMEM, "more than a device can address") : 0;
}

/* What the stream has freed without an event, nobody else knows to be complete. */
static void enter_idle_stream(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle)
{
	struct stream *idle = stream_get_idle(&pool->core.streams);

	if (!stream) {
		enter_stream(pool, idle, STREAM_NULL);
		return;
	}
	enter_stream(pool, stream, handle);
	cache_flush(&pool->core, stream, handle, 0);
}

static int malloc_idle(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, bool shareable)
{
	struct request request = { .size = size, .requested = size, .handle = STREAM_NULL, .apart = shareable };
	int err;

	/* Some events that are complete are not known to be. */
	err = stream_poll_busy(&pool->core.streams, false);
	if (err)
		return err;
	request.stream = stream_get_idle(&pool->core.streams);
	if (shareable)
		return request_memory(pool, &policy_shareable, &request, addr);
	request.size = request_round(pool, size);
	request_align(pool, &request, align);
	return request_memory(pool, pool->core.policy, &request, addr);
}

/* From now on the block is the stream's, whose cache can take it back. */
static void give_to(struct vpmm_pool *pool, struct region *region, struct stream *stream)
{
	bool lent = region->block && region->block->lent;

	region_set_stream(region, stream);
	live_hand_out(&pool->core, region);
	if (!pool->core.settings.cache)
		return;
	cache_drop(region);
	cache_add(region, lent);
}

static int wait_for_idle(struct stream *stream, struct CUstream_st *handle)
{
	struct event *event;
	int err;

	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	err = event_sync(event);
	event_unref(event);
	return err;
}

/* @region: NULL: the block is shareable. */
static int scrub(struct vpmm_pool *pool, uint64_t addr, struct region *region, struct stream *stream,
		 struct CUstream_st *handle)
{
	int err;

	err = scrub_malloc(pool, addr, stream, handle);
	if (err)
		return err;
	err = wait_for_idle(stream, handle);
	if (err && region)
		submission_set_aside_block(pool, region);
	else if (err)
		scrub_drop_shareable(pool, small_find(&pool->core, addr));
	return err;
}

int idle_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct CUstream_st *handle,
		unsigned int flags)
{
	bool shareable = flags & VPMM_SHAREABLE;
	struct region *region;
	struct stream *stream;
	int err;

	lock_assert_held(&pool->core.lock);
	err = check_idle_size(pool, size, shareable);
	if (!err)
		err = find_idle_stream(pool, handle, flags & VPMM_ZERO, &stream);
	if (err)
		return err;
	enter_idle_stream(pool, stream, handle);
	err = malloc_idle(pool, addr, size, align, shareable);
	if (err)
		return err;
	/* What the driver's allocator does not serve is in the region maps, unless it is shareable. */
	region = live_find(&pool->core, *addr);
	assume(region || shareable);
	if (stream && region)
		give_to(pool, region, stream);
	if (pool->core.settings.scrub)
		err = scrub(pool, *addr, region, stream, handle);
	if (err)
		return err;
	pool->core.counts.mallocs++;
	trim_some(&pool->core, stream);
	return 0;
}
