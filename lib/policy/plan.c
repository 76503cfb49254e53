// SPDX-License-Identifier: LGPL-2.1-or-later
/* Decides how the packed policy serves a request: step by step, until one has found a way. */
#include <stdatomic.h>

#include "core/alias.h"
#include "core/core.h"
#include "pending/flush.h"
#include "policy/exchange.h"
#include "policy/fit.h"
#include "policy/gather.h"
#include "policy/growth.h"
#include "policy/overlap.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/recent.h"
#include "policy/span.h"
#include "policy/state.h"
#include "policy/tuning.h"

/* A step. It sets @way if it has found one. Returns 0 or an error of the backend. */
typedef int (*plan_step)(struct core *core, struct plan *plan);

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

/* Raising core.pressure makes the other streams record their next frees. */
static void flush_others(struct core *core, const struct plan *plan)
{
	flush_streams(core, plan->request->size);
	atomic_fetch_add_explicit(&core->pressure, 1, memory_order_relaxed);
}

/*
 * Flush first: cached blocks are free, and a better view of free memory makes for a better choice. A frugal request
 * comes after a full flush.
 */
static int step_flush_own(struct core *core, struct plan *plan)
{
	const struct request *request = plan->request;

	if (plan->query || request->frugal)
		return 0;
	note_thread(core);
	cache_flush(core, request->stream, request->handle, flush_least(core, request->size));
	if (!core->streams.sole && !is_crowded(core) &&
	    g_hash_table_size(core->streams.by_id) <= (guint)tuning_few_streams)
		flush_others(core, plan);
	return core->regions.dead.head ? zombie_reap(core) : 0;
}

static int step_flush_others(struct core *core, struct plan *plan)
{
	if (plan->query || core->streams.sole)
		return 0;
	flush_others(core, plan);
	return stream_poll_busy(&core->streams, false);
}

/* Regions whose events have passed merge with their neighbours. */
static int step_poll(struct core *core, struct plan *plan)
{
	return plan->query || core->streams.sole ? 0 : stream_poll_some(&core->streams);
}

static int step_reap_slabs(struct core *core, struct plan *plan)
{
	return !plan->query && core->spans.dead.head ? zombie_reap(core) : 0;
}

static int step_slab(struct core *core, struct plan *plan)
{
	struct region *region = region_find_own(&core->spans, plan->request->stream, plan->request->size);

	if (region)
		found(plan, PLAN_SLAB, region->addr);
	return 0;
}

/* Within the budget a new slab comes first. Beyond it, a small request waits for another stream instead. */
static int step_slab_waiting(struct core *core, struct plan *plan)
{
	uint64_t addr = 0;

	/* The wait would be on the host. */
	if (stream_is_idle(plan->request->stream))
		return 0;
	if (!growth_room_overlap(core, plan->request->size) && region_find_run(&core->spans, plan->request->size, &addr))
		found(plan, PLAN_SLAB, addr);
	return 0;
}

static int step_grow(struct core *core, struct plan *plan)
{
	(void)core;
	found(plan, PLAN_GROW, 0);
	return 0;
}

static int recall(struct core *core, struct plan *plan, bool wait)
{
	struct order *order = &plan->order;
	int err = 0;

	if (!plan->known)
		return 0;
	order_init(order, plan->request->stream);
	if (!alias_reaches(core, plan->known, plan->request->size, order))
		goto out;
	if (!wait && !order_is_met(order))
		err = order_poll(order);
	if (!err && (wait || order_is_met(order))) {
		found(plan, PLAN_RECALL, plan->known);
		plan->ordered = true;
		return 0;
	}
out:
	order_clear(order);
	return err;
}

/* The decision of last time in this state, so that a program that repeats itself settles. */
static int step_recall(struct core *core, struct plan *plan)
{
	size_t size = plan->request->size;

	plan->known = plan->query ? memo_peek(&core->memo, size) : memo_find(&core->memo, size);
	return recall(core, plan, false);
}

static int step_recall_waiting(struct core *core, struct plan *plan)
{
	return may_wait(core, plan) ? recall(core, plan, true) : 0;
}

/* New memory within the budget, so that the block does not break a large extent. */
static bool find_new(struct core *core, struct plan *plan)
{
	size_t room = growth_room(core, plan->request->size);

	order_init(&plan->order, plan->request->stream);
	gather_decide_new(&plan->gathering, core, &plan->order, plan->request->size);
	gather_order(&plan->gathering);
	found(plan, PLAN_GATHER, 0);
	if (plan->gathering.create <= room && order_is_met(&plan->order))
		return true;
	plan_clear(plan);
	return false;
}

/*
 * A free range. But if the block would pin much larger extents than it calls for: new memory; or else those extents are
 * exchanged for smaller ones.
 */
static int step_fit(struct core *core, struct plan *plan)
{
	const struct request *request = plan->request;
	uint64_t addr;

	if (!fit_find(core, request->stream, request->size, &addr))
		return 0;
	if (!exchange_is_due(core, request, addr))
		found(plan, PLAN_FIT, addr);
	else if (!find_new(core, plan))
		found(plan, exchange_is_possible(core, request, addr, plan->query) ? PLAN_EXCHANGE : PLAN_FIT, addr);
	return 0;
}

/* With one stream nothing has become free since step_fit. */
static int step_fit_again(struct core *core, struct plan *plan)
{
	return core->streams.sole ? 0 : step_fit(core, plan);
}

/* A run of free regions, whatever their streams. */
static int step_fit_waiting(struct core *core, struct plan *plan)
{
	uint64_t start = 0;
	size_t run = may_wait(core, plan) ? region_find_run(&core->regions, plan->request->size, &start) : 0;

	if (run)
		found(plan, PLAN_FIT, fit_within(core, start, run, plan->request->size));
	return 0;
}

static int step_gather(struct core *core, struct plan *plan)
{
	const struct request *request = plan->request;
	int err = plan->query ? 0 : gather_prepare(core);

	if (err)
		return err;
	order_init(&plan->order, request->stream);
	if (request->align == core->settings.page_size)
		gather_decide_aligned(&plan->gathering, core, &plan->order, request->size, request->part,
				      request->frugal);
	else
		gather_decide(&plan->gathering, core, &plan->order, request->size, request->frugal);
	gather_order(&plan->gathering);
	found(plan, PLAN_GATHER, 0);
	return 0;
}

/* While old mappings wait for their events, they cannot be unmapped: the host may run far ahead of the device. */
static bool may_remap(const struct core *core, const struct plan *plan)
{
	return !plan->gathering.donors->len || core->extents.places <= core->packed->most_places;
}

/* An address that a block of this size had lately needs no driver call. */
static int step_recent(struct core *core, struct plan *plan)
{
	uint64_t addr, stamp;

	if (recent_find(core, plan->request->stream, plan->request->size, &addr, &stamp) && !stamp)
		found(plan, PLAN_RECALL, addr);
	return 0;
}

/*
 * What needs no driver call, and has to be waited for the least: of equals the decision of last time. Return: false if
 * there is nothing.
 */
static bool find_waiting(struct core *core, struct plan *plan, uint64_t *stamp)
{
	const struct request *request = plan->request;
	uint64_t addr = 0, latest = 0;
	size_t row;

	*stamp = UINT64_MAX;
	if (plan->known && overlap_reaches(core, request->stream, plan->known, request->size, &latest)) {
		*stamp = latest;
		found(plan, PLAN_RECALL, plan->known);
	}
	row = overlap_find(core, request->stream, request->size, &addr, &latest);
	if (row && latest < *stamp) {
		*stamp = latest;
		found(plan, PLAN_FIT, fit_within(core, addr, row, request->size));
	}
	if (recent_find(core, request->stream, request->size, &addr, &latest) && latest < *stamp) {
		*stamp = latest;
		found(plan, PLAN_RECALL, addr);
	}
	return plan->way != PLAN_NONE;
}

/*
 * Memory that the stream can have at once without remapping, new memory included; or what it has to wait for the least.
 * Remapping may reach older memory than is free in one place.
 */
static int step_overlap(struct core *core, struct plan *plan)
{
	struct plan waiting = { .request = plan->request, .known = plan->known };
	uint64_t stamp;
	int err;

	if (!may_wait(core, plan))
		return 0;
	err = step_gather(core, plan);
	if (err || (order_is_met(&plan->order) && !plan->gathering.donors->len))
		return err;
	if (!find_waiting(core, &waiting, &stamp) ||
	    (may_remap(core, plan) && overlap_prefers(core, &plan->order, stamp)))
		return 0;
	plan_clear(plan);
	found(plan, waiting.way, waiting.addr);
	return 0;
}

/* Takes one step after the other, until one has set @way. */
static int take_steps(struct core *core, struct plan *plan, const plan_step *steps)
{
	int err = 0;

	plan->way = PLAN_NONE;
	for (; *steps && !err && plan->way == PLAN_NONE; steps++)
		err = (*steps)(core, plan);
	return err;
}

int plan_small(struct core *core, struct plan *plan)
{
	static const plan_step steps[] = {
		step_reap_slabs, step_poll, step_slab,
		step_flush_own, step_slab,
		step_flush_others, step_slab,
		step_slab_waiting, step_grow, NULL
	};

	lock_assert_held(&core->lock);
	return take_steps(core, plan, steps);
}

/*
 * In both lists memory that is free without a wait comes first, and a remap last. If the pool may create memory rather
 * than wait (VPMM_OVERLAP), the second list weighs new memory and waits against each other in one step.
 */
int plan_block(struct core *core, struct plan *plan)
{
	static const plan_step steps[] = {
		step_flush_own, step_poll, step_recall, step_fit,
		step_flush_others, step_fit_again,
		step_recall_waiting, step_fit_waiting, step_gather, NULL
	};
	static const plan_step overlapping[] = {
		step_flush_own, step_poll, step_recall, step_fit,
		step_flush_others, step_fit_again,
		step_recent, step_overlap, step_gather, NULL
	};
	bool overlap = overlap_matters(core) && !plan->request->frugal;

	lock_assert_held(&core->lock);
	return take_steps(core, plan, overlap ? overlapping : steps);
}

void plan_clear(struct plan *plan)
{
	if (plan->way == PLAN_GATHER)
		gather_clear(&plan->gathering);
	if (plan->way == PLAN_GATHER || plan->ordered)
		order_clear(&plan->order);
	plan->ordered = false;
}

bool plan_is_affordable(struct core *core, const struct plan *plan, uint64_t room)
{
	if (plan->way == PLAN_GROW)
		return room >= core->settings.page_size;
	if (plan->way != PLAN_GATHER)
		return true;
	/* A frugal request is preceded by a release of empty slabs. */
	return plan->gathering.create <= (plan->request->frugal ? room + span_unused(core) : room);
}

/* The number of other streams to wait for before a range can be had. */
static guint range_waits(struct core *core, const struct plan *plan)
{
	struct region_map *map = plan->way == PLAN_SLAB ? &core->spans : &core->regions;
	struct order order;
	guint waits;

	order_init(&order, plan->request->stream);
	if (plan->way == PLAN_RECALL)
		alias_reaches(core, plan->addr, plan->request->size, &order);
	else
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
	forecast->remapped = gather_moved(g);
	forecast->waits = order_waits(&plan->order);
	forecast->calls = g->donors->len + !!g->tail.extent + !!g->head.extent + 1;
	forecast->calls += 2 * ((g->create - last + piece - 1) / piece + !!last);
}

void plan_price(struct core *core, struct plan *plan, uint64_t room, struct vpmm_forecast *forecast)
{
	size_t growth = span_growth(core);

	switch (plan->way) {
	case PLAN_NONE:
		break;
	case PLAN_EXCHANGE:
		exchange_price(core, plan->request, plan->addr, forecast);
		break;
	case PLAN_GATHER:
		price_gather(plan, forecast);
		break;
	case PLAN_GROW:
		forecast->way = VPMM_WAY_GROW;
		forecast->grown = growth > room ? core->settings.page_size : growth;
		forecast->calls = 3;
		break;
	default:
		forecast->way = VPMM_WAY_REUSE;
		forecast->waits = range_waits(core, plan);
	}
}

int plan_prepare_query(struct core *core, const struct request *request)
{
	int err;

	cache_flush(core, request->stream, request->handle, 0);
	flush_streams(core, 0);
	err = stream_poll_busy(&core->streams, false);
	return err ? err : zombie_reap(core);
}
