/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans of the packed policy: how a request is served. A plan reads the core and changes nothing: a query is the plan
 * alone. A malloc settles the core before each stage of its plan, as far as that stage calls for (policy/settle.h).
 */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memo.h"
#include "core/wait-set.h"
#include "policy/exchange.h"
#include "policy/gather.h"
#include "policy/settle.h"

struct core;
struct place;
struct request;
struct vpmm_forecast;

/**
 * enum plan_way - how a request is served
 * @PLAN_NONE: no way was found
 * @PLAN_SLAB: a free range in a slab
 * @PLAN_GROW: a new slab
 * @PLAN_RECALL: an address that a block of the size had before, of the memo or of overlap_choose(). Its memory may be
 *	free at another mapping, and then becomes free here
 * @PLAN_FIT: a free range
 * @PLAN_GATHER: a block that is mapped from free and from new extents
 * @PLAN_EXCHANGE: a free range whose extents are first exchanged for smaller ones
 */
enum plan_way {
	PLAN_NONE,
	PLAN_SLAB,
	PLAN_GROW,
	PLAN_RECALL,
	PLAN_FIT,
	PLAN_GATHER,
	PLAN_EXCHANGE
};

/**
 * struct plan - a plan
 * @request: the request
 * @way: how the request is served
 * @addr: where; not set for PLAN_GROW and PLAN_GATHER. PLAN_NONE: of a free range whose extents should be exchanged
 * @exchange: PLAN_EXCHANGE, or if @addr is set so: those extents
 * @known: what core.memo has for it
 * @routine: what core.routine has for it, by past; the keys are 0: that was not looked at, as the address of core.memo
 *	can be had
 * @reached: PLAN_RECALL: the first mapping at @addr. PLAN_NONE: the same at the address of @known, if it can be had;
 *	NULL: it cannot, or was not looked at
 * @order: PLAN_GATHER, or if @reached: what the stream has to wait for
 * @gathering: PLAN_GATHER: what the block is made of
 */
struct plan {
	const struct request *request;
	enum plan_way way;
	uint64_t addr;
	struct exchange exchange;
	struct memo_found known;
	struct memo_found routine[PASTS];
	struct place *reached;
	struct order order;
	struct gathering gathering;
};

/* A plan without a way yet. What is only set with a way, or with a member that says so, is left as it is. */
static inline void plan_init(struct plan *plan, const struct request *request)
{
	plan->request = request;
	plan->way = PLAN_NONE;
	plan->addr = 0;
	plan->known.addr = 0;
	plan->routine[PAST_LONG].key = 0;
	plan->reached = NULL;
}

/* A step of a plan with a @request. It sets @way if it has found one: the plan is to be cleared with plan_clear(). */
typedef void (*plan_step)(struct core *core, struct plan *plan);

/**
 * struct plan_stage - steps that can be taken once a part of the core is settled
 * @settle: the part
 * @steps: the steps, up to NULL; none: behind the last stage
 */
struct plan_stage {
	enum settle settle;
	plan_step steps[5];
};

/* The stages for a request, for a slab or for memory of the large ones; one of them always finds a way. */
const struct plan_stage *plan_stages(const struct core *core, const struct request *request, bool slabs);

void plan_clear(struct plan *plan);

/**
 * plan_price() - the price of a plan
 * @core: the pool's core
 * @plan: the plan
 * @room: bytes that the device could create
 * @forecast: receives the way and the price
 *
 * Return: false if the plan creates more than that; @forecast is as it was then.
 */
bool plan_price(struct core *core, struct plan *plan, uint64_t room, struct vpmm_forecast *forecast);

#endif /* PLAN_H */
