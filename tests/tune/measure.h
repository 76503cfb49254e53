/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a pool takes for a program, in memory and in driver calls, on the host backend: the same each time. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"
#include "vpmm.h"

/* Passes of a program; and if each leaves something to the next. */
#define MEASURE_PASSES 3
#define MEASURE_PASSES_KEPT 40

/* When what a pass leaves allocated is freed. */
enum measure_keep {
	MEASURE_KEEP_NOT,	/* at its end */
	MEASURE_KEEP_BEFORE,	/* before the next pass allocates in its place: as gradients */
	MEASURE_KEEP_AFTER	/* after that: as variables that are assigned anew */
};

extern enum measure_keep measure_keep;

/**
 * struct measured - what a program took
 * @failed: a call of the library failed, or an invariant of the pool did not hold; told on standard error
 * @live: bytes; the most that was allocated at once, as asked for
 * @taken: bytes; the most device memory that the pool held
 * @first: milliseconds of driver calls in the first pass, of measure_price
 * @second: in the second
 * @last: in the last
 */
struct measured {
	bool failed;
	uint64_t live;
	uint64_t taken;
	double first;
	double second;
	double last;
};

/* How many times the price on an H200 the driver calls have, where they are priced. */
extern double measure_price;

/**
 * measure_calls() - the price of driver calls between two moments
 * @before: statistics of the pool at the first
 * @after: at the second
 *
 * Return: milliseconds, of measure_price.
 */
double measure_calls(const struct vpmm_stats *before, const struct vpmm_stats *after);

/**
 * measure() - run a program on a pool of its own, several times over
 * @trace: the program
 * @overhead: percent, as VPMM_OVERHEAD
 * @result: receives the measurements
 */
void measure(const struct trace *trace, int overhead, struct measured *result);

#endif /* MEASURE_H */
