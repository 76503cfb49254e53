/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much of each extent is allocated, and the lists of those of which nothing is. All of it is under core.lock. */
#ifndef EXTENT_WHOLE_H
#define EXTENT_WHOLE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/extent.h"
#include "core/ready.h"
#include "util/circle.h"
#include "util/links.h"

/**
 * extent_list_whole() - note that nothing of an extent is allocated any more
 * @map: the map
 * @extent: the extent, in no list of whole ones
 */
static inline void extent_list_whole(struct extent_map *map, struct extent *extent)
{
	if (extent->coarse) {
		map->coarse_bytes -= extent->size;
		extent->coarse = false;
	}
	circle_append(&map->late, &extent->late);
}

/**
 * extent_unlist_whole() - undo that, before something of it is allocated or it goes
 * @map: the map
 * @extent: the extent
 */
static inline void extent_unlist_whole(struct extent_map *map, struct extent *extent)
{
	if (circle_has(&extent->late)) {
		circle_remove(&extent->late);
		return;
	}
	links_remove(&map->whole, &extent->whole);
	links_remove(&extent->same_size->whole, &extent->alike);
	ready_leave(&map->ready, extent);
}

/**
 * extent_update_whole() - list those that have become whole
 * @map: the map
 *
 * All that lists whole extents is read through the calls below, which update it first; test-layers.sh sees to that.
 */
void extent_update_whole(struct extent_map *map);

/**
 * extent_whole() - the extents without allocations, the longest free first
 * @map: the map
 *
 * Return: of struct extent.
 */
static inline const GQueue *extent_whole(struct extent_map *map)
{
	extent_update_whole(map);
	return &map->whole;
}

/**
 * extent_ready() - the index of those that a stream need not wait for
 * @map: the map
 */
static inline struct ready *extent_ready(struct extent_map *map)
{
	extent_update_whole(map);
	return &map->ready;
}

/**
 * extent_requeue() - have a whole extent count as freed last
 * @map: the map
 * @extent: the extent
 */
void extent_requeue(struct extent_map *map, struct extent *extent);

/**
 * extent_doubt() - an event has passed that a range waited for
 * @map: the map
 * @addr: where it starts
 * @size: bytes, all free
 */
void extent_doubt(struct extent_map *map, uint64_t addr, size_t size);

/**
 * extent_add_live() - count an allocation
 * @map: the map
 * @addr: where it starts
 * @size: bytes, not 0, all mapped, to extents that count
 *
 * Return: bytes that it leaves free of extents without other allocations.
 */
size_t extent_add_live(struct extent_map *map, uint64_t addr, size_t size);

/**
 * extent_sub_live() - undo extent_add_live()
 * @map: the map
 * @addr: where it starts
 * @size: bytes
 *
 * Return: whether an extent without allocations is left whose free bytes may be free at several mappings.
 */
bool extent_sub_live(struct extent_map *map, uint64_t addr, size_t size);

#endif /* EXTENT_WHOLE_H */
