// SPDX-License-Identifier: LGPL-2.1-or-later
/* Slabs: how many there are, and where they come from. */
#include <errno.h>
#include <stdbool.h>

#include "core/chunk.h"
#include "core/core.h"
#include "policy/growth.h"
#include "policy/span.h"
#include "policy/tuning.h"
#include "util/error.h"

size_t span_growth(struct core *core)
{
	size_t page = core->settings.page_size;
	uint64_t have = core->spans.bytes[REGION_MALLOC] + region_bytes(&core->spans, REGION_FREE);
	size_t bytes = MAX(have / tuning_span_growth / page, 1) * page;

	/* If the limit leaves less, take a page. */
	return bytes > extent_room(&core->extents) ? page : bytes;
}

static int span_add(struct core *core, size_t bytes, uint64_t *addr)
{
	struct region *hole;
	struct chunk *added;
	int err;

	err = chunk_find(core, &core->spans, bytes, &hole, &added);
	if (err)
		return err;
	*addr = hole->addr;
	err = growth_map(core, &core->spans, *addr, bytes, bytes);
	if (err)
		chunk_drop(core, added);
	return err;
}

int span_grow(struct core *core, uint64_t *addr)
{
	size_t page = core->settings.page_size, bytes = span_growth(core);
	int err = span_add(core, bytes, addr);

	if (err == -ENOMEM && bytes > page)
		err = span_add(core, page, addr);
	return err;
}

/* Whether an extent of a slab is empty, with no pending work in it. */
static bool is_unused(struct core *core, const struct extent *extent)
{
	const struct region *region;

	if (extent->counts || !extent->places)
		return false;
	region = region_around(&core->spans, extent->places->addr);
	return region && region_is_free(region) && !event_pending(region->event) &&
	       extent->places->addr + extent->size <= region->addr + region->size;
}

uint64_t span_unused(struct core *core)
{
	uint64_t bytes = 0;

	for (GList *link = core->extents.all.head; link; link = link->next) {
		const struct extent *extent = link->data;

		if (is_unused(core, extent))
			bytes += extent->size;
	}
	return bytes;
}

int span_trim(struct core *core, uint64_t keep)
{
	GList *link, *next;
	int err;

	for (link = core->extents.all.head; link; link = next) {
		struct extent *extent = link->data;
		uint64_t addr;
		size_t size;

		next = link->next;
		if (core_mapped(core) - extent->size < keep || !is_unused(core, extent))
			continue;
		addr = extent->places->addr;
		size = extent->size;
		err = extent_drop(&core->extents, extent);
		if (err)
			return err;
		region_set_unmapped(&core->spans, region_isolate(&core->spans, addr, size));
	}
	return 0;
}
