// SPDX-License-Identifier: LGPL-2.1-or-later
#include "pool.h"
#include "zombie.h"

int zombie_reap(struct vpmm_pool *pool)
{
	struct region_map *regions = &pool->regions;
	int err;

	if (!regions->bytes[REGION_ZOMBIE])
		return 0;
	err = stream_poll_busy(&pool->streams, true);
	if (err)
		return err;
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
