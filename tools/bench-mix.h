/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pairs of a malloc and a free that can go on for ever, and how long they take. */
#ifndef BENCH_MIX_H
#define BENCH_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator.h"

/**
 * struct mix_shape - what pairs are made of
 * @least: bytes of the smallest block
 * @most: bytes of the largest; those between are as frequent
 * @step: bytes; sizes are @least and a multiple of it
 * @live: how many blocks live; a pair frees one of them at random and allocates another. 0: a pair allocates a block
 *	and frees it
 * @spare: how many blocks are freed again before the first pair, spread among those that live
 * @warm: pairs before the first that is timed, if that is more than twice @live
 * @cold: whether each call is timed by itself, after work that leaves nothing of it in the processor's caches
 */
struct mix_shape {
	size_t least;
	size_t most;
	size_t step;
	size_t live;
	size_t spare;
	size_t warm;
	bool cold;
};

/* What the work between cold calls reads and writes: more than the caches that a core has for itself. */
#define MIX_WORK_BYTES ((size_t)4 << 20)

struct mix {
	struct mix_shape shape;
	struct allocator *a;
	struct CUstream_st *stream;
	uint64_t random;
	void **blocks;
	volatile uint64_t *work;	/* memory of the work between cold calls; NULL: they are not cold */
	uint64_t clock_ns;		/* what of a time that is measured is due to the clock */
};

/**
 * mix_open() - allocate what is to live
 *
 * The pairs of two mixes of the same shape are the same.
 *
 * Return: 0, or what the allocator returned; its error() has the sentence. Either way mix_close() frees it.
 */
int mix_open(struct mix *mix, const struct mix_shape *shape, struct allocator *a, struct CUstream_st *stream);

/**
 * mix_close() - free what lives
 */
void mix_close(struct mix *mix);

/**
 * mix_run() - some pairs, timed together, or each call apart if they are cold
 * @ns: receives nanoseconds of all of them
 *
 * Return: 0, or what the allocator returned.
 */
int mix_run(struct mix *mix, uint64_t pairs, uint64_t *ns);

/**
 * mix_warm_up() - run until caches are warm, and see how many pairs make a batch
 * @batch_ns: how long it is to last, in nanoseconds
 * @pairs: receives the number
 *
 * Return: 0, or what the allocator returned.
 */
int mix_warm_up(struct mix *mix, uint64_t batch_ns, uint64_t *pairs);

/**
 * mix_slowest() - some pairs, each allocation timed alone
 * @ns: receives nanoseconds of the slowest
 *
 * Return: 0, or what the allocator returned.
 */
int mix_slowest(struct mix *mix, uint64_t pairs, uint64_t *ns);

#endif /* BENCH_MIX_H */
