/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the packed policy remembers of a pool from one call to the next. */
#ifndef STATE_H
#define STATE_H

#include <pthread.h>
#include <stdint.h>

#include "policy/budget.h"

/**
 * struct packed - all of that, under the lock of the pool
 *
 * Addresses, see gather.c:
 *
 * @most_places: how many places extents may have before those are unmapped that are not in use; never changes
 * @trim_places: how many places are to be there before that is tried
 *
 * Sizes, see gather-plan.c and budget.c:
 *
 * @pieces: the most extents that the gaps have called for since the pool was last empty; 0: none
 * @budget: what the pool was trimmed to
 *
 * Threads, see packed.c:
 *
 * @thread: which made the last central call that allocates
 * @crowded: until how many such calls it is assumed that several threads do
 */
struct packed {
	uint64_t most_places;
	uint64_t trim_places;
	double pieces;
	struct budget budget;
	pthread_t thread;
	uint64_t crowded;
};

#endif /* STATE_H */
