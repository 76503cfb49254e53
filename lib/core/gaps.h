/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A histogram of the sizes of free regions, by class. */
#ifndef GAPS_H
#define GAPS_H

#include <stddef.h>
#include <stdint.h>

/* A class for each power of two. */
#define GAPS_CLASSES 64

/**
 * struct gaps - the histogram
 * @of: each class: free regions of it, and bytes of those
 */
struct gaps {
	struct {
		uint64_t count;
		uint64_t bytes;
	} of[GAPS_CLASSES];
};

static inline unsigned int gaps_class(size_t size)
{
	return 63 - (unsigned int)__builtin_clzll(size);
}

/**
 * gaps_add() - add a free region
 * @gaps: the gaps
 * @size: its bytes, not 0
 */
static inline void gaps_add(struct gaps *gaps, size_t size)
{
	unsigned int class = gaps_class(size);

	gaps->of[class].count++;
	gaps->of[class].bytes += size;
}

/**
 * gaps_remove() - remove a free region
 * @gaps: the gaps
 * @size: its bytes, as given to gaps_add()
 */
static inline void gaps_remove(struct gaps *gaps, size_t size)
{
	unsigned int class = gaps_class(size);

	gaps->of[class].count--;
	gaps->of[class].bytes -= size;
}

/**
 * gaps_extent_size() - the size of extents at which the gaps would pin a number of bytes
 * @gaps: the gaps
 * @stuck: bytes to be pinned
 *
 * A gap smaller than an extent is pinned as a whole. A larger one pins one extent: half of one at each end.
 *
 * Return: bytes of an extent; SIZE_MAX: even all of the gaps are no more than @stuck.
 */
size_t gaps_extent_size(const struct gaps *gaps, uint64_t stuck);

#endif /* GAPS_H */
