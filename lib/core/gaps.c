// SPDX-License-Identifier: LGPL-2.1-or-later
/* A histogram of the sizes of free regions. */
#include "core/gaps.h"

static unsigned int class_of(size_t size)
{
	return 63 - (unsigned int)__builtin_clzll(size);
}

void gaps_add(struct gaps *gaps, size_t size)
{
	unsigned int class = class_of(size);

	gaps->of[class].count++;
	gaps->of[class].bytes += size;
}

void gaps_remove(struct gaps *gaps, size_t size)
{
	unsigned int class = class_of(size);

	gaps->of[class].count--;
	gaps->of[class].bytes -= size;
}

size_t gaps_extent_size(const struct gaps *gaps, uint64_t stuck)
{
	uint64_t larger = 0, smaller = 0;

	for (unsigned int i = 0; i < GAPS_CLASSES; i++)
		larger += gaps->of[i].count;
	/* Each class counts with its average size. */
	for (unsigned int i = 0; i < GAPS_CLASSES; i++) {
		if (!gaps->of[i].count)
			continue;
		if (smaller + gaps->of[i].bytes / gaps->of[i].count * larger > stuck)
			break;
		smaller += gaps->of[i].bytes;
		larger -= gaps->of[i].count;
	}
	return larger ? (stuck - smaller) / larger : SIZE_MAX;
}
