// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much of each extent is allocated, and the lists of those of which nothing is. */
#include "core/extent-whole.h"

void extent_update_whole(struct extent_map *map)
{
	GList *link;

	while ((link = circle_first(&map->late))) {
		struct extent *extent = link->data;

		circle_remove(link);
		links_append(&map->whole, &extent->whole);
		links_append(&extent->same_size->whole, &extent->alike);
		ready_enter(&map->ready, extent);
	}
}

void extent_requeue(struct extent_map *map, struct extent *extent)
{
	extent_update_whole(map);
	links_remove(&map->whole, &extent->whole);
	links_append(&map->whole, &extent->whole);
	ready_leave(&map->ready, extent);
	ready_enter(&map->ready, extent);
}

/* The bytes of an extent from an address in a mapping on. */
static size_t bytes_on(const struct place *place, uint64_t addr)
{
	return place->addr + place->extent->size - addr;
}

/* Counts an allocation of a part of an extent: to @whole the extent if it was whole, otherwise to @others the part. */
static void count_part(struct extent_map *map, struct extent *extent, size_t part, size_t *whole, size_t *others)
{
	if (!extent->live) {
		extent_unlist_whole(map, extent);
		*whole += extent->size;
	} else {
		*others += part;
	}
	extent->live += part;
}

size_t extent_add_live(struct extent_map *map, uint64_t addr, size_t size)
{
	const struct place *place = extent_place_mapped(map, addr);
	size_t part = bytes_on(place, addr), left = size, whole = 0, others = 0;

	for (; part < left; part = place->extent->size) {
		count_part(map, place->extent, part, &whole, &others);
		left -= part;
		place = place->above;
	}
	count_part(map, place->extent, left, &whole, &others);
	map->stuck_bytes += whole - size;
	map->whole_bytes -= whole;
	return whole + others - size;
}

/* Undoes count_part(). Return: the size of the extent if it is whole now, otherwise 0. */
static size_t uncount_part(struct extent_map *map, struct extent *extent, size_t part, bool *split)
{
	extent->live -= part;
	if (extent->live)
		return 0;
	extent_list_whole(map, extent);
	*split |= extent->split;
	return extent->size;
}

bool extent_sub_live(struct extent_map *map, uint64_t addr, size_t size)
{
	const struct place *place = extent_place_mapped(map, addr);
	size_t part = bytes_on(place, addr), left = size, whole = 0;
	bool split = false;

	for (; part < left; part = place->extent->size) {
		whole += uncount_part(map, place->extent, part, &split);
		left -= part;
		place = place->above;
	}
	whole += uncount_part(map, place->extent, left, &split);
	map->stuck_bytes += size - whole;
	map->whole_bytes += whole;
	return split;
}

void extent_doubt(struct extent_map *map, uint64_t addr, size_t size)
{
	uint64_t end = addr + size;

	/* Most often nobody has asked yet. */
	while (addr < end && map->ready.unknown.length < map->whole.length) {
		const struct place *place = extent_place_mapped(map, addr);

		if (extent_is_whole(place->extent) && !circle_has(&place->extent->late) && place->extent->home == place)
			ready_doubt(&map->ready, place->extent);
		addr = place->addr + place->extent->size;
	}
}
