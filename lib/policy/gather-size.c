// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the plan of a block comes to. */
#include "core/core.h"
#include "policy/gather-plan.h"
#include "policy/tuning.h"

size_t gather_extent_size(const struct gathering *g)
{
	const struct settings *settings = &g->core->settings;
	size_t bytes = (size_t)((double)(g->core->extents.bytes + g->create) / g->target);

	bytes = MAX(bytes, core_page_up(g->core, g->create / (size_t)tuning_call_extents));
	bytes = MIN(bytes, core_page_up(g->core, g->size));
	return CLAMP(bytes / settings->page_size * settings->page_size, settings->page_size, settings->extent_max);
}

size_t gather_moved(const struct gathering *g)
{
	size_t bytes = 0;

	for (guint i = 0; i < g->donors->len; i++)
		bytes += ((const struct extent *)g->donors->pdata[i])->size;
	return bytes;
}

size_t gather_bytes(const struct gathering *g)
{
	size_t bytes = g->create + gather_moved(g);

	if (g->tail.extent)
		bytes += g->tail.extent->size;
	if (g->head.extent)
		bytes += g->head.extent->size;
	return bytes;
}
