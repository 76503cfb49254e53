/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A loose region is free or a zombie: region_decide() finds out which. Code that reads free regions or zombies calls
 * the functions here, or walks from a region that they or region_around() returned: all of these decide first.
 */
#ifndef REGION_LOOSE_H
#define REGION_LOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/region.h"
#include "util/circle.h"

/**
 * region_decide() - make each loose region free, merged with its neighbours, or a zombie
 * @map: the map
 *
 * Frees of the only stream leave regions loose until a search for memory. A program that repeats itself gets its
 * addresses without a search, so regions that are freed and allocated again are neither merged nor split. A recall
 * leaves the extent's old mapping loose, too. A loose range is free if its extent has its home there or is split, and a
 * zombie otherwise. Until then no code can take it for either.
 */
void region_decide(struct region_map *map);

/**
 * region_is_free() - whether a region is free, for who walks over neighbours
 * @region: the region, in a map without loose ones: --enable-debug checks that
 */
static inline bool region_is_free(const struct region *region)
{
#ifdef VPMM_DEBUG
	if (circle_first(&region->chunk->map->loose))
		g_assertion_message_expr(G_LOG_DOMAIN, __FILE__, __LINE__, G_STRFUNC, "no region is loose");
#endif
	return region->kind == REGION_FREE;
}

/**
 * region_bytes() - how many bytes of a map are of a kind
 * @map: the map
 * @kind: the kind
 */
static inline uint64_t region_bytes(struct region_map *map, enum region_kind kind)
{
	region_decide(map);
	return map->bytes[kind];
}

/**
 * region_zombies() - how many zombies of a map or of others wait for events of a stream
 * @map: the map
 * @stream: the stream
 */
static inline unsigned int region_zombies(struct region_map *map, const struct stream *stream)
{
	region_decide(map);
	return stream->zombies;
}

/**
 * region_gaps() - the sizes of all free regions
 * @map: the map
 */
static inline const struct gaps *region_gaps(struct region_map *map)
{
	region_decide(map);
	return &map->gaps;
}

/**
 * region_ages() - all free regions, the longest free first
 * @map: the map
 *
 * Return: of struct region.
 */
static inline const GQueue *region_ages(struct region_map *map)
{
	region_decide(map);
	return &map->by_age;
}

/**
 * region_by_age() - the free regions of a stream, the longest free first
 * @map: the map
 * @stream: the stream
 *
 * Return: of struct region.
 */
static inline const GQueue *region_by_age(struct region_map *map, const struct stream *stream)
{
	static const GQueue none = G_QUEUE_INIT;

	region_decide(map);
	return stream->free[map->set] ? &stream->free[map->set]->by_age : &none;
}

/**
 * region_update() - region_decide(), and give each free region its place by size
 * @map: the map
 */
void region_update(struct region_map *map);

/**
 * region_free_of() - the free memory of a stream, each region in its place by size
 * @map: the map
 * @stream: the stream; NULL: what belongs to none
 *
 * Return: the set; NULL: the stream has none.
 */
static inline const struct free_set *region_free_of(struct region_map *map, const struct stream *stream)
{
	region_update(map);
	return stream ? stream->free[map->set] : &map->unused;
}

#endif /* REGION_LOOSE_H */
