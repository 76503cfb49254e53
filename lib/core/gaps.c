// SPDX-License-Identifier: LGPL-2.1-or-later
/* A histogram of the sizes of free regions. */
#include "core/gaps.h"

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
