// SPDX-License-Identifier: LGPL-2.1-or-later
/* Lookups in a region map. Nothing here changes the map, but for what is left to who looks for memory. */
#include "core/region-index.h"
#include "core/region-loose.h"
#include "core/region.h"
#include "util/assume.h"
#include "util/bound.h"

/* The search for runs looks at this many free regions at most; there may be a million. */
#define RUNS BOUND(4096, 4)

/* The key of a lookup by size. */
#define REGION_KEY(size) (&(struct region){ .key_size = (size) })

GTreeNode *region_first_fit(struct region_map *map, const struct free_set *set, size_t size)
{
	region_update(map);
	return g_tree_lower_bound(set->by_size, REGION_KEY(size));
}

GTreeNode *region_last_below(struct region_map *map, const struct free_set *set, size_t size)
{
	GTreeNode *node = region_first_fit(map, set, size);

	return node ? g_tree_node_previous(node) : g_tree_node_last(set->by_size);
}

static struct region *best_fit(GTree *tree, size_t size)
{
	GTreeNode *node = g_tree_lower_bound(tree, REGION_KEY(size));

	return node ? g_tree_node_key(node) : NULL;
}

struct region *region_find_unmapped(struct region_map *map, size_t size)
{
	return best_fit(map->unmapped, size);
}

struct region *region_find_largest_unmapped(struct region_map *map)
{
	GTreeNode *node = g_tree_node_last(map->unmapped);

	return node ? g_tree_node_key(node) : NULL;
}

struct region *region_find_own(struct region_map *map, struct stream *stream, size_t size)
{
	const struct free_set *set = region_free_of(map, stream);
	struct region *own, *unused;

	own = set ? best_fit(set->by_size, size) : NULL;
	unused = best_fit(map->unused.by_size, size);
	return !own || (unused && own->size >= unused->size) ? unused : own;
}

struct region *region_find_passed(struct region_map *map, size_t size)
{
	return best_fit(map->passed, size);
}

size_t region_run(const struct region *region, struct region **end)
{
	const struct region *first = region;
	size_t size = 0;

	if (region->prev && region_is_free(region->prev))
		return 0;
	for (; region && region_is_free(region); region = region->next)
		size += region->size;
	*end = size ? (struct region *)region : first->next;
	return size;
}

size_t region_find_run(struct region_map *map, size_t size, uint64_t *addr)
{
	const GList *link = region_ages(map)->head;
	size_t best = 0;

	for (int i = 0; link && i < RUNS; i++, link = link->next) {
		const struct region *region = link->data;
		struct region *end;
		size_t run = region_run(region, &end);

		if (run < size || (best && (run > best || (run == best && region->addr > *addr))))
			continue;
		best = run;
		*addr = region->addr;
	}
	return best;
}

struct region *region_around(struct region_map *map, uint64_t addr)
{
	region_decide(map);
	return region_listed(map, addr);
}

struct region *region_at(struct region_map *map, uint64_t addr)
{
	struct region *region = region_around(map, addr);

	assume(region && region->kind != REGION_MALLOC);
	return region;
}

struct region *region_find_malloc(struct region_map *map, uint64_t addr)
{
	struct region *near = map->near;

	if (near && near->addr == addr && near->kind == REGION_MALLOC)
		return near;
	region_update_mallocs(map);
	return g_hash_table_lookup(map->mallocs, &addr);
}
