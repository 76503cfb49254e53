// SPDX-License-Identifier: LGPL-2.1-or-later
/* Decides how the packed policy serves a request: stage by stage, until a step has found a way. */
#include "core/alias.h"
#include "core/core.h"
#include "policy/exchange.h"
#include "policy/fit.h"
#include "policy/gather.h"
#include "policy/growth.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/span.h"
#include "policy/state.h"
#include "policy/tuning.h"

static void found(struct plan *plan, enum plan_way way, uint64_t addr)
{
	plan->way = way;
	plan->addr = addr;
}

/* Whether the request could wait for another stream. A stream under capture cannot. */
static bool may_wait(const struct core *core, const struct plan *plan)
{
	return !core->streams.sole && !plan->request->stream->captured;
}

static void step_slab(struct core *core, struct plan *plan)
{
	struct region *region = region_find_own(&core->spans, plan->request->stream, plan->request->size);

	if (region)
		found(plan, PLAN_SLAB, region->addr);
}

/* Within the budget a new slab comes first. Beyond it, a small request waits for another stream instead. */
static void step_slab_waiting(struct core *core, struct plan *plan)
{
	uint64_t addr = 0;

	/* The wait would be on the host. */
	if (stream_is_idle(plan->request->stream))
		return;
	if (!growth_room_overlap(core, plan->request->size) && region_find_run(&core->spans, plan->request->size, &addr))
		found(plan, PLAN_SLAB, addr);
}

static void step_grow(struct core *core, struct plan *plan)
{
	(void)core;
	found(plan, PLAN_GROW, 0);
}

static void forget_order(struct plan *plan)
{
	if (plan->reached)
		order_clear(&plan->order);
	plan->reached = NULL;
}

/* Whether an address can be had: @reached, and what the stream has to wait for: @order. */
static inline void reach(struct core *core, struct plan *plan, uint64_t addr)
{
	order_init(&plan->order, plan->request->stream);
	plan->reached = alias_reaches(core, addr, plan->request->size, &plan->order);
	if (!plan->reached)
		order_clear(&plan->order);
}

static inline void reach_known(struct core *core, struct plan *plan)
{
	if (plan->known.addr)
		reach(core, plan, plan->known.addr);
}

/* Whether an address can be had without a wait; if so, the request gets it. */
static bool recall(struct core *core, struct plan *plan, uint64_t addr)
{
	if (!addr)
		return false;
	reach(core, plan, addr);
	if (plan->reached && order_is_ready(&plan->order))
		found(plan, PLAN_RECALL, addr);
	else
		forget_order(plan);
	return plan->way != PLAN_NONE;
}

/* Requests that were new to core.routine since it noted this one: each adds a decision by each past. */
static uint64_t routine_age(const struct core *core, const struct memo_found *found)
{
	return memo_age(&core->routine, found) / PASTS;
}

/*
 * The answer to the long past counts if the stream has repeated enough requests. The answer to the short past counts if
 * the long past is new, and the answer is no older than the long past reaches: for an older one, a stream that repeats
 * itself has an answer to its long past as well.
 */
static const struct memo_found *choose_routine(const struct core *core, const struct plan *plan)
{
	const struct memo_found *longer = &plan->routine[PAST_LONG], *shorter = &plan->routine[PAST_SHORT];
	uint64_t again = plan->request->stream->past.repeated + 1;

	if (longer->addr)
		return again * (uint64_t)tuning_repeated >= routine_age(core, longer) ? longer : NULL;
	return shorter->addr && routine_age(core, shorter) <= PAST_REACH ? shorter : NULL;
}

/* The address of the pass before, or that of the one before that. */
static void recall_routine(struct core *core, struct plan *plan)
{
	const struct request *request = plan->request;
	const struct memo_found *found;

	for (enum past_length i = PAST_LONG; i < PASTS; i++)
		plan->routine[i] = memo_find(&core->routine, past_state(&request->stream->past, i), request->size);
	found = choose_routine(core, plan);
	if (found && !recall(core, plan, found->addr))
		recall(core, plan, found->before);
}

/* The decision of last time in this state or behind these requests, so that a program that repeats itself settles. */
static void step_recall(struct core *core, struct plan *plan)
{
	plan->known = memo_find(&core->memo, core->memo.state, plan->request->size);
	reach_known(core, plan);
	if (!plan->reached)
		recall_routine(core, plan);
	else if (order_is_ready(&plan->order))
		found(plan, PLAN_RECALL, plan->known.addr);
}

/* The same, once it is known which of its events are complete. */
static void step_recall_again(struct core *core, struct plan *plan)
{
	(void)core;
	if (plan->reached && order_is_ready(&plan->order))
		found(plan, PLAN_RECALL, plan->known.addr);
	else
		forget_order(plan);
}

static void step_recall_waiting(struct core *core, struct plan *plan)
{
	if (may_wait(core, plan))
		reach_known(core, plan);
	if (plan->reached)
		found(plan, PLAN_RECALL, plan->known.addr);
}

/* New memory within the budget, so that the block does not break a large extent. */
static bool find_new(struct core *core, struct plan *plan)
{
	size_t room = growth_room(core, plan->request->size);

	order_init(&plan->order, plan->request->stream);
	gather_decide_new(&plan->gathering, core, &plan->order, plan->request->size);
	gather_order(&plan->gathering);
	found(plan, PLAN_GATHER, 0);
	if (plan->gathering.create <= room && order_is_ready(&plan->order))
		return true;
	plan_clear(plan);
	return false;
}

/*
 * A free range. But if the block would pin much larger extents than it calls for: new memory; or else those extents are
 * exchanged for smaller ones, which step_exchange() decides.
 */
static void step_fit(struct core *core, struct plan *plan)
{
	const struct request *request = plan->request;
	uint64_t addr;
	bool due;

	if (!fit_find(core, request->stream, request->size, &addr))
		return;
	due = exchange_is_due(core, request, addr, &plan->exchange);
	if (due && find_new(core, plan))
		return;
	if (due && exchange_is_allowed(core, request, &plan->exchange))
		plan->addr = addr;
	else
		found(plan, PLAN_FIT, addr);
}

/* If work is pending on the extents, the block pins them. */
static void step_exchange(struct core *core, struct plan *plan)
{
	if (plan->addr)
		found(plan, exchange_is_possible(core, &plan->exchange) ? PLAN_EXCHANGE : PLAN_FIT, plan->addr);
}

/* With one stream nothing has become free since step_fit. */
static void step_fit_again(struct core *core, struct plan *plan)
{
	if (!core->streams.sole)
		step_fit(core, plan);
}

/* A run of free regions, whatever their streams. */
static void step_fit_waiting(struct core *core, struct plan *plan)
{
	uint64_t start = 0;
	size_t run = may_wait(core, plan) ? region_find_run(&core->regions, plan->request->size, &start) : 0;

	if (run)
		found(plan, PLAN_FIT, fit_within(core, start, run, plan->request->size));
}

static void find_parts(struct core *core, struct plan *plan)
{
	const struct request *request = plan->request;

	order_init(&plan->order, request->stream);
	if (request->align == core->settings.page_size)
		gather_decide_aligned(&plan->gathering, core, &plan->order, request->size, request->part,
				      request->frugal);
	else
		gather_decide(&plan->gathering, core, &plan->order, request->size, request->frugal);
	gather_order(&plan->gathering);
	found(plan, PLAN_GATHER, 0);
}

static void step_gather(struct core *core, struct plan *plan)
{
	find_parts(core, plan);
	gather_renew(&plan->gathering);
}

static void step_pages(struct core *core, struct plan *plan)
{
	struct region *region = region_find_own(&core->regions, plan->request->stream, plan->request->size);

	if (region)
		found(plan, PLAN_FIT, region->addr);
}

/* Of another stream, whose work on it is complete. */
static void step_pages_passed(struct core *core, struct plan *plan)
{
	struct region *region = region_find_passed(&core->regions, plan->request->size);

	if (region)
		found(plan, PLAN_FIT, region->addr);
}

/* VPMM_REUSE=block waits for what was freed first, rather than remap. */
static void step_pages_waiting(struct core *core, struct plan *plan)
{
	if (core->settings.reuse != VPMM_REUSE_BLOCK || stream_is_idle(plan->request->stream))
		return;
	for (const GList *link = region_ages(&core->regions)->head; link; link = link->next) {
		const struct region *region = link->data;

		if (region->size >= plan->request->size) {
			found(plan, PLAN_FIT, region->addr);
			return;
		}
	}
}

/*
 * Pages that lie in a row already are not remapped. If the host waits, it waits for the stream too, so that the old
 * mappings of pages can go at once.
 */
static void step_harvest(struct core *core, struct plan *plan)
{
	uint64_t row;

	find_parts(core, plan);
	row = gather_row(&plan->gathering);
	if (row) {
		plan_clear(plan);
		found(plan, PLAN_FIT, row);
	} else if (core->settings.reuse == VPMM_REUSE_BLOCK) {
		plan->order.stream = NULL;
		order_add_event(&plan->order, plan->order.own);
	}
}

/* While old mappings wait for their events, they cannot be unmapped: the host may run far ahead of the device. */
static bool may_remap(const struct core *core, const struct plan *plan)
{
	return !plan->gathering.donors->len || core->extents.places <= core->packed->most_places;
}

/*
 * Memory that the stream can have at once without remapping, new memory included; or what it has to wait for the least.
 * Remapping may reach older memory than is free in one place.
 */
static void step_overlap(struct core *core, struct plan *plan)
{
	const struct request *request = plan->request;
	struct overlap_choice choice;
	bool chosen;

	if (!may_wait(core, plan))
		return;
	chosen = overlap_choose(core, request->stream, request->size, plan->known.addr, &choice);
	if (!chosen || choice.stamp) {
		find_parts(core, plan);
		if ((order_is_ready(&plan->order) && !plan->gathering.donors->len) || !chosen ||
		    (may_remap(core, plan) && overlap_prefers(core, &plan->order, choice.stamp))) {
			gather_renew(&plan->gathering);
			return;
		}
		plan_clear(plan);
	}
	if (choice.row) {
		found(plan, PLAN_FIT, fit_within(core, choice.addr, choice.row, request->size));
	} else {
		reach(core, plan, choice.addr);
		found(plan, PLAN_RECALL, choice.addr);
	}
}

static const struct plan_stage slab_stages[] = {
	{ SETTLE_SLABS, { step_slab } },
	{ SETTLE_CACHES, { step_slab } },
	{ SETTLE_OTHERS, { step_slab, step_slab_waiting, step_grow } },
	{ 0 }
};

/* In both lists memory that is free without a wait comes first, and a remap last. */
static const struct plan_stage block_stages[] = {
	{ SETTLE_CACHES, { step_recall } },
	{ SETTLE_AWAITED, { step_recall_again, step_fit } },
	{ SETTLE_BROKEN, { step_exchange } },
	{ SETTLE_OTHERS, { step_fit_again, step_exchange, step_recall_waiting, step_fit_waiting } },
	{ SETTLE_MAPPINGS, { step_gather } },
	{ 0 }
};

/* If the pool may create memory rather than wait (VPMM_OVERLAP), one step weighs new memory and waits. */
static const struct plan_stage overlap_stages[] = {
	{ SETTLE_CACHES, { step_recall } },
	{ SETTLE_AWAITED, { step_recall_again, step_fit } },
	{ SETTLE_BROKEN, { step_exchange } },
	{ SETTLE_OTHERS, { step_fit_again, step_exchange } },
	{ SETTLE_MAPPINGS, { step_overlap, step_gather } },
	{ 0 }
};

/* Of a pool whose extents are pages. */
static const struct plan_stage page_stages[] = {
	{ SETTLE_CACHES, { step_pages } },
	{ SETTLE_OTHERS, { step_pages, step_pages_passed, step_pages_waiting } },
	{ SETTLE_MAPPINGS, { step_harvest } },
	{ 0 }
};

const struct plan_stage *plan_stages(const struct core *core, const struct request *request, bool slabs)
{
	if (slabs)
		return slab_stages;
	if (!core->regions.keeps)
		return page_stages;
	return overlap_matters(core) && !request->frugal ? overlap_stages : block_stages;
}

void plan_clear(struct plan *plan)
{
	if (plan->way == PLAN_GATHER)
		gather_clear(&plan->gathering);
	if (plan->way == PLAN_GATHER || plan->reached)
		order_clear(&plan->order);
	plan->reached = NULL;
	plan->way = PLAN_NONE;
}

/* Whether a plan creates no more than the device could. */
static bool is_affordable(struct core *core, const struct plan *plan, uint64_t room)
{
	if (plan->way == PLAN_GROW)
		return room >= core->settings.page_size;
	if (plan->way != PLAN_GATHER)
		return true;
	/* A frugal request is preceded by a release of empty slabs. */
	room += plan->request->frugal ? span_unused(core) : gather_renewed(&plan->gathering);
	return plan->gathering.create <= room;
}

/* The number of other streams to wait for before a free range can be had. */
static guint range_waits(struct core *core, const struct plan *plan)
{
	struct region_map *map = plan->way == PLAN_SLAB ? &core->spans : &core->regions;
	struct order order;
	guint waits;

	order_init(&order, plan->request->stream);
	order_add_range(&order, map, plan->addr, plan->request->size);
	waits = order_waits(&order);
	order_clear(&order);
	return waits;
}

static void price_gather(struct plan *plan, struct vpmm_forecast *forecast)
{
	const struct gathering *g = &plan->gathering;
	size_t piece = gather_extent_size(g), last = gather_last(g);

	forecast->way = g->create ? VPMM_WAY_GROW : VPMM_WAY_HARVEST;
	forecast->grown = g->create;
	forecast->remapped = gather_remapped(g);
	forecast->waits = order_waits(&plan->order);
	forecast->calls = g->donors->len + !!g->tail.extent + !!g->head.extent + 1;
	forecast->calls += g->renewed ? g->renewed->len : 0;
	forecast->calls += 2 * ((g->create - last + piece - 1) / piece + !!last);
}

bool plan_price(struct core *core, struct plan *plan, uint64_t room, struct vpmm_forecast *forecast)
{
	size_t growth = span_growth(core);

	if (!is_affordable(core, plan, room))
		return false;
	switch (plan->way) {
	case PLAN_NONE:
		break;
	case PLAN_GATHER:
		price_gather(plan, forecast);
		break;
	case PLAN_GROW:
		forecast->way = VPMM_WAY_GROW;
		forecast->grown = growth > room ? core->settings.page_size : growth;
		forecast->calls = 3;
		break;
	case PLAN_EXCHANGE:
		exchange_price(core, plan->request, &plan->exchange, forecast);
		break;
	default:
		forecast->way = VPMM_WAY_REUSE;
		forecast->waits = plan->reached ? order_waits(&plan->order) : range_waits(core, plan);
	}
	return true;
}
