/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A set of free ranges of numbers, which finds the best fit in O(log n). Needs a lock of the caller's. */
#ifndef HOST_RANGES_H
#define HOST_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct host_ranges;

/**
 * host_ranges_new() - an empty set
 *
 * Return: the set.
 */
struct host_ranges *host_ranges_new(void);

/**
 * host_ranges_destroy() - free a set
 * @ranges: the set
 */
void host_ranges_destroy(struct host_ranges *ranges);

/**
 * host_ranges_take() - take the beginning of the smallest range that is large enough
 * @ranges: the set
 * @size: how long, not 0
 * @start: receives where it starts
 *
 * Return: whether there is one.
 */
bool host_ranges_take(struct host_ranges *ranges, uint64_t size, uint64_t *start);

/**
 * host_ranges_give() - add a range, and make it one with its neighbours
 * @ranges: the set
 * @start: where it starts
 * @size: how long, not 0; none of it is in the set
 */
void host_ranges_give(struct host_ranges *ranges, uint64_t start, uint64_t size);

#endif /* HOST_RANGES_H */
