// SPDX-License-Identifier: LGPL-2.1-or-later
/* Brings the pool up to date before a plan: flushes caches, polls events, unmaps old mappings. */
#include <stdatomic.h>

#include "core/alias.h"
#include "core/cache-flush.h"
#include "core/core.h"
#include "policy/growth.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/settle.h"
#include "policy/state.h"
#include "policy/trim.h"
#include "policy/tuning.h"
#include "util/circle.h"
#include "util/error.h"

/* Whether several threads take the slow path, this one included. */
static bool is_crowded(const struct core *core)
{
	const struct packed *packed = core->packed;

	return core->counts.mallocs < packed->crowded ||
	       (packed->thread && !pthread_equal(packed->thread, pthread_self()));
}

static void note_thread(struct core *core)
{
	struct packed *packed = core->packed;

	if (pthread_equal(packed->thread, pthread_self()))
		return;
	if (packed->thread)
		packed->crowded = core->counts.mallocs + tuning_crowded;
	packed->thread = pthread_self();
}

/* A large request gains nothing from flushing small blocks. */
static size_t flush_least(const struct core *core, size_t size)
{
	size_t small = core_small_size(core);

	return size < small ? 0 : small;
}

/*
 * Other streams' caches may have what is missing. But threads that each need their blocks would take them from one
 * another for ever, so leave out the busy caches if there are several threads.
 */
static void flush_streams(struct core *core, size_t size)
{
	cache_flush_streams(core, is_crowded(core), flush_least(core, size));
}

/* Raising core.pressure makes the other streams record their next frees. */
static void flush_others(struct core *core, const struct request *request)
{
	flush_streams(core, request->size);
	atomic_fetch_add_explicit(&core->pressure, 1, memory_order_relaxed);
}

/* Regions whose events have passed merge with their neighbours. */
static int poll_some(struct core *core)
{
	return core->streams.sole ? 0 : stream_poll_some(&core->streams);
}

static int settle_slabs(struct core *core)
{
	int err = circle_first(&core->spans.dead) ? zombie_reap(core) : 0;

	return err ? err : poll_some(core);
}

/* Cached blocks are free, and a better view of free memory makes for a better choice. */
static int settle_own(struct core *core, const struct request *request)
{
	/* A frugal request comes after a full flush. */
	if (request->frugal)
		return 0;
	note_thread(core);
	cache_flush(core, request->stream, request->handle, flush_least(core, request->size));
	if (!core->streams.sole && !is_crowded(core) &&
	    g_hash_table_size(core->streams.by_id) <= (guint)tuning_few_streams)
		flush_others(core, request);
	return circle_first(&core->regions.dead) || !core->regions.keeps ? zombie_reap(core) : 0;
}

static int settle_others(struct core *core, const struct request *request)
{
	if (core->streams.sole)
		return 0;
	flush_others(core, request);
	return stream_poll_busy(&core->streams, false);
}

int settle_caches(struct core *core, const struct request *request)
{
	lock_assert_held(&core->lock);
	if (!core->settings.cache)
		return 0;
	cache_flush(core, request->stream, request->handle, 0);
	if (core->streams.sole)
		return 0;
	cache_flush_streams(core, true, 0);
	return stream_poll_busy(&core->streams, false);
}

int settle_mappings(struct core *core)
{
	int err;

	lock_assert_held(&core->lock);
	if (!core->regions.keeps)
		return zombie_reap(core);
	/* With one stream, nothing else polls its events. */
	err = stream_poll_some(&core->streams);
	return err ? err : alias_trim_some(core, core->packed->most_places);
}

int settle(struct core *core, struct plan *plan, enum settle what)
{
	int err;

	lock_assert_held(&core->lock);
	switch (what) {
	case SETTLE_SLABS:
		return settle_slabs(core);
	case SETTLE_CACHES:
		err = settle_own(core, plan->request);
		return err ? err : poll_some(core);
	case SETTLE_AWAITED:
		return plan->reached ? order_poll(&plan->order) : 0;
	case SETTLE_BROKEN:
		return plan->addr ? stream_poll_some(&core->streams) : 0;
	case SETTLE_OTHERS:
		return settle_others(core, plan->request);
	case SETTLE_MAPPINGS:
		return settle_mappings(core);
	}
	return 0;
}

/*
 * A repeated phase is to start from the same state. Small blocks are flushed too: slabs whose free memory differs from
 * pass to pass may need one more page in any of them.
 */
static void begin_phase(struct core *core, const struct request *request)
{
	if (cache_begins(request->stream->cache))
		cache_flush(core, request->stream, request->handle, 0);
}

/*
 * Gives back some of what is held above the allowance since that fell. No more than it fell by: what a pool holds for
 * other reasons, each request would create again.
 */
static void trim_surplus(struct core *core)
{
	uint64_t *surplus = &core->packed->allowance.surplus, given_back = core->extents.given_back;
	struct error_kept kept;

	if (core_mapped(core) <= growth_most(core, 0)) {
		*surplus = 0;
		return;
	}
	error_keep(&kept);
	if (!stream_poll_some(&core->streams))
		trim_whole(core, growth_most(core, 0), TRIM_LOOKS, TRIM_EXTENTS);
	error_restore(&kept);
	*surplus -= MIN(*surplus, core->extents.given_back - given_back);
}

void settle_phase(struct core *core, const struct request *request)
{
	lock_assert_held(&core->lock);
	if (request->frugal)
		return;
	begin_phase(core, request);
	if (G_UNLIKELY(core->packed->allowance.surplus))
		trim_surplus(core);
}

int settle_all(struct core *core, const struct request *request)
{
	int err;

	lock_assert_held(&core->lock);
	cache_flush(core, request->stream, request->handle, 0);
	flush_streams(core, 0);
	err = stream_poll_busy(&core->streams, false);
	return err ? err : zombie_reap(core);
}
