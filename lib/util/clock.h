/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The clock that waits and measurements are by, which all processes of a machine have in common. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_S UINT64_C(1000000000)

/**
 * clock_ns() - read the clock
 *
 * Return: nanoseconds of CLOCK_MONOTONIC.
 */
static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

/**
 * clock_timespec() - a time of the clock as the kernel has it
 * @ns: the time
 *
 * Return: the same time.
 */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / CLOCK_NS_PER_S), (long)(ns % CLOCK_NS_PER_S) };
}

#endif /* CLOCK_H */
