/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans of the packed policy: how a request is served. Making a plan takes no memory, but brings the pool up to date:
 * it flushes caches, also of other streams, which it has record their next frees (core.pressure); it polls events, and
 * unmaps old mappings. It does not wait on the host. A plan with @query does none of this.
 */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wait-set.h"
#include "policy/gather-plan.h"

struct core;
struct request;
struct vpmm_forecast;

/**
 * enum plan_way - how a request is served
 * @PLAN_NONE: no way was found
 * @PLAN_SLAB: a free range in a slab
 * @PLAN_GROW: a new slab
 * @PLAN_RECALL: an address that a block of the size had before, of the memo or of recent.h. Its memory may be free at
 *	another mapping, and then becomes free here
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
 * @query: it is for vpmm_pool_query(), and will not be carried out
 * @way: how the request is served
 * @addr: where; not set for PLAN_GROW and PLAN_GATHER
 * @known: the address that the memo has; 0: none
 * @order: PLAN_GATHER, and PLAN_RECALL where @ordered: what the stream has to wait for
 * @ordered: PLAN_RECALL: @order is set
 * @gathering: PLAN_GATHER: what the block is made of
 */
struct plan {
	const struct request *request;
	bool query;
	enum plan_way way;
	uint64_t addr;
	uint64_t known;
	bool ordered;
	struct order order;
	struct gathering gathering;
};

/**
 * plan_small() - plan a request below core_small_size()
 * @core: the pool's core; its lock is held, its backend entered
 * @plan: receives the plan; @request and @query are set. To be cleared with plan_clear()
 *
 * Return: 0, or an error of the backend.
 */
int plan_small(struct core *core, struct plan *plan);

/**
 * plan_block() - plan a request among the large ones, outside of slabs
 * @core: the pool's core; its lock is held, its backend entered
 * @plan: as for plan_small(); it always finds a way
 *
 * Return: 0, or an error of the backend.
 */
int plan_block(struct core *core, struct plan *plan);

/**
 * plan_clear() - free what a plan holds
 * @plan: the plan
 */
void plan_clear(struct plan *plan);

/**
 * plan_is_affordable() - whether a plan creates no more than the device could
 * @core: the pool's core; its lock is held
 * @plan: the plan, made with @query
 * @room: bytes that the device could create
 */
bool plan_is_affordable(struct core *core, const struct plan *plan, uint64_t room);

/**
 * plan_price() - the price of a plan
 * @core: the pool's core; its lock is held
 * @plan: the plan, made with @query
 * @room: bytes that the device could create
 * @forecast: receives the way and the price
 */
void plan_price(struct core *core, struct plan *plan, uint64_t room, struct vpmm_forecast *forecast);

/**
 * plan_prepare_query() - bring the pool up to date, so that plans with @query know all free memory
 * @core: the pool's core; its lock is held, its backend entered
 * @request: the request
 *
 * A plan for a malloc looks no further than it must.
 *
 * Return: 0, or an error of the backend.
 */
int plan_prepare_query(struct core *core, const struct request *request);

#endif /* PLAN_H */
