// SPDX-License-Identifier: LGPL-2.1-or-later
/* The largest request that the packed policy could serve, by trying sizes on its plan. */
#include "core/core.h"
#include "policy/largest.h"
#include "policy/span.h"

/*
 * The largest multiple of a piece that could be served, by bisection below one that could not. A good guess saves most
 * steps.
 */
static uint64_t search(struct core *core, struct stream *stream, uint64_t guess, uint64_t below, uint64_t room,
		       largest_could_fn could)
{
	uint64_t low = 0, high = below / CORE_PIECE, step = core->settings.page_size / CORE_PIECE;

	guess /= CORE_PIECE;
	if (guess && guess < high && could(core, stream, guess * CORE_PIECE, room))
		low = guess;
	else if (guess)
		high = MIN(high, guess);
	for (; low && low + step < high; step *= 2) {
		if (could(core, stream, (low + step) * CORE_PIECE, room))
			low += step;
		else
			high = low + step;
	}
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (could(core, stream, middle * CORE_PIECE, room))
			low = middle;
		else
			high = middle;
	}
	return low * CORE_PIECE;
}

uint64_t largest_search(struct core *core, struct stream *stream, uint64_t room, largest_could_fn could)
{
	uint64_t more = span_unused(core) + room;
	uint64_t most = core->regions.bytes[REGION_FREE] + more + CORE_PIECE;
	uint64_t guess = core->extents.whole_bytes + more;

	/* Whole extents, and pages that can be created, can nearly always be had. */
	guess -= guess % core->settings.page_size;
	return search(core, stream, guess, MIN(most, SIZE_MAX / 4), room, could);
}
