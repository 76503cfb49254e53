// SPDX-License-Identifier: LGPL-2.1-or-later
/* The packed policy: plan a request, then commit the plan. A query is the plan alone. */
#include <errno.h>
#include <inttypes.h>

#include "core/alias.h"
#include "core/allocation.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/exchange.h"
#include "policy/fit.h"
#include "policy/gather.h"
#include "policy/growth.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/settle.h"
#include "policy/span.h"
#include "policy/state.h"
#include "util/error.h"

/* Counts a block, which may break large extents. */
static void enter(struct core *core, struct region *region, const struct request *request)
{
	if (live_enter(core, region, request->requested) >= core->settings.page_size)
		exchange_note(core, region->addr, region->size);
}

/* Allocates the block in a free range that the stream is ordered after. What an aligned one leaves of it stays free. */
static void take(struct core *core, struct region_map *map, const struct request *request, uint64_t *addr,
		 struct event *event)
{
	size_t size = request->align ? request->part : request->size;

	if (request->align)
		*addr = (*addr + request->align - 1) & ~((uint64_t)request->align - 1);
	enter(core, region_take(map, *addr, size, request->stream, event), request);
}

/* Orders a stream after the earlier uses of a range, and allocates it. */
static int take_range(struct core *core, struct region_map *map, const struct request *request, uint64_t *addr)
{
	struct order order;
	int err;

	order_init(&order, request->stream);
	order_add_range(&order, map, *addr, request->size);
	err = live_wait(core, &order, request->handle);
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

static void note_routine(struct core *core, const struct plan *plan, uint64_t addr)
{
	struct past *past = &plan->request->stream->past;

	for (enum past_length i = PAST_LONG; i < PASTS; i++) {
		core->routine.state = past_state(past, i);
		memo_note(&core->routine, &plan->routine[i], addr);
	}
	past->repeated = plan->routine[PAST_LONG].addr ? past->repeated + 1 : 0;
}

/* Requests that come in the same state, or behind the same requests, get the same address. */
static void note_decision(struct core *core, const struct plan *plan, uint64_t addr)
{
	/* Pages have no old mappings to come back to. */
	if (!core->regions.keeps)
		return;
	memo_note(&core->memo, &plan->known, addr);
	if (plan->routine[PAST_LONG].key)
		note_routine(core, plan, addr);
	past_add(&plan->request->stream->past, &plan->known);
	recent_note(core, addr, plan->request->size);
}

/* Commits a recall, as a steady program does most: the memory becomes the block without being free there first. */
static int commit_recall(struct core *core, struct plan *plan, uint64_t *addr)
{
	const struct request *request = plan->request;
	struct order *order = &plan->order;
	int err;

	err = live_wait(core, order, request->handle);
	if (err)
		return err;
	*addr = plan->addr;
	note_decision(core, plan, *addr);
	enter(core, alias_take(core, plan->reached, *addr, request->size, order), request);
	core->counts.reuses++;
	return 0;
}

/* Whether a block of pages is one that another stream has freed, whose work is complete. */
static bool changes_stream(struct core *core, const struct plan *plan)
{
	const struct region *region = core->regions.keeps ? NULL : region_at(&core->regions, plan->addr);

	return region && region->stream && region->stream != plan->request->stream && !event_pending(region->event);
}

static int commit_range(struct core *core, const struct plan *plan, uint64_t *addr)
{
	const struct request *request = plan->request;
	bool stolen = changes_stream(core, plan);
	int err;

	*addr = plan->addr;
	if (plan->way == PLAN_RECALL)
		alias_claim(core, *addr, request->size);
	note_decision(core, plan, *addr);
	err = take_range(core, &core->regions, request, addr);
	/* A stream that has to wait counts in any case. */
	core->counts.steals += !err && stolen;
	core->counts.reuses += !err && plan->way != PLAN_EXCHANGE;
	return err;
}

/* The malloc has succeeded, whether old mappings of pages can go now or not. */
static void reap_pages(struct core *core)
{
	struct error_kept kept;

	error_keep(&kept);
	zombie_reap(core);
	error_restore(&kept);
}

static int commit_gather(struct core *core, struct plan *plan, uint64_t *addr)
{
	const struct request *request = plan->request;
	int err;

	err = gather_carry_out(&plan->gathering, request->handle, addr);
	if (err)
		return err;
	if (plan->gathering.size == request->size)
		note_decision(core, plan, *addr);
	take(core, &core->regions, request, addr, plan->order.own);
	if (!core->regions.keeps)
		reap_pages(core);
	return 0;
}

static int commit_exchange(struct core *core, const struct plan *plan, uint64_t *addr)
{
	int err = exchange_carry_out(core, plan->request, &plan->exchange);

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

/*
 * Makes a plan, stage by stage: most requests need the first alone, and settle no more for it. A @query has settled
 * everything before.
 */
static int make_plan(struct core *core, struct plan *plan, bool slabs, bool query)
{
	const struct plan_stage *stage = plan_stages(core, plan->request, slabs);

	for (; stage->steps[0] && plan->way == PLAN_NONE; stage++) {
		int err = query ? 0 : settle(core, plan, stage->settle);

		if (err)
			return err;
		for (const plan_step *step = stage->steps; *step && plan->way == PLAN_NONE; step++)
			(*step)(core, plan);
	}
	return 0;
}

static void log_window(struct core *core, uint64_t before, uint64_t creates)
{
	const struct steady *s = &core->packed->steady;
	uint64_t mallocs = s->windows * STEADY_WINDOW;

	if (!s->latest && before)
		log_add(&core->log, VPMM_LOG_INFO, "settled: no driver call in the latest %d of %" PRIu64
			" allocations that no cache served", STEADY_WINDOW, mallocs);
	/* The first window creates what there is to be. After that a line each time the number has doubled. */
	if (s->latest && s->windows > 1 && !(s->windows & (s->windows - 1)))
		log_add(&core->log, VPMM_LOG_INFO, "not settled: %" PRIu64 " driver calls, %" PRIu64
			" of them for new memory, in the latest %d of %" PRIu64 " allocations that no cache served",
			s->latest, creates, STEADY_WINDOW, mallocs);
}

/* The log gets a line when a program settles, and now and then while one does not. */
static void note_settled(struct core *core)
{
	const struct extent_calls *calls = &core->extents.calls;
	struct steady *s = &core->packed->steady;
	uint64_t now, before = s->latest;

	if (++s->mallocs < STEADY_WINDOW)
		return;
	now = calls->creates + calls->maps + calls->accesses + calls->unmaps + calls->releases;
	s->latest = now - s->calls;
	s->windows++;
	log_window(core, before, calls->creates - s->creates);
	s->mallocs = 0;
	s->calls = now;
	s->creates = calls->creates;
}

static int plan_and_commit(struct core *core, const struct request *request, bool slabs, uint64_t *addr)
{
	struct plan plan;
	uint64_t waits = core->counts.waits;
	int err;

	plan_init(&plan, request);
	err = make_plan(core, &plan, slabs, false);
	if (!err)
		err = commit(core, &plan, addr);
	plan_clear(&plan);
	if (!err)
		note_settled(core);
	if (!err && allowance_is_sought(core))
		allowance_note(core, request, core->counts.waits > waits, *addr);
	return err;
}

static int packed_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	int err = -ENOMEM;

	settle_phase(core, request);
	if (request->size < core_small_size(core) && !request->frugal)
		err = plan_and_commit(core, request, true, addr);
	/* Without memory for a slab, a small request is served from the large ones' memory. */
	return err == -ENOMEM ? plan_and_commit(core, request, false, addr) : err;
}

/* Makes a plan for a query. Return: whether the device could create enough for it. */
static bool plan_and_price(struct core *core, const struct request *request, bool slabs, uint64_t room,
			   struct vpmm_forecast *forecast)
{
	struct plan plan;
	bool affordable;

	plan_init(&plan, request);
	make_plan(core, &plan, slabs, true);
	affordable = plan_price(core, &plan, room, forecast);
	plan_clear(&plan);
	return affordable;
}

/* Makes the plans in the order in which packed_malloc() would. */
static bool packed_forecast(struct core *core, const struct request *request, uint64_t room,
			    struct vpmm_forecast *forecast)
{
	if (request->size < core_small_size(core) && !request->frugal &&
	    plan_and_price(core, request, true, room, forecast))
		return true;
	return plan_and_price(core, request, false, room, forecast);
}

/* Whether a malloc could serve a request, at once or once it has reclaimed. */
static bool packed_could(struct core *core, struct stream *stream, size_t size, uint64_t room)
{
	struct request request = { .size = size, .stream = stream };
	struct vpmm_forecast forecast = { 0 };

	if (packed_forecast(core, &request, room, &forecast))
		return true;
	request.frugal = true;
	return packed_forecast(core, &request, room, &forecast);
}

/*
 * The largest multiple of a piece that could be served, by bisection below one that could not. A good guess saves most
 * steps.
 */
static uint64_t search_largest(struct core *core, struct stream *stream, uint64_t guess, uint64_t below, uint64_t room)
{
	uint64_t low = 0, high = below / CORE_PIECE, step = core->settings.page_size / CORE_PIECE;

	guess /= CORE_PIECE;
	if (guess && guess < high && packed_could(core, stream, guess * CORE_PIECE, room))
		low = guess;
	else if (guess)
		high = MIN(high, guess);
	for (; low && low + step < high; step *= 2) {
		if (packed_could(core, stream, (low + step) * CORE_PIECE, room))
			low += step;
		else
			high = low + step;
	}
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (packed_could(core, stream, middle * CORE_PIECE, room))
			low = middle;
		else
			high = middle;
	}
	return low * CORE_PIECE;
}

/* Plans a few dozen requests. Nearly always what fits one size fits smaller ones. */
static uint64_t packed_largest(struct core *core, struct stream *stream, uint64_t room)
{
	uint64_t more = span_unused(core) + room;
	uint64_t most = region_bytes(&core->regions, REGION_FREE) + more + CORE_PIECE;
	uint64_t guess = core->extents.whole_bytes + more;

	/* Whole extents, and pages that can be created, can nearly always be had. */
	guess -= guess % core->settings.page_size;
	return search_largest(core, stream, guess, MIN(most, SIZE_MAX / 4), room);
}

const struct policy policy_packed = {
	.malloc = packed_malloc,
	.settle = settle_all,
	.forecast = packed_forecast,
	.largest = packed_largest,
};
