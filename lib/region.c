// SPDX-License-Identifier: LGPL-2.1-or-later
#include "address.h"
#include "region.h"

/* A region that is to be compared only: what a best fit looks for. */
#define REGION_KEY(key_size) (&(struct region){ .size = (key_size) })

static int compare_size(gconstpointer a, gconstpointer b)
{
	const struct region *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static struct region *best_fit(GTree *tree, size_t size)
{
	GTreeNode *node = g_tree_lower_bound(tree, REGION_KEY(size));

	return node ? g_tree_node_key(node) : NULL;
}

static void free_set_init(struct free_set *set)
{
	set->by_size = g_tree_new(compare_size);
	g_queue_init(&set->by_age);
}

static void free_set_delete(gpointer data)
{
	struct free_set *set = data;

	g_tree_destroy(set->by_size);
	g_free(set);
}

void region_map_init(struct region_map *map)
{
	*map = (struct region_map){ 0 };
	map->chunks = g_ptr_array_new();
	map->mallocs = address_table_new(NULL);
	map->unmapped = g_tree_new(compare_size);
	map->passed = g_tree_new(compare_size);
	map->sets = g_ptr_array_new_with_free_func(free_set_delete);
	free_set_init(&map->unused);
}

static struct free_set *region_set_of(struct region_map *map, struct region *region)
{
	struct stream *stream = region->stream;

	if (!stream)
		return &map->unused;
	if (!stream->free) {
		stream->free = g_new(struct free_set, 1);
		free_set_init(stream->free);
		g_ptr_array_add(map->sets, stream->free);
	}
	return stream->free;
}

/* A region holds a reference to its event, passed or not, until it is free or a zombie no more. */
static void region_guard(struct region *region, struct event *event)
{
	region->event = event_ref(event);
	if (event)
		event_guard(event, &region->guarded);
}

static void region_unguard(struct region *region)
{
	struct event *event = region->event;

	if (event)
		event_unguard(event, &region->guarded);
	region->event = NULL;
	event_unref(event);
}

/*
 * Every region is in the indices of its kind and counted, or in none between region_unindex() and region_index(); what
 * the indices go by changes only there. The lists by age are apart: they do not mind when a region changes its size.
 */
static void region_index(struct region_map *map, struct region *region)
{
	switch (region->kind) {
	case REGION_UNMAPPED:
		g_tree_insert(map->unmapped, region, region);
		break;
	case REGION_MALLOC:
		g_hash_table_insert(map->mallocs, &region->addr, region);
		break;
	case REGION_FREE:
		g_tree_insert(region_set_of(map, region)->by_size, region, region);
		if (region->stream && !event_pending(region->event))
			g_tree_insert(map->passed, region, region);
		break;
	case REGION_ZOMBIE:
		if (event_pending(region->event))
			region->stream->zombies++;
		else
			g_queue_push_tail_link(&map->dead, &region->guarded);
		break;
	case REGION_KINDS:
		break;
	}
	map->bytes[region->kind] += region->size;
}

static void region_unindex(struct region_map *map, struct region *region)
{
	switch (region->kind) {
	case REGION_UNMAPPED:
		g_tree_remove(map->unmapped, region);
		break;
	case REGION_MALLOC:
		g_hash_table_remove(map->mallocs, &region->addr);
		break;
	case REGION_FREE:
		g_tree_remove(region_set_of(map, region)->by_size, region);
		if (region->stream && !event_pending(region->event))
			g_tree_remove(map->passed, region);
		break;
	case REGION_ZOMBIE:
		if (event_pending(region->event))
			region->stream->zombies--;
		else
			g_queue_unlink(&map->dead, &region->guarded);
		break;
	case REGION_KINDS:
		break;
	}
	map->bytes[region->kind] -= region->size;
}

/* @older: the region that it follows by age; NULL: all of them. */
static void region_enlist(struct region_map *map, struct region *region, struct region *older)
{
	GQueue *set = &region_set_of(map, region)->by_age;

	g_queue_insert_after_link(set, older ? &older->set_age : set->tail, &region->set_age);
	g_queue_insert_after_link(&map->by_age, older ? &older->map_age : map->by_age.tail, &region->map_age);
}

static void region_delist(struct region_map *map, struct region *region)
{
	g_queue_unlink(&region_set_of(map, region)->by_age, &region->set_age);
	g_queue_unlink(&map->by_age, &region->map_age);
}

static struct region *region_new(struct region_map *map, struct chunk *chunk, uint64_t addr, size_t size)
{
	struct region *region = g_new0(struct region, 1);

	region->addr = addr;
	region->size = size;
	region->chunk = chunk;
	region->guarded.data = region;
	region->set_age.data = region;
	region->map_age.data = region;
	map->count++;
	return region;
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
	chunk->first = region_new(map, chunk, addr, size);
	region_index(map, chunk->first);
	g_ptr_array_add(map->chunks, chunk);
	g_ptr_array_sort(map->chunks, compare_chunks);
	return chunk->first;
}

void region_remove_chunk(struct region_map *map, struct chunk *chunk)
{
	region_unindex(map, chunk->first);
	map->count--;
	g_ptr_array_remove(map->chunks, chunk);
	g_free(chunk->first);
	g_free(chunk);
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
			g_free(region);
		}
		g_free(chunk);
	}
	g_ptr_array_free(map->chunks, TRUE);
	g_hash_table_destroy(map->mallocs);
	g_tree_destroy(map->unmapped);
	g_tree_destroy(map->passed);
	g_tree_destroy(map->unused.by_size);
	g_ptr_array_free(map->sets, TRUE);
}

struct region *region_find_unmapped(struct region_map *map, size_t size)
{
	return best_fit(map->unmapped, size);
}

struct region *region_find_own(struct region_map *map, struct stream *stream, size_t size)
{
	struct region *own = stream->free ? best_fit(stream->free->by_size, size) : NULL;
	struct region *unused = best_fit(map->unused.by_size, size);

	if (!own || !unused)
		return own ? own : unused;
	return own->size < unused->size ? own : unused;
}

struct region *region_find_passed(struct region_map *map, size_t size)
{
	return best_fit(map->passed, size);
}

struct region *region_find_malloc(struct region_map *map, uint64_t addr)
{
	return g_hash_table_lookup(map->mallocs, &addr);
}

static void region_link(struct region *region, struct region *below)
{
	region->prev = below;
	region->next = below->next;
	if (region->next)
		region->next->prev = region;
	below->next = region;
}

struct region *region_split(struct region_map *map, struct region *region, size_t size)
{
	struct region *upper = region_new(map, region->chunk, region->addr + size, region->size - size);

	upper->kind = region->kind;
	upper->fresh = region->fresh;
	upper->stream = region->stream;
	upper->id = region->id;
	region_guard(upper, region->event);
	region_link(upper, region);
	region_unindex(map, region);
	region->size = size;
	region_index(map, region);
	region_index(map, upper);
	if (upper->kind == REGION_FREE)
		region_enlist(map, upper, region);
	return upper;
}

struct region *region_cut(struct region_map *map, struct region *region, size_t size)
{
	return size < region->size ? region_split(map, region, size) : NULL;
}

/* Takes a region out of what its kind has; it keeps its size and place and becomes something else. */
static void region_leave(struct region_map *map, struct region *region)
{
	region_unindex(map, region);
	if (region->kind == REGION_FREE)
		region_delist(map, region);
	region->fresh = false;
}

/* Lets @lower swallow @upper, its neighbour above; both are out of the indices. */
static void region_swallow(struct region_map *map, struct region *lower, struct region *upper)
{
	lower->size += upper->size;
	lower->next = upper->next;
	if (lower->next)
		lower->next->prev = lower;
	map->count--;
	region_unguard(upper);
	g_free(upper);
}

struct region *region_set_unmapped(struct region_map *map, struct region *region)
{
	struct region *prev = region->prev, *next = region->next;

	region_leave(map, region);
	region_unguard(region);
	region->stream = NULL;
	region->kind = REGION_UNMAPPED;
	if (next && next->kind == REGION_UNMAPPED) {
		region_leave(map, next);
		region_swallow(map, region, next);
	}
	if (prev && prev->kind == REGION_UNMAPPED) {
		region_leave(map, prev);
		region_swallow(map, prev, region);
		region = prev;
	}
	region_index(map, region);
	return region;
}

void region_set_malloc(struct region_map *map, struct region *region, struct stream *stream)
{
	region_leave(map, region);
	if (!event_pending(region->event))
		region_unguard(region);
	region->stream = stream;
	region->kind = REGION_MALLOC;
	region->id = ++map->newest;
	region_index(map, region);
}

static bool region_is_free_of(const struct region *region, const struct stream *stream)
{
	return region && region->kind == REGION_FREE && region->stream == stream;
}

/* Of two events of one stream, the later one: when it has passed, so have both. Moves the caller's reference there. */
static struct event *event_keep_later(struct event *held, struct event *other)
{
	if (!other || (held && held->seq >= other->seq))
		return held;
	event_ref(other);
	event_unref(held);
	return other;
}

struct region *region_set_free(struct region_map *map, struct region *region, struct stream *stream,
			       struct event *event)
{
	struct region *prev = region->prev, *next = region->next;

	event_ref(event);
	region_leave(map, region);
	region_unguard(region);
	region->stream = stream;
	region->kind = REGION_FREE;
	if (region_is_free_of(next, stream)) {
		region_leave(map, next);
		event = event_keep_later(event, next->event);
		region_swallow(map, region, next);
	}
	if (region_is_free_of(prev, stream)) {
		region_leave(map, prev);
		event = event_keep_later(event, prev->event);
		region_unguard(prev);
		region_swallow(map, prev, region);
		region = prev;
	}
	region->id = ++map->newest;
	region_guard(region, event);
	event_unref(event);
	region_index(map, region);
	region_enlist(map, region, NULL);
	return region;
}

void region_set_zombie(struct region_map *map, struct region *region)
{
	region_leave(map, region);
	region->kind = REGION_ZOMBIE;
	region_index(map, region);
}

void region_pass(void *data, void *guarded)
{
	struct region_map *map = data;
	struct region *region = guarded;

	if (region->kind == REGION_FREE) {
		g_tree_insert(map->passed, region, region);
	} else if (region->kind == REGION_ZOMBIE) {
		region->stream->zombies--;
		g_queue_push_tail_link(&map->dead, &region->guarded);
	}
}
