// SPDX-License-Identifier: LGPL-2.1-or-later
/* Work that waits until a search for memory: making loose regions free or zombies, merging them, sorting by size. */
#include "core/region-index.h"
#include "core/region-loose.h"
#include "core/region.h"
#include "util/circle.h"

static void merge_loose(struct region_map *map, struct region *region)
{
	const struct region *youngest = map->by_age.tail ? map->by_age.tail->data : region;
	struct event *event = event_ref(region->event);

	region_set_free_merged(map, region, region->stream, event, MAX(region->id, youngest->id));
	event_unref(event);
}

void region_decide(struct region_map *map)
{
	GList *link;

	while ((link = circle_first(&map->loose))) {
		struct region *region = link->data;
		bool free;

		region_cut(map, region, map->free_run(map, region, &free));
		if (free)
			merge_loose(map, region);
		else
			region_set_zombie(map, region);
	}
}

void region_update(struct region_map *map)
{
	region_decide(map);
	region_sort_late(map);
}

void region_share(struct region_map *map)
{
	region_decide(map);
	if (!map->alone)
		return;
	for (guint i = 0; i < map->sets->len; i++) {
		GList *link = ((struct free_set *)map->sets->pdata[i])->by_age.head, *next;

		/*
		 * This does not disturb the walk: a merge removes only regions of no stream, or appends to another
		 * list.
		 */
		for (; link; link = next) {
			struct region *region = link->data;

			next = link->next;
			if (!event_pending(region->event))
				region_set_free(map, region, NULL, NULL);
		}
	}
	map->alone = false;
}
