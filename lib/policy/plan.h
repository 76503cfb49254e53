/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How a request is to be served by the packed policy. A plan changes nothing that the program or another request could
 * notice: what streams have cached becomes free, and events are asked whether they are complete.
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
 * enum plan_way - by what a request is served
 * @PLAN_NONE: nothing was found
 * @PLAN_SLAB: a free range in pages for small requests
 * @PLAN_BORROW: the rest of an extent that large requests have no use for, for a small one
 * @PLAN_GROW: new pages for small requests
 * @PLAN_RECALL: the range that was chosen in this state before; it may have to become free there
 * @PLAN_FIT: a free range
 * @PLAN_GATHER: a block that is mapped of free extents and of new ones
 */
enum plan_way {
	PLAN_NONE,
	PLAN_SLAB,
	PLAN_BORROW,
	PLAN_GROW,
	PLAN_RECALL,
	PLAN_FIT,
	PLAN_GATHER
};

/**
 * struct plan - one plan
 * @request: what is asked for
 * @asked: it will not be carried out
 * @way: by what it is served
 * @addr: where, but of PLAN_BORROW, PLAN_GROW and PLAN_GATHER
 * @known: where the memo says; 0: it does not
 * @order: of PLAN_GATHER, what the stream has to come after
 * @gathering: of PLAN_GATHER, what the block is made of
 */
struct plan {
	const struct request *request;
	bool asked;
	enum plan_way way;
	uint64_t addr;
	uint64_t known;
	struct order order;
	struct gathering gathering;
};

/**
 * plan_small() - plan a request that is below core_small_size()
 * @core: the pool's core; its lock is held, its backend entered
 * @plan: receives the plan; has @request and @asked, and is cleared with plan_clear()
 *
 * Return: 0, or an error of the backend.
 */
int plan_small(struct core *core, struct plan *plan);

/**
 * plan_block() - plan a request from what is not kept for small ones
 * @core: the pool's core; its lock is held, its backend entered
 * @plan: as of plan_small(); there is always a way
 *
 * Return: 0, or an error of the backend.
 */
int plan_block(struct core *core, struct plan *plan);

/**
 * plan_clear() - let go of a plan
 * @plan: the plan
 */
void plan_clear(struct plan *plan);

/**
 * plan_is_affordable() - whether a plan needs no more memory than could be created
 * @core: the pool's core; its lock is held
 * @plan: the plan, made with @asked
 * @room: bytes that the device could create
 */
bool plan_is_affordable(struct core *core, const struct plan *plan, uint64_t room);

/**
 * plan_price() - what it takes to carry a plan out
 * @core: the pool's core; its lock is held
 * @plan: the plan, made with @asked
 * @room: bytes that the device could create
 * @forecast: receives the way and its price
 */
void plan_price(struct core *core, struct plan *plan, uint64_t room, struct vpmm_forecast *forecast);

/**
 * plan_prepare_query() - see to it that plans made with @asked know all that is free
 * @core: the pool's core; its lock is held, its backend entered
 * @request: what is asked for
 *
 * A plan that is to be carried out looks only as far as it has to.
 *
 * Return: 0, or an error of the backend.
 */
int plan_prepare_query(struct core *core, const struct request *request);

#endif /* PLAN_H */
