// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdbool.h>

#include "calls/pool.h"
#include "core/alias.h"
#include "core/cache.h"
#include "core/zombie.h"
#include "pending/deferred-free.h"
#include "policy/reclaim.h"
#include "policy/span.h"
#include "policy/trim.h"
#include "util/error.h"

int pressure_release(struct vpmm_pool *pool)
{
	int err;

	if (pool->settings.cache)
		cache_flush_all(pool);
	err = stream_poll_busy(&pool->streams, false);
	if (!err)
		err = zombie_reap(pool);
	if (!err)
		err = alias_trim(pool);
	if (err)
		return err;
	span_return_all(pool);
	err = span_trim(pool, 0);
	return err ? err : trim_small(pool, 0, NULL);
}

/*
 * What the driver's allocator may give back once the device is idle. A single pending free keeps tens of megabytes from
 * being given back.
 */
static uint64_t small_pending(struct vpmm_pool *pool)
{
	const struct backend_ops *ops = pool->backend->ops;
	uint64_t held = 0, peak;
	struct error_kept kept;
	bool pending = false;

	if (pool->settings.small != VPMM_SMALL_DRIVER)
		return 0;
	error_keep(&kept);
	if (ops->small_trim(pool->backend, 0, &pending) || !pending || ops->small_held(pool->backend, &held, &peak))
		held = 0;
	error_restore(&kept);
	return held > pool->small_live ? held - pool->small_live : 0;
}

/* What all streams keep from others, as nobody knows when they are past it. */
static uint64_t withheld(struct vpmm_pool *pool)
{
	struct cache_sums cached;

	cache_sum(pool, &cached);
	return cached.bytes;
}

/* Whether the end of pending work would let go of memory or of places that nobody can have before. */
static bool is_pending(struct vpmm_pool *pool, uint64_t kept)
{
	if (kept)
		return true;
	for (const GList *link = pool->streams.busy.head; link; link = link->next) {
		const struct stream *stream = link->data;
		const struct free_set *set = stream->free[pool->spans.set];

		/* The driver's allocator can have only what is unmapped, and that waits for the event. */
		if (stream->zombies || (set && set->by_age.length) || pool->settings.small == VPMM_SMALL_DRIVER)
			return true;
	}
	return false;
}

/*
 * Whether a request could be served with what is free, what is pending, and what the device has, @back bytes that it may
 * get back included; -ENOMEM: it could not.
 */
static int judge(struct vpmm_pool *pool, size_t size, uint64_t pending, uint64_t back)
{
	struct backend_info info;
	uint64_t room;
	int err;

	err = pool->backend->ops->info(pool->backend, &info);
	if (err)
		return err;
	room = MIN(info.memory_free + back, extent_room(&pool->extents));
	return pool_mapped(pool) - pool_live(pool) + pending + room < size ? -ENOMEM : 0;
}

int pressure_meet(struct vpmm_pool *pool, size_t size, struct stream *stream, struct CUstream_st *handle)
{
	bool block = pool->settings.reuse == VPMM_REUSE_BLOCK || stream->captured;
	int err;

	err = pressure_release(pool);
	if (err || !pool->holds.head)
		return err;
	/* No stream is to wait for others for what cannot be had either way. */
	err = judge(pool, size, withheld(pool) + hold_pending(pool), 0);
	return err ? err : hold_meet(pool, stream, handle, block);
}

/* Waiting for all of the device is for what has no event. Where it cannot be done, the request fails as it would. */
static int wait_for_all(struct vpmm_pool *pool, bool unmarked)
{
	bool events = !unmarked && !g_hash_table_size(pool->silent);
	struct error_kept why;
	int err;

	error_keep(&why);
	err = events ? stream_sync_busy(&pool->streams) : cache_settle_all(pool);
	if (err == -EBUSY) {
		error_restore(&why);
		err = -ENOMEM;
	}
	return err;
}

int pressure_wait(struct vpmm_pool *pool, size_t size, const struct stream *stream, struct CUstream_st *handle)
{
	uint64_t kept = withheld(pool), held = hold_pending(pool), small = small_pending(pool);
	int err;

	if (!is_pending(pool, kept + held + small))
		return -ENOMEM;
	err = judge(pool, size, kept + held, small);
	if (err)
		return err;
	log_add(&pool->log, VPMM_LOG_INFO, "waiting for all streams, as %zu bytes are not to be had otherwise", size);
	err = wait_for_all(pool, kept || small);
	if (err)
		return err;
	hold_synced(pool, handle, stream->captured);
	return pressure_release(pool);
}
