// SPDX-License-Identifier: LGPL-2.1-or-later
/* The mapping at an address. */
#include "core/extent.h"

struct extent_block *extent_block(struct extent_map *map, uint64_t number)
{
	struct extent_block **near = &map->near[number % EXTENT_NEAR];

	*near = g_hash_table_lookup(map->active, &number);
	return *near;
}

struct place *extent_place(struct extent_map *map, uint64_t addr)
{
	uint64_t page = extent_page(map, addr);
	struct extent_block *block = extent_block_of(map, page);

	return block ? block->places[page % EXTENT_BLOCK] : NULL;
}
