// SPDX-License-Identifier: LGPL-2.1-or-later
/* The indices of a region map, and what is in them. */
#include "core/region-index.h"
#include "core/region.h"
#include "util/address.h"
#include "util/bound.h"
#include "util/line.h"
#include "util/links.h"

/* Unused structures are kept up to this number: each request splits a region, and each free merges some. */
#define SPARES_KEPT BOUND(4096, 4)

/* The order of the indices by size; equal sizes by address. */
static int compare_by_size(gconstpointer a, gconstpointer b)
{
	const struct region *x = a, *y = b;

	if (x->key_size != y->key_size)
		return x->key_size < y->key_size ? -1 : 1;
	return x->key_addr < y->key_addr ? -1 : x->key_addr > y->key_addr;
}

static void free_set_init(struct free_set *set)
{
	set->by_size = g_tree_new(compare_by_size);
	g_queue_init(&set->by_age);
}

static void free_set_delete(gpointer data)
{
	struct free_set *set = data;

	g_tree_destroy(set->by_size);
	g_free(set);
}

void region_map_init(struct region_map *map, struct stream_map *streams, unsigned int set, bool keeps)
{
	*map = (struct region_map){ .streams = streams, .set = set, .keeps = keeps, .cell = REGION_CELL };
	map->chunks = g_ptr_array_new();
	map->mallocs = address_table_new(NULL);
	map->unmapped = g_tree_new(compare_by_size);
	map->passed = g_tree_new(compare_by_size);
	map->sets = g_ptr_array_new_with_free_func(free_set_delete);
	circle_init(&map->new_mallocs);
	circle_init(&map->late);
	circle_init(&map->loose);
	circle_init(&map->dead);
	free_set_init(&map->unused);
}

struct free_set *region_new_set(struct region_map *map, struct stream *stream)
{
	struct free_set *set = g_new(struct free_set, 1);

	free_set_init(set);
	g_ptr_array_add(map->sets, set);
	stream->free[map->set] = set;
	return set;
}

static void set_key(struct region *region)
{
	region->key_addr = region->addr;
	region->key_size = region->size;
}

static void region_unsort(struct region_map *map, struct region *region)
{
	if (region->sorted)
		g_tree_remove(region_set_of(map, region)->by_size, region);
	region->sorted = false;
}

/* Leaves it to region_update() to give a free region its place by size. Its range may change from now on. */
static void be_late(struct region_map *map, struct region *region)
{
	if (!circle_has(&region->late))
		circle_append(&map->late, &region->late);
}

/* Sorts what has another key, or none. */
void region_sort_late(struct region_map *map)
{
	GList *link;

	/* No two may have the same key, and one may have the range that another had. */
	for (link = map->late.next; link != &map->late; link = link->next) {
		struct region *region = link->data;

		if (region->key_size != region->size || region->key_addr != region->addr)
			region_unsort(map, region);
	}
	while ((link = circle_first(&map->late))) {
		struct region *region = link->data;

		if (!region->sorted) {
			set_key(region);
			g_tree_insert(region_set_of(map, region)->by_size, region, region);
			region->sorted = true;
		}
		circle_remove(link);
	}
}

void region_update_mallocs(struct region_map *map)
{
	GList *link;

	while ((link = circle_first(&map->new_mallocs))) {
		struct region *region = link->data;

		g_hash_table_insert(map->mallocs, &region->addr, region);
		circle_remove(link);
	}
}

void region_index_found(struct region_map *map, struct region *region)
{
	set_key(region);
	switch (region->kind) {
	case REGION_UNMAPPED:
		if (!region->reserved)
			g_tree_insert(map->unmapped, region, region);
		break;
	case REGION_FREE:
		be_late(map, region);
		gaps_add(&map->gaps, region->size);
		if (!map->keeps && region->stream && !event_pending(region->event))
			g_tree_insert(map->passed, region, region);
		break;
	case REGION_ZOMBIE:
		if (event_pending(region->event))
			region->stream->zombies++;
		else if (!map->keeps || region->stray)
			circle_append(&map->dead, &region->guarded);
		break;
	case REGION_MALLOC:
	case REGION_LOOSE:
	case REGION_KINDS:
		break;
	}
}

void region_unindex_found(struct region_map *map, struct region *region)
{
	switch (region->kind) {
	case REGION_UNMAPPED:
		if (!region->reserved)
			g_tree_remove(map->unmapped, region);
		break;
	case REGION_MALLOC:
		g_hash_table_remove(map->mallocs, &region->addr);
		break;
	case REGION_FREE:
		region_unsort(map, region);
		if (circle_has(&region->late))
			circle_remove(&region->late);
		gaps_remove(&map->gaps, region->size);
		if (!map->keeps && region->stream && !event_pending(region->event))
			g_tree_remove(map->passed, region);
		break;
	case REGION_ZOMBIE:
		if (event_pending(region->event))
			region->stream->zombies--;
		else if (!map->keeps || region->stray)
			circle_remove(&region->guarded);
		break;
	case REGION_LOOSE:
	case REGION_KINDS:
		break;
	}
}

void region_enlist(struct region_map *map, struct region *region, struct region *older)
{
	GQueue *set = &region_set_of(map, region)->by_age;

	links_insert(set, older ? &older->set_age : set->tail, &region->set_age);
	links_insert(&map->by_age, older ? &older->map_age : map->by_age.tail, &region->map_age);
}

void region_delist(struct region_map *map, struct region *region)
{
	links_remove(&region_set_of(map, region)->by_age, &region->set_age);
	links_remove(&map->by_age, &region->map_age);
}

void region_move(struct region *region, uint64_t addr)
{
	if (region->addr == addr)
		return;
	region_starts_remove(&region->chunk->starts, region);
	region->addr = addr;
	region_starts_add(&region->chunk->starts, region);
}

struct region *region_new(struct region_map *map, struct chunk *chunk, enum region_kind kind, uint64_t addr,
			  size_t size)
{
	struct region *region = map->spare;

	if (region) {
		map->spare = region->next;
		map->spares--;
	} else {
		region = line_alloc(sizeof(*region), LINE_SIZE);
	}
	*region = (struct region){
		.addr = addr,
		.size = size,
		.kind = kind,
		.chunk = chunk,
		.guarded.data = region,
		.late.data = region,
		.set_age.data = region,
		.map_age.data = region,
	};
	region_starts_add(&chunk->starts, region);
	map->count++;
	return region;
}

void region_delete(struct region_map *map, struct region *region)
{
	region_starts_remove(&region->chunk->starts, region);
	region_unguard(region);
	region_set_stream(region, NULL);
	map->count--;
	if (map->near == region)
		map->near = NULL;
	if (map->spares == SPARES_KEPT) {
		g_aligned_free(region);
		return;
	}
	region->next = map->spare;
	map->spare = region;
	map->spares++;
}

void region_resize(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	if (!map->keeps) {
		region_unindex(map, region);
		region_move(region, addr);
		region->size = size;
		region_index(map, region);
		return;
	}
	if (region->kind == REGION_FREE) {
		be_late(map, region);
		gaps_remove(&map->gaps, region->size);
		gaps_add(&map->gaps, size);
	}
	map->bytes[region->kind] += size - region->size;
	region_move(region, addr);
	region->size = size;
}

void region_unlink(struct region *region)
{
	if (region->prev)
		region->prev->next = region->next;
	else
		region->chunk->first = region->next;
	if (region->next)
		region->next->prev = region->prev;
}

void region_swallow(struct region_map *map, struct region *lower, struct region *upper)
{
	lower->size += upper->size;
	region_unlink(upper);
	region_delete(map, upper);
}

static int compare_chunks(gconstpointer a, gconstpointer b)
{
	const struct chunk *x = *(const struct chunk *const *)a, *y = *(const struct chunk *const *)b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

struct region *region_add_chunk(struct region_map *map, uint64_t addr, size_t size)
{
	struct chunk *chunk = g_new0(struct chunk, 1);

	chunk->addr = addr;
	chunk->size = size;
	chunk->map = map;
	region_starts_init(&chunk->starts, addr, size, map->cell);
	chunk->first = region_new(map, chunk, REGION_UNMAPPED, addr, size);
	region_index(map, chunk->first);
	g_ptr_array_add(map->chunks, chunk);
	g_ptr_array_sort(map->chunks, compare_chunks);
	return chunk->first;
}

void region_remove_chunk(struct region_map *map, struct chunk *chunk)
{
	region_unindex(map, chunk->first);
	region_delete(map, chunk->first);
	g_ptr_array_remove(map->chunks, chunk);
	region_starts_clear(&chunk->starts);
	g_free(chunk);
}

void region_forget(struct region_map *map, struct stream *stream)
{
	if (stream->free[map->set])
		g_ptr_array_remove_fast(map->sets, stream->free[map->set]);
	stream->free[map->set] = NULL;
}

void region_map_clear(struct region_map *map)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		struct chunk *chunk = map->chunks->pdata[i];
		struct region *region, *next;

		for (region = chunk->first; region; region = next) {
			next = region->next;
			region_unindex(map, region);
			region_unguard(region);
			region_set_stream(region, NULL);
			g_aligned_free(region);
		}
		region_starts_clear(&chunk->starts);
		g_free(chunk);
	}
	for (struct region *spare = map->spare, *next; spare; spare = next) {
		next = spare->next;
		g_aligned_free(spare);
	}
	g_ptr_array_free(map->chunks, TRUE);
	g_hash_table_destroy(map->mallocs);
	g_tree_destroy(map->unmapped);
	g_tree_destroy(map->passed);
	g_tree_destroy(map->unused.by_size);
	g_ptr_array_free(map->sets, TRUE);
}

static const struct chunk *chunk_of(const struct region_map *map, uint64_t addr)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		const struct chunk *chunk = map->chunks->pdata[i];

		if (addr - chunk->addr < chunk->size)
			return chunk;
	}
	return NULL;
}

/* Most lookups of a call are of the same few addresses, and of one chunk. */
struct region *region_listed(struct region_map *map, uint64_t addr)
{
	struct region *near = map->near;
	const struct chunk *chunk = near ? near->chunk : NULL;

	if (near && addr - near->addr < near->size)
		return near;
	if (!chunk || addr - chunk->addr >= chunk->size)
		chunk = chunk_of(map, addr);
	if (!chunk)
		return NULL;
	map->near = region_starts_find(&chunk->starts, addr);
	return map->near;
}
