/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When a call was made. Reading the clock would be a third of what recording a call takes. So a call notes the
 * processor's counter, where that runs at the same rate at all times, and the writer translates it: it reads clock and
 * counter together now and then, and takes the line between two such points.
 */
#ifndef TICKS_H
#define TICKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/clock.h"

/* There is such a counter; ticks_begin() finds out. */
extern _Atomic bool ticks_steady;

/**
 * struct ticks - the line
 * @from: the counter at the first point
 * @from_ns: the clock there
 * @to: the counter at the second point
 * @to_ns: the clock there
 * @rate: nanoseconds a tick, between the two
 */
struct ticks {
	uint64_t from;
	uint64_t from_ns;
	uint64_t to;
	uint64_t to_ns;
	double rate;
};

/**
 * ticks_begin() - set the first point, and find out what there is to count
 * @ticks: the line
 */
void ticks_begin(struct ticks *ticks);

/**
 * ticks_go_on() - the second point becomes the first, and now is the second
 * @ticks: the line
 */
void ticks_go_on(struct ticks *ticks);

/**
 * ticks_ns() - translate
 * @ticks: the line
 * @time: what ticks_read() returned, between the two points, or shortly before or after
 *
 * Return: nanoseconds of CLOCK_MONOTONIC.
 */
uint64_t ticks_ns(const struct ticks *ticks, uint64_t time);

/* The counter, or the clock. */
static inline uint64_t ticks_read(void)
{
#ifdef __x86_64__
	if (__builtin_expect(atomic_load_explicit(&ticks_steady, memory_order_relaxed), true))
		return __builtin_ia32_rdtsc();
#endif
	return clock_ns();
}

#endif /* TICKS_H */
