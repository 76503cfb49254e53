// SPDX-License-Identifier: LGPL-2.1-or-later
/* What is done before a request fails for lack of memory. */
#include <errno.h>
#include <stdbool.h>

#include "core/account.h"
#include "core/alias.h"
#include "core/cache-flush.h"
#include "core/core.h"
#include "pending/deferred-free.h"
#include "pending/pending.h"
#include "pending/watch.h"
#include "policy/policy.h"
#include "policy/reclaim.h"
#include "policy/span.h"
#include "policy/trim.h"
#include "util/error.h"

int reclaim_unused(struct core *core)
{
	int err;

	lock_assert_held(&core->lock);
	cache_flush_all(core);
	err = stream_poll_busy(&core->streams, false);
	if (!err)
		err = zombie_reap(core);
	if (!err)
		err = alias_trim(core);
	if (err)
		return err;
	err = span_trim(core, 0);
	return err ? err : trim_small(core, 0, NULL);
}

/*
 * Has the driver's allocator release what it can, and sets *@given if it did. Return: what it might release once the
 * device is idle: one pending free keeps tens of megabytes.
 */
static uint64_t trim_small_pending(struct core *core, bool *given)
{
	const struct backend_ops *ops = core->backend->ops;
	uint64_t before = 0, held = 0, peak;
	struct error_kept kept;
	bool busy = false;

	if (core->settings.small != VPMM_SMALL_DRIVER)
		return 0;
	error_keep(&kept);
	if (ops->small_held(core->backend, &before, &peak) || ops->small_trim(core->backend, 0, &busy) ||
	    ops->small_held(core->backend, &held, &peak))
		before = held = 0;
	error_restore(&kept);
	*given = *given || held < before;
	return busy && held > core->small_live ? held - core->small_live : 0;
}

/* Whether a stream's pending work keeps mappings or slabs from being released. */
static bool withholds(struct core *core, const struct stream *stream)
{
	return region_zombies(&core->regions, stream) || region_by_age(&core->spans, stream)->length;
}

/* Whether memory or mappings would become available when pending work completes; @bytes of free memory would. */
static bool is_pending(struct pending *pending, const struct request *request, uint64_t bytes)
{
	struct core *core = pending->core;

	/* What another process has gives no memory back, but a mapping. */
	if (bytes || pending->holds.head)
		return true;
	if (withholds(core, core->streams.joined))
		return true;
	for (const GList *link = core->streams.busy.head; link; link = link->next) {
		/* The driver's allocator needs unmapped memory, and unmapping waits for the events. */
		if (core->settings.small == VPMM_SMALL_DRIVER || request->apart || withholds(core, link->data))
			return true;
	}
	return false;
}

/*
 * Whether free memory, pending memory and the device together could serve a request; @back is what the driver's
 * allocator might release. -ENOMEM: they could not.
 */
static int judge_request(struct core *core, const struct request *request, uint64_t pending, uint64_t back)
{
	struct backend_info info;
	uint64_t room;
	int err;

	if (request->import)
		return 0;
	err = core->backend->ops->info(core->backend, &info);
	if (err)
		return err;
	room = MIN(info.memory_free + back, extent_room(&core->extents));
	return core_mapped(core) - core_live(core) + pending + room < request->size ? -ENOMEM : 0;
}

/*
 * Waits for all frees: for their events, or for the whole @device where there are frees without one. If that is not
 * possible (-EBUSY), the request fails with its own error.
 */
static int wait_for_frees(struct pending *pending, bool device)
{
	bool events = !device && !g_hash_table_size(pending->silent);
	struct error_kept why;
	int err;

	error_keep(&why);
	err = events ? stream_sync_busy(&pending->core->streams) : cache_await_device(pending->core);
	if (err == -EBUSY) {
		error_restore(&why);
		err = -ENOMEM;
	}
	return err;
}

/*
 * Waits for all frees and, with @gone, up to 25 ms for the backend to report graphs that are gone. Most graphs are not:
 * a request that frees can serve must not wait for them, so this is a round of its own. @given: memory may have been
 * given back since the last round.
 */
static int reclaim_pending(struct pending *pending, const struct request *request, bool given, bool gone)
{
	struct core *core = pending->core;
	/* Blocks that stay in the caches after a flush are uncovered or stranded. */
	uint64_t cached = cache_bytes(core), deferred = hold_pending(pending), graphs = watch_held(pending);
	uint64_t small = trim_small_pending(core, &given);
	int err;

	if (!given && !is_pending(pending, request, cached + small + graphs))
		return -ENOMEM;
	err = judge_request(core, request, cached + deferred + graphs, small);
	if (err)
		return err;
	log_add(&core->log, VPMM_LOG_INFO, "waiting for all streams, as %zu bytes are not to be had otherwise",
		request->size);
	err = wait_for_frees(pending, cached || small || graphs);
	if (err)
		return err;
	if (gone)
		watch_await(pending);
	hold_synced(pending, request->handle, request->stream->captured);
	return reclaim_unused(core);
}

/*
 * One extent after another, so that no more goes than is missing. Where memory itself is missing the policy has tried
 * with all that is free, and the pool would lose it for nothing.
 */
static int reclaim_whole(struct core *core, const struct request *request)
{
	uint64_t before = core->extents.given_back;
	struct backend_info info;
	int err;

	err = core->backend->ops->info(core->backend, &info);
	if (!err && MIN(info.memory_free, extent_room(&core->extents)) < request->size)
		err = -ENOMEM;
	if (err)
		return err;
	err = trim_bytes(core, request->size);
	if (!err && core->extents.given_back == before)
		err = -ENOMEM;
	return err;
}

int reclaim(struct pending *pending, const struct request *request, int round)
{
	bool ended;

	lock_assert_held(&pending->core->lock);
	ended = watch_collect(pending);
	if (!round)
		return reclaim_unused(pending->core);
	if (round == 3)
		return ended ? reclaim_unused(pending->core) : reclaim_whole(pending->core, request);
	if (round == 2 && !ended && !watch_held(pending))
		return -ENOMEM;
	return reclaim_pending(pending, request, ended, round == 2);
}
