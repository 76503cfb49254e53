/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is allocated and what is held: sums over the caches, and the most that there ever was. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct core;

/* The sums over all caches of a pool. */
struct cache_sums {
	uint64_t mallocs;	/* served by caches */
	uint64_t frees;		/* taken by caches */
	uint64_t bytes;		/* allocated for the region maps, and free in truth */
};

/**
 * cache_sum() - add up all caches of a pool
 * @core: the pool's core
 * @sums: receives the sums
 */
void cache_sum(struct core *core, struct cache_sums *sums);

/**
 * cache_note_peak() - keep the peak of what is allocated in truth
 * @core: the pool's core
 * @asked: somebody wants to know; otherwise it is done now and then when there are many streams, as it looks at each
 *
 * To be called before a central call changes what is allocated for the maps.
 */
void cache_note_peak(struct core *core, bool asked);

/**
 * account_note_taken() - keep the peaks of device memory, after some was taken
 * @core: the pool's core, its backend entered
 */
void account_note_taken(struct core *core);

#endif /* ACCOUNT_H */
