/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The region maps: every byte of every chunk is in exactly one region, of one kind.
 *
 * The maps know what lies where and whose it is. They know nothing of memory, and call no driver. All of it is under
 * the lock of the pool.
 */
#ifndef REGION_H
#define REGION_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream.h"

enum region_kind {
	REGION_UNMAPPED,	/* a hole: nothing is mapped here */
	REGION_MALLOC,		/* allocated */
	REGION_FREE,		/* mapped, and not allocated */
	REGION_ZOMBIE,		/* what was mapped here is mapped elsewhere too; to be unmapped after the event */
	REGION_KINDS
};

/**
 * struct region - an interval of a chunk
 * @addr: where it starts
 * @size: how many bytes
 * @kind: what it is
 * @fresh: free: created for the most recent malloc
 * @stream: free, zombie: the stream that freed it, malloc: the one that allocated it; NULL: no stream has used it
 * @event: free, zombie: the point at which it was freed, malloc: which @stream comes after and others may not; held by
 *	a reference; NULL: there is none to come after
 * @id: free: when it was freed, malloc: when it was allocated; larger is later
 * @chunk: the chunk
 * @prev: its neighbour below in the chunk
 * @next: its neighbour above in the chunk
 * @guarded: links it into its event while that is pending, and a zombie into the map's dead after that
 * @set_age: links it into what its stream has free, by age
 * @map_age: links it into all that is free, by age
 */
struct region {
	uint64_t addr;
	size_t size;
	enum region_kind kind;
	bool fresh;
	struct stream *stream;
	struct event *event;
	uint64_t id;
	struct chunk *chunk;
	struct region *prev;
	struct region *next;
	GList guarded;
	GList set_age;
	GList map_age;
};

/* One reservation of address space. */
struct chunk {
	uint64_t addr;
	size_t size;
	struct region *first;
};

/* What one stream has free: by size and address for the best fit, and by age for the harvest. */
struct free_set {
	GTree *by_size;
	GQueue by_age;
};

/**
 * struct region_map - all regions of a pool
 * @chunks: of struct chunk, by address
 * @mallocs: address to region
 * @unmapped: by size and address
 * @unused: free memory that no stream has used
 * @sets: of struct free_set, those of streams
 * @passed: free memory of streams whose events have passed, by size and address
 * @by_age: all free memory, by age
 * @dead: zombies whose events have passed
 * @bytes: how many bytes there are of each kind
 * @count: how many regions there are
 * @newest: the id that was given last
 */
struct region_map {
	GPtrArray *chunks;
	GHashTable *mallocs;
	GTree *unmapped;
	struct free_set unused;
	GPtrArray *sets;
	GTree *passed;
	GQueue by_age;
	GQueue dead;
	uint64_t bytes[REGION_KINDS];
	uint64_t count;
	uint64_t newest;
};

void region_map_init(struct region_map *map);

/**
 * region_map_clear() - forget all regions
 * @map: the map
 *
 * Lets go of the events, and of what belongs to it in the streams.
 */
void region_map_clear(struct region_map *map);

/**
 * region_add_chunk() - take over a reservation, as one unmapped region
 * @map: the map
 * @addr: where it starts
 * @size: how many bytes
 *
 * Return: the region.
 */
struct region *region_add_chunk(struct region_map *map, uint64_t addr, size_t size);

/**
 * region_remove_chunk() - undo region_add_chunk()
 * @map: the map
 * @chunk: the chunk, one unmapped region
 */
void region_remove_chunk(struct region_map *map, struct chunk *chunk);

/**
 * region_find_unmapped() - the smallest hole that fits, the lowest of several
 * @map: the map
 * @size: bytes
 *
 * Return: the region, or NULL.
 */
struct region *region_find_unmapped(struct region_map *map, size_t size);

/**
 * region_find_own() - the smallest free region that a stream can have without waiting, because of the stream's order
 * @map: the map
 * @stream: the stream
 * @size: bytes
 *
 * Memory that no stream has used is as good as the stream's own, and is taken first when of one size.
 *
 * Return: the region, or NULL.
 */
struct region *region_find_own(struct region_map *map, struct stream *stream, size_t size);

/**
 * region_find_passed() - the smallest free region of any stream whose event has passed
 * @map: the map
 * @size: bytes
 *
 * Return: the region, or NULL.
 */
struct region *region_find_passed(struct region_map *map, size_t size);

/**
 * region_find_malloc() - the allocation at an address
 * @map: the map
 * @addr: exactly where it starts
 *
 * Return: the region, or NULL.
 */
struct region *region_find_malloc(struct region_map *map, uint64_t addr);

/**
 * region_split() - make two of a region
 * @map: the map
 * @region: the region, which keeps the lower part
 * @size: bytes of the lower part, more than 0 and fewer than the region has
 *
 * Both parts keep kind, stream, event and age.
 *
 * Return: the upper part.
 */
struct region *region_split(struct region_map *map, struct region *region, size_t size);

/**
 * region_cut() - let a region have no more than so many bytes
 * @map: the map
 * @region: the region, which keeps the lower part
 * @size: bytes, more than 0 and no more than the region has
 *
 * Return: the upper part; NULL: the region had no more.
 */
struct region *region_cut(struct region_map *map, struct region *region, size_t size);

/**
 * region_set_unmapped() - nothing is mapped here any more
 * @map: the map
 * @region: the region
 *
 * Return: the region, merged with its unmapped neighbours.
 */
struct region *region_set_unmapped(struct region_map *map, struct region *region);

/**
 * region_set_malloc() - it is allocated
 * @map: the map
 * @region: the region
 * @stream: for which stream, which comes after the region's event
 */
void region_set_malloc(struct region_map *map, struct region *region, struct stream *stream);

/**
 * region_set_free() - it is mapped, and not allocated
 * @map: the map
 * @region: the region
 * @stream: the stream that had it last; NULL: none had
 * @event: the point in the stream after which it is free; NULL: it was never in use
 *
 * Return: the region, merged with its free neighbours of the same stream; the latest event of them counts.
 */
struct region *region_set_free(struct region_map *map, struct region *region, struct stream *stream,
			       struct event *event);

/**
 * region_set_zombie() - a free region's memory has moved elsewhere
 * @map: the map
 * @region: the region, which is free; it keeps its stream and event
 */
void region_set_zombie(struct region_map *map, struct region *region);

/**
 * region_pass() - the event of a region has passed; for stream_map_init()
 * @data: the map
 * @guarded: the region, which its event does not link any more
 */
void region_pass(void *data, void *guarded);

#endif /* REGION_H */
