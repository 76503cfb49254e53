/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The indices of a region map, for region.c, which changes what is in them.
 *
 * Every region is in the indices of its kind and counted, or in none between region_unindex() and region_index(); what
 * the indices go by changes only there. The lists by age are apart: they do not mind when a region changes its size.
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
 * Return: the region, in no index, and nobody's neighbour.
 */
struct region *region_new(struct region_map *map, struct chunk *chunk, enum region_kind kind, uint64_t addr,
			  size_t size);

/**
 * region_delete() - forget a region
 * @map: the map
 * @region: the region, in no index, and nobody's neighbour
 */
void region_delete(struct region_map *map, struct region *region);

/**
 * region_index() - enter a region into the indices of its kind
 * @map: the map
 * @region: the region, in none
 */
void region_index(struct region_map *map, struct region *region);

/**
 * region_unindex() - take it out of them
 * @map: the map
 * @region: the region
 */
void region_unindex(struct region_map *map, struct region *region);

/**
 * region_enlist() - enter a free region into the lists by age
 * @map: the map
 * @region: the region
 * @older: the region that it follows; NULL: all of them
 */
void region_enlist(struct region_map *map, struct region *region, struct region *older);

/**
 * region_delist() - take it out of them
 * @map: the map
 * @region: the region
 */
void region_delist(struct region_map *map, struct region *region);

/**
 * region_become() - let a region be of another kind
 * @map: the map
 * @region: the region, in no index
 * @kind: the kind
 */
void region_become(struct region_map *map, struct region *region, enum region_kind kind);

/**
 * region_set_stream() - let a region be of another stream
 * @region: the region
 * @stream: the stream, which is not forgotten as long as a region is its; NULL: none
 */
void region_set_stream(struct region *region, struct stream *stream);

/**
 * region_guard() - let a region wait for an event
 * @region: the region, which waits for none
 * @event: the event; the region has a reference to it, passed or not, until region_unguard(); NULL: none
 */
void region_guard(struct region *region, struct event *event);

/**
 * region_unguard() - let a region wait for nothing
 * @region: the region
 */
void region_unguard(struct region *region);

/**
 * region_set_of() - the free set that a free region belongs to
 * @map: the map
 * @region: the region
 *
 * Return: that of its stream; or of no stream.
 */
struct free_set *region_set_of(struct region_map *map, struct region *region);

/* The order of the indices by size: by address where that is the same. */
int region_compare_size(gconstpointer a, gconstpointer b);

#endif /* REGION_INDEX_H */
