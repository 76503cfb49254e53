// SPDX-License-Identifier: LGPL-2.1-or-later
/* Chooses the pages of a block: scattered free ones, and new ones if these are not enough. */
#include "core/core.h"
#include "policy/gather.h"

/* Whether a free region stays where it is: it is in front of what is mapped, or idle memory is wanted. */
static bool stays(const struct gathering *g, const struct region *region)
{
	if (region->addr >= g->base && region->addr < g->base + g->base_size)
		return true;
	return !g->fixed && !g->frugal && stream_is_idle(g->stream) && event_pending(region->event);
}

/* Takes a region from its start. Return: the bytes that are still wanted. */
static size_t pages_take(struct gathering *g, const struct region *region, size_t wanted)
{
	size_t bytes = MIN(wanted, region->size);

	if (stays(g, region))
		return wanted;
	/* Right in front of the hole it is the start of the block. */
	if (!g->fixed && g->hole && region == g->hole->prev && region->size < g->size) {
		g->base = region->addr;
		g->base_size = region->size;
	} else {
		extent_collect(&g->core->extents, region->addr, bytes, g->donors);
	}
	return wanted - bytes;
}

/* Takes free memory of one stream, or of none: it needs no wait. */
static size_t pages_take_set(struct gathering *g, const struct free_set *set, size_t wanted)
{
	for (GList *link = set ? set->by_age.head : NULL; link && wanted; link = link->next)
		wanted = pages_take(g, link->data, wanted);
	return wanted;
}

void gather_pages(struct gathering *g)
{
	struct region_map *regions = &g->core->regions;
	bool block = g->core->settings.reuse == VPMM_REUSE_BLOCK;
	size_t wanted = g->size - g->base_size;

	if (!g->fixed)
		g->hole = region_find_unmapped(regions, g->size);
	if (!block) {
		wanted = pages_take_set(g, g->stream->free[regions->set], wanted);
		wanted = pages_take_set(g, &regions->unused, wanted);
	}
	for (const GList *link = region_ages(regions)->head; link && wanted; link = link->next) {
		const struct region *region = link->data;

		if (block || (region->stream && region->stream != g->stream))
			wanted = pages_take(g, region, wanted);
	}
	g->create = wanted;
}

uint64_t gather_row(const struct gathering *g)
{
	uint64_t start = 0, end = 0;

	if (g->create || g->base_size || g->fixed)
		return 0;
	for (guint i = 0; i < g->donors->len; i++) {
		const struct extent *page = g->donors->pdata[i];

		if (i && page->home->addr != end)
			return 0;
		start = i ? start : page->home->addr;
		end = page->home->addr + page->size;
	}
	return start;
}
