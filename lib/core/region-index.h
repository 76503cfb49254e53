/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The indices of a region map, for region.c.
 *
 * A region is counted and in the indices of its kind, except between region_unindex() and region_index(). The keys of
 * the indices change only there. The lists by age do not depend on a region's size, so they have calls of their own.
 */
#ifndef REGION_INDEX_H
#define REGION_INDEX_H

#include "core/region.h"
#include "util/assume.h"
#include "util/circle.h"

/**
 * region_new() - make a region
 * @map: the map
 * @chunk: the chunk that it is in
 * @kind: of which kind
 * @addr: where it starts
 * @size: bytes
 *
 * Return: the region, in no index, without neighbours.
 */
struct region *region_new(struct region_map *map, struct chunk *chunk, enum region_kind kind, uint64_t addr,
			  size_t size);

/**
 * region_delete() - forget a region
 * @map: the map
 * @region: the region, in no index, without neighbours
 */
void region_delete(struct region_map *map, struct region *region);

/* The circle that a region of some kinds is in instead of an index; NULL: the kind has none. */
static inline GList *region_circle(struct region_map *map, const struct region *region)
{
	if (region->kind == REGION_MALLOC)
		return &map->new_mallocs;
	return region->kind == REGION_LOOSE ? &map->loose : NULL;
}

/* For region_index() and region_unindex(), with a region that is in no such circle. */
void region_index_found(struct region_map *map, struct region *region);
void region_unindex_found(struct region_map *map, struct region *region);

/**
 * region_index() - add a region to the indices of its kind
 * @map: the map
 * @region: the region, in no index
 */
static inline void region_index(struct region_map *map, struct region *region)
{
	GList *circle = region_circle(map, region);

	if (circle)
		circle_append(circle, &region->late);
	else
		region_index_found(map, region);
	map->bytes[region->kind] += region->size;
}

/**
 * region_unindex() - remove a region from the indices of its kind
 * @map: the map
 * @region: the region
 */
static inline void region_unindex(struct region_map *map, struct region *region)
{
	if (circle_has(&region->late) && region->kind != REGION_FREE)
		circle_remove(&region->late);
	else
		region_unindex_found(map, region);
	map->bytes[region->kind] -= region->size;
}

/**
 * region_sort_late() - give each of @late its place by size
 * @map: the map
 */
void region_sort_late(struct region_map *map);

/**
 * region_enlist() - add a free region to the lists by age
 * @map: the map
 * @region: the region
 * @older: the region behind which it goes; NULL: at the end, as the youngest
 */
void region_enlist(struct region_map *map, struct region *region, struct region *older);

/**
 * region_delist() - remove a free region from the lists by age
 * @map: the map
 * @region: the region
 */
void region_delist(struct region_map *map, struct region *region);

/**
 * region_resize() - change the range of a free region, or of a loose one
 * @map: the map
 * @region: the region
 * @addr: where it starts from now on
 * @size: bytes
 *
 * Whether it changes its place by size is left to the next who reads the tree.
 */
void region_resize(struct region_map *map, struct region *region, uint64_t addr, size_t size);

/**
 * region_leave() - take a region out of all indices of its kind, before it changes to another
 * @map: the map
 * @region: the region; address and size stay
 */
static inline void region_leave(struct region_map *map, struct region *region)
{
	region_unindex(map, region);
	if (region->kind == REGION_FREE)
		region_delist(map, region);
	region->fresh = false;
}

/**
 * region_unlink() - take a region out from between its neighbours
 * @region: the region
 */
void region_unlink(struct region *region);

/**
 * region_set_free_merged() - make a region free, and merge it as far as it can be
 * @map: the map
 * @region: the region
 * @stream: the stream that had it last; NULL: none
 * @event: the point in the stream after which it is free; NULL: it was never used
 * @id: when it was freed
 *
 * Return: what the region has become.
 */
struct region *region_set_free_merged(struct region_map *map, struct region *region, struct stream *stream,
				      struct event *event, uint64_t id);

/**
 * region_listed() - the region that has an address, of any kind, which may be loose
 * @map: the map
 * @addr: the address
 *
 * Return: the region; NULL: the address is in no chunk.
 */
struct region *region_listed(struct region_map *map, uint64_t addr);

/* The same for an address that is known to be in a chunk. */
static inline struct region *region_listed_at(struct region_map *map, uint64_t addr)
{
	struct region *region = region_listed(map, addr);

	assume(region);
	return region;
}

/**
 * region_run() - the run of adjacent free regions that starts with a region
 * @region: the region
 * @end: receives the region behind the run; NULL: the chunk ends there
 *
 * Return: the size of the run; 0: @region is not free, or not the first of its run.
 */
size_t region_run(const struct region *region, struct region **end);

/**
 * region_swallow() - merge two neighbours
 * @map: the map
 * @lower: the region that stays, in no index
 * @upper: the region above it, in no index; it is deleted
 */
void region_swallow(struct region_map *map, struct region *lower, struct region *upper);

/**
 * region_move() - change where a region starts
 * @region: the region; its neighbours are still those of its old address
 * @addr: the new address
 */
void region_move(struct region *region, uint64_t addr);

/**
 * region_set_stream() - change the stream of a region
 * @region: the region
 * @stream: the stream, which stays in the pool as long as a region refers to it; NULL: none
 */
static inline void region_set_stream(struct region *region, struct stream *stream)
{
	if (stream)
		stream->refs++;
	if (region->stream)
		region->stream->refs--;
	region->stream = stream;
}

/**
 * region_guard() - set the event of a region
 * @region: the region, without an event
 * @event: the event; the region holds a reference until region_unguard(), passed or not; NULL: none
 */
static inline void region_guard(struct region *region, struct event *event)
{
	region->event = event_ref(event);
	if (event)
		event_guard(event, &region->guarded);
}

/**
 * region_unguard() - drop the event of a region
 * @region: the region
 */
static inline void region_unguard(struct region *region)
{
	struct event *event = region->event;

	if (!event)
		return;
	event_unguard(event, &region->guarded);
	region->event = NULL;
	event_unref(event);
}

/**
 * region_new_set() - give a stream its free set
 * @map: the map
 * @stream: the stream, without one in this map
 *
 * Return: the set.
 */
struct free_set *region_new_set(struct region_map *map, struct stream *stream);

/**
 * region_set_of() - the free set that a free region belongs to
 * @map: the map
 * @region: the region
 *
 * Return: that of its stream, or that of memory without a stream.
 */
static inline struct free_set *region_set_of(struct region_map *map, struct region *region)
{
	struct stream *stream = region->stream;

	if (!stream)
		return &map->unused;
	return stream->free[map->set] ? stream->free[map->set] : region_new_set(map, stream);
}

#endif /* REGION_INDEX_H */
