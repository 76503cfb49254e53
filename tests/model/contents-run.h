/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What starts the program of random operations that contents.h tells of. */
#ifndef CONTENTS_RUN_H
#define CONTENTS_RUN_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "vpmm.h"

/* The most workers that a run has. */
#define CONTENTS_WORKERS 4

/* In place of a number of workers: one, which for most of its steps has a single stream, and repeats itself. */
#define CONTENTS_ONE_STREAM 0

/**
 * struct contents_counts - what was done
 * @seeds: runs
 * @steps: operations of all workers
 * @works: times that work has looked at a block
 * @words: words that it has looked at
 */
struct contents_counts {
	uint64_t seeds;
	uint64_t steps;
	uint64_t works;
	uint64_t words;
};

/**
 * struct contents_faults - how calls of the driver fail, for a test that knows the inside of the library
 * @create: vpmm_pool_create(), of a pool whose calls of the driver can fail; no address leads to it
 * @arm: have some fail during the next call of the program; @ranges: which has addresses that the CPU and the device
 *	share
 * @disarm: have none fail
 */
struct contents_faults {
	int (*create)(struct vpmm_pool **pool, const struct vpmm_opts *opts);
	void (*arm)(struct vpmm_pool *pool, bool ranges, GRand *rand);
	void (*disarm)(struct vpmm_pool *pool);
};

/* NULL: none fails. Otherwise runs have one worker. */
extern const struct contents_faults *contents_faults;

/* NULL, or is told of each block that a stream is about to free. */
extern void (*contents_freeing)(void *ptr, struct CUstream_st *stream);

/**
 * contents_run() - perform the operations of a seed, and look at everything in the end
 * @seed: the seed
 * @steps: of each worker
 * @workers: how many there are; one is the calling thread; or CONTENTS_ONE_STREAM
 * @counts: what was done is added
 */
void contents_run(guint32 seed, unsigned int steps, unsigned int workers, struct contents_counts *counts);

#endif /* CONTENTS_RUN_H */
