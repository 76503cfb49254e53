// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the plan of a block comes to. */
#include "core/core.h"
#include "policy/gather.h"
#include "policy/growth.h"
#include "policy/state.h"
#include "policy/tuning.h"

/*
 * Memory that may be taken rather than wait is remapped often: a part of it goes to larger extents, which take fewer
 * calls.
 */
static uint64_t overhead_percent(struct core *core)
{
	uint64_t percent = (uint64_t)core->settings.overhead, most = account_most(&core->account);

	if (most && overlap_matters(core))
		percent += allowance_bytes(core, most) * 100 / most / (uint64_t)tuning_overlap_extents;
	return percent;
}

/* How many extents would make up the pool if they were as small as @gaps call for. */
static double extents_for(struct core *core, const struct gaps *gaps)
{
	uint64_t bytes = core->extents.bytes;
	uint64_t stuck = bytes / 1000 * (uint64_t)tuning_stuck * overhead_percent(core);

	return (double)bytes / (double)MAX(gaps_extent_size(gaps, stuck), 1);
}

/*
 * What @target comes to between its bounds. Streams that overlap have as many extents as there may be: a stream can
 * take those whose work is complete while others are in use.
 */
static double bound_target(struct core *core, double target)
{
	double overhead = (double)overhead_percent(core);
	double least = MAX((double)tuning_extents_least / overhead, 1);
	double most = MAX((double)tuning_extents_most / overhead, 1);

	if (!core->extents.bytes)
		return least;
	return overlap_matters(core) ? most : CLAMP(target, least, most);
}

/*
 * The worst gaps so far count, as extents that were created while there were few gaps stay when there are many. What
 * they would pin is compared with the pool of now: gaps that are much for a small pool are little for a large one.
 */
double gather_target(struct core *core)
{
	double now = extents_for(core, region_gaps(&core->regions));

	return bound_target(core, MAX(now, extents_for(core, &core->packed->worst)));
}

void gather_note_gaps(const struct gathering *g)
{
	const struct gaps *gaps = region_gaps(&g->core->regions);
	struct packed *packed = g->core->packed;

	if (!g->core->extents.bytes || extents_for(g->core, gaps) > extents_for(g->core, &packed->worst))
		packed->worst = *gaps;
	packed->target = g->target;
}

size_t gather_new_size(struct core *core, size_t size)
{
	const struct gathering g = { .core = core, .size = size, .create = core_page_up(core, size),
				     .target = bound_target(core, core->packed->target) };

	return gather_extent_size(&g);
}

size_t gather_extent_size(const struct gathering *g)
{
	const struct settings *settings = &g->core->settings;
	uint64_t pool = g->core->extents.bytes - gather_renewed(g) + g->create;
	size_t bytes = (size_t)((double)pool / g->target), most = tuning_call_extents;

	/* Such memory is remapped again and again: what a block is made of costs a call each time. */
	if (overlap_matters(g->core))
		most = MIN(most, (size_t)tuning_overlap_call);
	bytes = MAX(bytes, core_page_up(g->core, g->create / most));
	bytes = MIN(bytes, core_page_up(g->core, g->size));
	return CLAMP(bytes / settings->page_size * settings->page_size, settings->page_size, settings->extent_max);
}

static size_t bytes_of_all(const GPtrArray *extents)
{
	size_t bytes = 0;

	for (guint i = 0; extents && i < extents->len; i++)
		bytes += ((const struct extent *)extents->pdata[i])->size;
	return bytes;
}

size_t gather_moved(const struct gathering *g)
{
	return bytes_of_all(g->donors);
}

size_t gather_renewed(const struct gathering *g)
{
	return bytes_of_all(g->renewed);
}

size_t gather_remapped(const struct gathering *g)
{
	size_t bytes = gather_moved(g);

	if (g->tail.extent)
		bytes += g->tail.extent->size;
	if (g->head.extent)
		bytes += g->head.extent->size;
	return bytes;
}

size_t gather_bytes(const struct gathering *g)
{
	return g->create + gather_remapped(g);
}
