/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How what is free is cut up: the sizes of its regions, counted by class. */
#ifndef GAPS_H
#define GAPS_H

#include <stddef.h>
#include <stdint.h>

/* One for each doubling. */
#define GAPS_CLASSES 64

/**
 * struct gaps - the sizes of free regions
 * @count: how many there are of each class
 * @bytes: bytes of them
 */
struct gaps {
	uint64_t count[GAPS_CLASSES];
	uint64_t bytes[GAPS_CLASSES];
};

/**
 * gaps_add() - a region is free
 * @gaps: the gaps
 * @size: bytes of it, not 0
 */
void gaps_add(struct gaps *gaps, size_t size);

/**
 * gaps_remove() - it is not any more
 * @gaps: the gaps
 * @size: bytes of it, as they were added
 */
void gaps_remove(struct gaps *gaps, size_t size);

/**
 * gaps_piece() - the size of extents of which the gaps would leave so much stuck
 * @gaps: the gaps
 * @stuck: bytes
 *
 * A gap that is smaller than the extents is stuck, and of a larger one as much as one extent: half of one at each end.
 *
 * Return: bytes; SIZE_MAX: all gaps together are no more.
 */
size_t gaps_piece(const struct gaps *gaps, uint64_t stuck);

#endif /* GAPS_H */
