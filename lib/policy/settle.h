/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Settling: what brings the pool up to date before a plan. It flushes caches, also those of other streams, which then
 * record their next frees (core.pressure); it polls events and unmaps old mappings. None of it waits on the host. The
 * backend is entered for all of it, and its errors are what the calls return.
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

/* Settles as much as the next stage of a plan calls for. SETTLE_AWAITED drops from its @order what is complete. */
int settle(struct core *core, struct plan *plan, enum settle what);

/* Makes what the caches hold available to a block that is to grow. */
int settle_caches(struct core *core, const struct request *request);

/* Settles as SETTLE_MAPPINGS does, before memory is mapped without a plan. */
int settle_mappings(struct core *core);

/*
 * Settles what comes before all plans for a malloc: flushes the cache for the first malloc of a phase, and gives back
 * memory that is held above the allowance. A failure is ignored, because the next malloc tries again.
 */
void settle_phase(struct core *core, const struct request *request);

/* Settles all there is, so that a query's plan knows all free memory. A malloc settles no more than it must. */
int settle_all(struct core *core, const struct request *request);

#endif /* SETTLE_H */
