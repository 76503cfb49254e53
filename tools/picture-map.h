/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The addresses of a pool over time: regions of vpmm_pool_dump(), kept column by column, drawn as a raster. */
#ifndef PICTURE_MAP_H
#define PICTURE_MAP_H

#include <glib.h>
#include <stdint.h>

/**
 * enum map_state - what a range of addresses is
 * @MAP_HOLE: unmapped
 * @MAP_ZOMBIE: mapped, but the memory is in use at another mapping
 * @MAP_FREE: free for any stream
 * @MAP_PENDING: free for one stream, and for others once its work is complete
 * @MAP_ALLOCATED: allocated
 * @MAP_STATES: how many there are
 */
enum map_state { MAP_HOLE, MAP_ZOMBIE, MAP_FREE, MAP_PENDING, MAP_ALLOCATED, MAP_STATES };

/**
 * struct map_range - addresses of which each was mapped in one column or another
 * @addr: the first
 * @size: bytes
 * @below: bytes of all ranges before this one
 */
struct map_range {
	uint64_t addr;
	uint64_t size;
	uint64_t below;
};

/**
 * struct map - the columns so far
 * @regions: those that are mapped, of all columns, in the order of the columns and of addresses
 * @columns: which of @regions each column has
 * @lines: of regions that all dumps together had
 * @ranges: of struct map_range, in ascending order
 * @used: bytes of all ranges
 */
struct map {
	GArray *regions;
	GArray *columns;
	uint64_t lines;
	GArray *ranges;
	uint64_t used;
};

/**
 * map_init() - no columns yet
 * map_clear() - free what map_init() and map_add() allocated
 */
void map_init(struct map *map);
void map_clear(struct map *map);

/**
 * map_add() - add a column
 * @map: the map
 * @dump: what vpmm_pool_dump() wrote
 *
 * Return: 0, or -EBADMSG explained by fail_set(), where a line of a region is not in the format of the dump.
 */
int map_add(struct map *map, const char *dump);

/**
 * map_repeat() - add a column that is like the one before it
 * @map: the map, with a column
 */
void map_repeat(struct map *map);

/**
 * map_draw() - draw the map
 * @map: the map
 * @rows: how many, of map->used / @rows bytes each
 *
 * Addresses that no column has mapped are left out. A cell has the state of most of its bytes.
 *
 * Return: enum map_state, a byte for each cell, row by row from the highest addresses down, for g_free().
 */
unsigned char *map_draw(const struct map *map, unsigned int rows);

#endif /* PICTURE_MAP_H */
