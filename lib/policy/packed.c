// SPDX-License-Identifier: LGPL-2.1-or-later
/* The policy where allocations share pages and extents. */
#include <errno.h>
#include <stdatomic.h>

#include "core/alias.h"
#include "core/allocation.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "pending/flush.h"
#include "policy/budget.h"
#include "policy/fit.h"
#include "policy/gather.h"
#include "policy/largest.h"
#include "policy/policy.h"
#include "policy/span.h"
#include "policy/state.h"
#include "policy/trim.h"
#include "policy/tuning.h"

/* Allocates a range for a stream, which comes after whoever had it. */
static int packed_take(struct core *core, struct region_map *map, const struct request *request, uint64_t addr)
{
	struct stream *stream = request->stream;
	size_t size = request->size;
	bool block = core->settings.reuse == VPMM_REUSE_BLOCK;
	struct region *region;
	struct order order;
	int err = 0;

	order_init(&order, stream);
	for (region = region_at(map, addr); region && region->addr < addr + size; region = region->next)
		order_add(&order, region);
	if (!order_is_met(&order)) {
		core->counts.steals++;
		err = order_meet(&order, request->handle, block, &core->counts.waits);
	}
	if (!err)
		live_enter(core, region_take(map, addr, size, stream, order.own));
	order_clear(&order);
	return err;
}

/* Whether several threads have allocated lately, and not from their caches alone, if this one does. */
static bool packed_is_crowded(const struct core *core)
{
	const struct packed *packed = core->packed;

	return core->counts.mallocs < packed->crowded ||
	       (packed->thread && !pthread_equal(packed->thread, pthread_self()));
}

static void packed_note_thread(struct core *core)
{
	struct packed *packed = core->packed;

	if (pthread_equal(packed->thread, pthread_self()))
		return;
	if (packed->thread)
		packed->crowded = core->counts.mallocs + tuning_crowded;
	packed->thread = pthread_self();
}

/* What is small makes no difference to what is large. */
static size_t flush_least(const struct core *core, size_t size)
{
	size_t small = core_small_size(core);

	return size < small ? 0 : small;
}

/*
 * What other streams have cached may be what is missing. Of several threads each needs some for itself; taking it from
 * one another, they would all be held up for ever.
 */
static void packed_flush_others(struct core *core, size_t size)
{
	cache_flush_streams(core, packed_is_crowded(core), flush_least(core, size));
}

/* The same for an allocation: the other streams are to let others have what they free for a while. */
static void packed_reclaim(struct core *core, size_t size)
{
	packed_flush_others(core, size);
	atomic_fetch_add_explicit(&core->pressure, 1, memory_order_relaxed);
}

/* What is cached is free; the better it is known, the better is the choice of what to take. */
static void packed_look_around(struct core *core, const struct request *request)
{
	size_t size = request->size;
	bool crowded;

	packed_note_thread(core);
	crowded = packed_is_crowded(core);
	cache_flush(core, request->stream, request->handle, flush_least(core, size));
	if (!crowded && !core->streams.sole && g_hash_table_size(core->streams.by_id) <= (guint)tuning_few_streams)
		packed_reclaim(core, size);
}

static int packed_malloc_span(struct core *core, const struct request *request, uint64_t *addr)
{
	struct region_map *spans = &core->spans;
	struct stream *stream = request->stream;
	size_t size = request->size;
	struct region *region;
	int err = 0;

	*addr = 0;
	if (spans->dead.head) {
		err = zombie_reap(core);
		if (err)
			return err;
	}
	region = region_find_own(spans, stream, size);
	if (!region) {
		packed_look_around(core, request);
		region = region_find_own(spans, stream, size);
	}
	if (!region && !core->streams.sole) {
		packed_reclaim(core, size);
		err = stream_poll_busy(&core->streams, false);
		if (err)
			return err;
		region = region_find_own(spans, stream, size);
	}
	if (!region)
		region = span_borrow(core, stream, size);
	if (region)
		*addr = region->addr;
	else if (!budget_room(core, size))
		region_find_run(spans, size, addr);
	if (*addr)
		core->counts.reuses++;
	else
		err = span_grow(core, addr);
	if (!err)
		err = packed_take(core, spans, request, *addr);
	/* What is cached passes for allocated, and is not to be made room for. */
	if (!err && span_is_short(core)) {
		cache_flush(core, stream, request->handle, 0);
		span_settle(core);
	}
	return err;
}

/* What was decided here before, if it can be had: without waiting for others, or, if @wait, with it. */
static int packed_recall(struct core *core, uint64_t known, size_t size, struct stream *stream, bool wait,
			 uint64_t *addr)
{
	struct order order;
	int err = 0;

	*addr = 0;
	if (!known)
		return 0;
	order_init(&order, stream);
	if (!alias_reaches(core, known, size, &order))
		goto out;
	if (!wait && !order_is_met(&order))
		err = order_poll(&order);
	if (!err && (wait || order_is_met(&order))) {
		alias_claim(core, known, size);
		*addr = known;
	}
out:
	order_clear(&order);
	return err;
}

/* A run of free regions of whatever streams. */
static void packed_choose_run(struct core *core, size_t size, uint64_t *addr)
{
	uint64_t start = 0;
	size_t run = region_find_run(&core->regions, size, &start);

	if (run)
		*addr = fit_within(core, start, run, size);
}

/* Memory that is mapped already, and free, or will be. *@addr stays 0 where there is none. @asked: nobody allocates. */
static int packed_find(struct core *core, uint64_t known, size_t size, struct stream *stream, bool asked,
		       uint64_t *addr)
{
	int err;

	/* What nobody has to wait for any more is one with its neighbours, and fits more. */
	err = core->streams.sole ? 0 : stream_poll_some(&core->streams);
	if (!err)
		err = packed_recall(core, known, size, stream, false, addr);
	if (err || *addr)
		return err;
	if (fit_find(core, stream, size, addr))
		return 0;
	if (core->streams.sole)
		return 0;
	if (asked)
		packed_flush_others(core, size);
	else
		packed_reclaim(core, size);
	err = stream_poll_busy(&core->streams, false);
	if (err || fit_find(core, stream, size, addr) || stream->captured)
		return err;
	err = packed_recall(core, known, size, stream, true, addr);
	if (!err && !*addr)
		packed_choose_run(core, size, addr);
	return err;
}

static int packed_gather(struct core *core, const struct request *request, uint64_t *addr)
{
	struct stream *stream = request->stream;
	size_t size = request->size;
	struct order order;
	int err;

	order_init(&order, stream);
	err = gather_block(core, request, &order, addr);
	if (!err) {
		memo_put(&core->memo, size, *addr);
		live_enter(core, region_take(&core->regions, *addr, size, stream, order.own));
	}
	order_clear(&order);
	return err;
}

/* What was found, where the decision before was @known. */
static int packed_reuse(struct core *core, const struct request *request, uint64_t known, uint64_t addr)
{
	int err;

	if (addr != known)
		memo_put(&core->memo, request->size, addr);
	err = packed_take(core, &core->regions, request, addr);
	core->counts.reuses += !err;
	return err;
}

/* What is mapped, or else what can be gathered. */
static int packed_try(struct core *core, const struct request *request, uint64_t *addr)
{
	uint64_t known = memo_find(&core->memo, request->size);
	int err;

	*addr = 0;
	err = packed_find(core, known, request->size, request->stream, false, addr);
	if (err)
		return err;
	return *addr ? packed_reuse(core, request, known, *addr) : packed_gather(core, request, addr);
}

static int packed_malloc_large(struct core *core, const struct request *request, uint64_t *addr)
{
	int err;

	packed_look_around(core, request);
	if (core->regions.dead.head) {
		err = zombie_reap(core);
		if (err)
			return err;
	}
	err = packed_try(core, request, addr);
	return err;
}

/*
 * What was decided in this state before comes first, then what fits best of what the stream can have without waiting,
 * then what it has to wait for; then a block is gathered. Small requests are served from spans.
 */
static int packed_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	int err = -ENOMEM;

	if (request->frugal)
		return packed_try(core, request, addr);
	if (request->size < core_small_size(core))
		err = packed_malloc_span(core, request, addr);
	/* When there is no page for small requests to be had, they get what others have free. */
	return err == -ENOMEM ? packed_malloc_large(core, request, addr) : err;
}

/* A range that is mapped and free. */
static void forecast_reuse(struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
			   struct vpmm_forecast *forecast)
{
	struct order order;

	order_init(&order, stream);
	for (struct region *region = region_at(map, addr); region && region->addr < addr + size; region = region->next)
		order_add(&order, region);
	forecast->way = VPMM_WAY_REUSE;
	forecast->waits = order_waits(&order);
	order_clear(&order);
}

/* As packed_malloc_span(). */
static int forecast_span(struct core *core, size_t size, struct stream *stream, uint64_t room,
			 struct vpmm_forecast *forecast)
{
	struct region_map *spans = &core->spans;
	uint64_t addr = 0, bytes = span_growth(core);
	int err;

	packed_flush_others(core, size);
	err = stream_poll_busy(&core->streams, false);
	if (err)
		return err;
	if (region_find_own(spans, stream, size) || span_can_borrow(core, stream, size)) {
		forecast->way = VPMM_WAY_REUSE;
	} else if (!budget_room(core, size) && region_find_run(spans, size, &addr)) {
		forecast_reuse(spans, addr, size, stream, forecast);
	} else if (room >= core->settings.page_size) {
		forecast->way = VPMM_WAY_GROW;
		forecast->grown = bytes > room ? core->settings.page_size : bytes;
		forecast->calls = 3;
	}
	return 0;
}

static void forecast_gather(struct core *core, size_t size, struct stream *stream, uint64_t room,
			    struct vpmm_forecast *forecast)
{
	struct gather_cost cost;

	gather_forecast(core, stream, size, false, &cost);
	if (cost.create > room) {
		gather_forecast(core, stream, size, true, &cost);
		if (cost.create > room + span_unused(core))
			return;
	}
	forecast->way = cost.create ? VPMM_WAY_GROW : VPMM_WAY_HARVEST;
	forecast->grown = cost.create;
	forecast->remapped = cost.remapped;
	forecast->waits = cost.waits;
	forecast->calls = cost.calls;
}

static int packed_forecast(struct core *core, const struct request *request, uint64_t room,
			   struct vpmm_forecast *forecast)
{
	struct stream *stream = request->stream;
	size_t size = request->size;
	uint64_t addr;
	int err;

	/* Where memory is short, spans give back what no small request is in; and that is not known before. */
	cache_flush(core, stream, request->handle, 0);
	packed_flush_others(core, 0);
	err = stream_poll_busy(&core->streams, false);
	if (!err)
		err = zombie_reap(core);
	if (!err && size < core_small_size(core))
		err = forecast_span(core, size, stream, room, forecast);
	if (err || forecast->way != VPMM_WAY_NONE)
		return err;
	/* That what was decided before becomes free where it was makes no difference to anybody. */
	err = packed_find(core, memo_find(&core->memo, size), size, stream, true, &addr);
	if (err)
		return err;
	if (addr)
		forecast_reuse(&core->regions, addr, size, stream, forecast);
	else
		forecast_gather(core, size, stream, room, forecast);
	return 0;
}

/* Whether a request could be served, waiting for nobody on the host. */
static bool packed_could(struct core *core, struct stream *stream, size_t size, uint64_t room)
{
	struct gather_cost cost;
	uint64_t addr;

	if (fit_find(core, stream, size, &addr) || region_find_run(&core->regions, size, &addr))
		return true;
	gather_forecast(core, stream, size, true, &cost);
	return cost.create <= room + span_unused(core);
}

static uint64_t packed_largest(struct core *core, struct stream *stream, uint64_t room)
{
	return largest_search(core, stream, room, packed_could);
}

const struct policy policy_packed = {
	.name = "packed",
	.malloc = packed_malloc,
	.forecast = packed_forecast,
	.largest = packed_largest,
	.trim = trim_whole,
};
