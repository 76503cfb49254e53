// SPDX-License-Identifier: LGPL-2.1-or-later
/* The packed policy: plan a request, then commit the plan. A query is the plan alone. */
#include <errno.h>

#include "core/alias.h"
#include "core/allocation.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "pending/flush.h"
#include "policy/allowance.h"
#include "policy/exchange.h"
#include "policy/gather.h"
#include "policy/growth.h"
#include "policy/largest.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/recent.h"
#include "policy/settling.h"
#include "policy/span.h"
#include "policy/state.h"
#include "policy/trim.h"
#include "util/error.h"

/* Allocates the block in a free range that the stream is ordered after. What an aligned one leaves of it stays free. */
static void take(struct core *core, struct region_map *map, const struct request *request, uint64_t *addr,
		 struct event *event)
{
	size_t size = request->align ? request->part : request->size;

	if (request->align)
		*addr = (*addr + request->align - 1) & ~((uint64_t)request->align - 1);
	live_enter(core, region_take(map, *addr, size, request->stream, event), request->requested);
}

/* Orders a stream after the earlier uses of a range, and allocates it. */
static int take_range(struct core *core, struct region_map *map, const struct request *request, uint64_t *addr)
{
	struct stream *stream = request->stream;
	size_t size = request->size;
	bool block = core->settings.reuse == VPMM_REUSE_BLOCK;
	struct order order;
	int err = 0;

	order_init(&order, stream);
	order_add_range(&order, map, *addr, size);
	if (!order_is_met(&order)) {
		core->counts.steals++;
		err = order_meet(&order, request->handle, block, &core->counts.waits);
	}
	if (!err)
		take(core, map, request, addr, order.own);
	order_clear(&order);
	return err;
}

static int commit_slab(struct core *core, const struct plan *plan, uint64_t *addr)
{
	int err = 0;

	*addr = plan->addr;
	if (plan->way == PLAN_GROW)
		err = span_grow(core, addr);
	if (!err)
		err = take_range(core, &core->spans, plan->request, addr);
	core->counts.reuses += !err && plan->way != PLAN_GROW;
	return err;
}

/* What later requests learn from a block in a range that was there. */
static void note_range(struct core *core, const struct plan *plan)
{
	size_t size = plan->request->size;

	if (plan->addr != plan->known)
		memo_put(&core->memo, size, plan->addr);
	recent_note(core, plan->addr, size);
	exchange_note(core, plan->addr, size, plan->way == PLAN_RECALL);
}

/* The first of all commits that a program makes which repeats itself: the memory comes to its address as the block. */
static int commit_recall(struct core *core, struct plan *plan, uint64_t *addr)
{
	const struct request *request = plan->request;
	struct order *order = &plan->order;
	int err = 0;

	if (!plan->ordered) {
		order_init(order, request->stream);
		plan->ordered = true;
		alias_reaches(core, plan->addr, request->size, order);
	}
	if (!order_is_met(order)) {
		core->counts.steals++;
		err = order_meet(order, request->handle, core->settings.reuse == VPMM_REUSE_BLOCK, &core->counts.waits);
	}
	if (err)
		return err;
	*addr = plan->addr;
	note_range(core, plan);
	live_enter(core, alias_take(core, *addr, request->size, order), request->requested);
	core->counts.reuses++;
	return 0;
}

static int commit_range(struct core *core, const struct plan *plan, uint64_t *addr)
{
	const struct request *request = plan->request;
	int err;

	*addr = plan->addr;
	if (plan->way == PLAN_RECALL)
		alias_claim(core, *addr, request->size);
	note_range(core, plan);
	err = take_range(core, &core->regions, request, addr);
	core->counts.reuses += !err && plan->way != PLAN_EXCHANGE;
	return err;
}

static int commit_gather(struct core *core, struct plan *plan, uint64_t *addr)
{
	const struct request *request = plan->request;
	int err;

	err = gather_carry_out(&plan->gathering, request->handle, addr);
	if (err)
		return err;
	if (plan->gathering.size == request->size) {
		memo_put(&core->memo, request->size, *addr);
		recent_note(core, *addr, request->size);
	}
	take(core, &core->regions, request, addr, plan->order.own);
	return 0;
}

static int commit_exchange(struct core *core, const struct plan *plan, uint64_t *addr)
{
	int err;

	err = exchange_carry_out(core, plan->request, plan->addr);
	return err ? err : commit_range(core, plan, addr);
}

static int commit(struct core *core, struct plan *plan, uint64_t *addr)
{
	switch (plan->way) {
	case PLAN_SLAB:
	case PLAN_GROW:
		return commit_slab(core, plan, addr);
	case PLAN_RECALL:
		/* What an aligned block leaves of the range stays free there. */
		return plan->request->align ? commit_range(core, plan, addr) : commit_recall(core, plan, addr);
	case PLAN_FIT:
		return commit_range(core, plan, addr);
	case PLAN_GATHER:
		return commit_gather(core, plan, addr);
	case PLAN_EXCHANGE:
		return commit_exchange(core, plan, addr);
	default:
		return -ENOMEM;
	}
}

typedef int (*plan_fn)(struct core *core, struct plan *plan);

static int serve(struct core *core, const struct request *request, plan_fn make_plan, uint64_t *addr)
{
	struct plan plan = { .request = request };
	uint64_t waits = core->counts.waits;
	int err;

	err = make_plan(core, &plan);
	if (!err)
		err = commit(core, &plan, addr);
	plan_clear(&plan);
	if (!err)
		settling_note(core);
	if (!err && allowance_is_sought(core))
		allowance_note(core, request, core->counts.waits > waits, *addr);
	return err;
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
 * other reasons, each request would create again. A failure is ignored, as the next request tries again.
 */
static void trim_surplus(struct core *core)
{
	uint64_t *surplus = &core->packed->allowance.surplus, given_back = core->extents.given_back;
	struct error_kept kept;

	if (!*surplus)
		return;
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

static int packed_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	int err = -ENOMEM;

	if (!request->frugal) {
		begin_phase(core, request);
		trim_surplus(core);
	}
	if (request->size < core_small_size(core) && !request->frugal)
		err = serve(core, request, plan_small, addr);
	/* Without memory for a slab, a small request is served from the large ones' memory. */
	return err == -ENOMEM ? serve(core, request, plan_block, addr) : err;
}

/* Makes a plan for a query. Return: 0; -ENOMEM if the device could not create enough; or an error of the backend. */
static int ask_plan(struct core *core, const struct request *request, plan_fn make_plan, uint64_t room,
		    struct vpmm_forecast *forecast)
{
	struct plan plan = { .request = request, .query = true };
	int err;

	err = make_plan(core, &plan);
	if (!err && !plan_is_affordable(core, &plan, room))
		err = -ENOMEM;
	if (!err)
		plan_price(core, &plan, room, forecast);
	plan_clear(&plan);
	return err;
}

/* Makes the plans in the order in which packed_malloc() would. */
static int ask_all(struct core *core, const struct request *request, uint64_t room, struct vpmm_forecast *forecast)
{
	int err = -ENOMEM;

	if (request->size < core_small_size(core) && !request->frugal)
		err = ask_plan(core, request, plan_small, room, forecast);
	return err == -ENOMEM ? ask_plan(core, request, plan_block, room, forecast) : err;
}

static int packed_forecast(struct core *core, const struct request *request, uint64_t room,
			   struct vpmm_forecast *forecast)
{
	int err;

	err = plan_prepare_query(core, request);
	if (!err)
		err = ask_all(core, request, room, forecast);
	/* No way to serve the request is an answer, not an error. */
	return err == -ENOMEM ? 0 : err;
}

/* Whether a malloc could serve a request, at once or once it has reclaimed. */
static bool packed_could(struct core *core, struct stream *stream, size_t size, uint64_t room)
{
	struct request request = { .size = size, .stream = stream };
	struct vpmm_forecast forecast = { 0 };

	if (!ask_all(core, &request, room, &forecast))
		return true;
	request.frugal = true;
	return !ask_all(core, &request, room, &forecast);
}

static uint64_t packed_largest(struct core *core, struct stream *stream, uint64_t room)
{
	return largest_search(core, stream, room, packed_could);
}

const struct policy policy_packed = {
	.malloc = packed_malloc,
	.forecast = packed_forecast,
	.largest = packed_largest,
	.trim = trim_whole,
};
