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

/**
 * region_index() - add a region to the indices of its kind
 * @map: the map
 * @region: the region, in no index
 */
void region_index(struct region_map *map, struct region *region);

/**
 * region_unindex() - remove a region from the indices of its kind
 * @map: the map
 * @region: the region
 */
void region_unindex(struct region_map *map, struct region *region);

/**
 * region_be_late() - leave it to region_settle() to give a free region its place by size
 * @map: the map
 * @region: the region, whose range may change from now on
 */
void region_be_late(struct region_map *map, struct region *region);

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

/* The order of the indices by size; equal sizes by address. */
int region_compare_size(gconstpointer a, gconstpointer b);

#endif /* REGION_INDEX_H */
