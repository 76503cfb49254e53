// SPDX-License-Identifier: LGPL-2.1-or-later
#include "calls/pool.h"
#include "core/zombie.h"

static int reap(struct vpmm_pool *pool, struct region_map *regions)
{
	int err;

	while (regions->dead.head) {
		struct region *region = regions->dead.head->data;

		err = extent_unmap(&pool->extents, region->addr, region->size,
				   region->event ? region->event->handle : NULL);
		if (err)
			return err;
		region_set_unmapped(regions, region);
	}
	return 0;
}

int zombie_reap(struct vpmm_pool *pool)
{
	struct region_map *regions = &pool->regions;
	int err = 0;

	if (!regions->keeps && regions->bytes[REGION_ZOMBIE])
		err = stream_poll_busy(&pool->streams, true);
	if (!err)
		err = reap(pool, regions);
	return err ? err : reap(pool, &pool->spans);
}
