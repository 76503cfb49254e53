/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Inside of the pools, for pools.c, pools-list.c and restore.c alone. */
#ifndef TORCH_POOL_H
#define TORCH_POOL_H

#include "torch/arena.h"

/**
 * struct torch_pool - a pool of a device
 * @next: the next of all
 * @id: its id
 * @arena: its segments
 * @reserved: bytes of them
 * @source: where those come from, if not from the library
 * @device: ordinal
 * @uses: how many graphs and others use it
 * @begun: allocations go to it, by so many filters
 * @waiting: parts that are freed, but in use
 * @busy: threads that create or destroy memory of it
 * @lends: its free memory serves ordinary requests that would fail
 */
struct torch_pool {
	struct torch_pool *next;
	struct torch_id id;
	struct arena arena;
	struct torch_stat reserved[TORCH_KINDS];
	struct torch_source source;
	int device;
	int uses;
	unsigned int begun;
	unsigned int waiting;
	unsigned int busy;
	bool lends;
};

/* Under the lock. Looks after parts that wait. */
struct torch_pool *pools_lock(int device, struct torch_id id);
void pools_unlock(void);

/* The same for all pools of a device: the first, and the one after another. */
struct torch_pool *pools_lock_first(int device);
struct torch_pool *pool_after(const struct torch_pool *pool);

/* A part, which no stream uses any more, becomes free. */
void pool_free_part(struct torch_pool *pool, struct part *part);

struct torch_piece pool_segment(const struct torch_pool *pool, const struct segment *segment);
struct torch_piece pool_piece(const struct torch_pool *pool, const struct part *part);

#endif /* TORCH_POOL_H */
