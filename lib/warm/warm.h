/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a pool has learned, so that another process's can begin with it: VPMM_PLAN. Addresses are those of the pool, as
 * the memo's keys are made of them; so they are of use only where the same addresses can be reserved. And what a pool
 * is created with.
 */
#ifndef WARM_H
#define WARM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memo.h"
#include "policy/growth.h"

struct core;
struct warm;

/* A chunk of the region map of large requests, or of that of slabs. */
struct warm_chunk {
	uint64_t addr;
	uint64_t size;
	bool slabs;
};

/* A mapping: of which extent, by its number, and whether that is free there and a zombie elsewhere. */
struct warm_place {
	uint64_t addr;
	uint64_t extent;
	bool home;
};

/**
 * struct warm - what a pool has learned
 * @page_size: bytes
 * @piece: the unit of addresses of blocks, in bytes
 * @paged: of the paged policy
 * @held: bytes that the pool had, those of slabs included
 * @overlap: what streams waited for lately
 * @chunks: of struct warm_chunk
 * @extents: of uint64_t: their bytes; slabs not included; the longest free first
 * @places: of struct warm_place, that first which was used before all others
 * @decisions: of struct decision, the older first
 */
struct warm {
	uint64_t page_size;
	uint64_t piece;
	bool paged;
	uint64_t held;
	struct allowance_seen overlap;
	GArray *chunks;
	GArray *extents;
	GArray *places;
	GArray *decisions;
};

struct warm *warm_new(void);
void warm_free(struct warm *warm);

/* All bytes of extents. */
uint64_t warm_bytes(const struct warm *warm);

/**
 * warm_take() - what a pool has learned by now
 * @core: the pool's core; its lock is held. No driver call is made
 *
 * Return: for warm_free().
 */
struct warm *warm_take(struct core *core);

/**
 * warm_check() - whether a pool can begin with it
 * @core: the pool's core
 * @warm: from anywhere
 *
 * Whatever it has, initial_create() is safe once this has approved.
 *
 * Return: 0 or -EINVAL.
 */
int warm_check(const struct core *core, const struct warm *warm);

/**
 * initial_create() - reserve the first chunk of a pool, and create the memory that VPMM_PAGES asks for
 * @core: the pool's core, with nothing in it; its lock is held, its backend entered
 * @warm: what the pool is to begin with instead, approved by warm_check(); NULL: nothing
 *
 * A pool that leaves every request to the driver's allocator gets neither.
 *
 * Return: 0, -ENOMEM, or another error of the backend; the caller destroys the pool then.
 */
int initial_create(struct core *core, const struct warm *warm);

#endif /* WARM_H */
