/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Settling: what brings the pool up to date before a plan. It flushes caches, also those of other streams, which then
 * record their next frees (core.pressure); it polls events and unmaps old mappings. None of it waits on the host.
 */
#ifndef SETTLE_H
#define SETTLE_H

struct core;
struct plan;
struct request;

/**
 * enum settle - what is settled
 * @SETTLE_SLABS: old mappings of slabs, and some of the events
 * @SETTLE_CACHES: the stream's cache, and those of other streams if there are few; old mappings, and some of the events
 * @SETTLE_AWAITED: the events that keep the stream from the address of the memo
 * @SETTLE_BROKEN: some of the events, if extents should be exchanged: with one stream, nothing else polls its events
 * @SETTLE_OTHERS: the caches of other streams, and all events
 * @SETTLE_MAPPINGS: some of the events, and old mappings if there are too many
 */
enum settle {
	SETTLE_SLABS,
	SETTLE_CACHES,
	SETTLE_AWAITED,
	SETTLE_BROKEN,
	SETTLE_OTHERS,
	SETTLE_MAPPINGS
};

/**
 * settle() - settle as much as the next stage of a plan calls for
 * @core: the pool's core; its lock is held, its backend entered
 * @plan: the plan; SETTLE_AWAITED drops from its @order what is complete
 * @what: what is settled
 *
 * Return: 0, or an error of the backend.
 */
int settle(struct core *core, struct plan *plan, enum settle what);

/**
 * settle_caches() - make what the caches hold available to a block that is to grow
 * @core: the pool's core; its lock is held, its backend entered
 * @request: whose stream it is for
 *
 * Return: 0, or an error of the backend.
 */
int settle_caches(struct core *core, const struct request *request);

/**
 * settle_mappings() - settle as SETTLE_MAPPINGS does, before memory is mapped without a plan
 * @core: the pool's core; its lock is held, its backend entered
 *
 * Return: 0, or an error of the backend.
 */
int settle_mappings(struct core *core);

/**
 * settle_phase() - settle what comes before all plans for a malloc
 * @core: the pool's core; its lock is held, its backend entered
 * @request: the request
 *
 * Flushes the cache for the first malloc of a phase, and gives back memory that is held above the allowance. A failure
 * is ignored, because the next malloc tries again.
 */
void settle_phase(struct core *core, const struct request *request);

/**
 * settle_all() - settle all there is, so that a query's plan knows all free memory
 * @core: the pool's core; its lock is held, its backend entered
 * @request: the request
 *
 * A malloc settles no more than it must.
 *
 * Return: 0, or an error of the backend.
 */
int settle_all(struct core *core, const struct request *request);

#endif /* SETTLE_H */
