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

#include "core/gaps.h"
#include "core/stream.h"

struct block;

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
 * @lent: malloc: it is a chunk of another map
 * @held: malloc: the program has freed it, and others are not to have it yet; see deferred-free.h
 * @stray: zombie: the driver did not take it back when asked to; the pool's own memory is not there
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
 * @block: malloc: what its stream's cache knows of it; NULL: nothing
 */
struct region {
	uint64_t addr;
	size_t size;
	enum region_kind kind;
	bool fresh;
	bool stray;
	bool lent;
	bool held;
	struct stream *stream;
	struct event *event;
	uint64_t id;
	struct chunk *chunk;
	struct region *prev;
	struct region *next;
	GList guarded;
	GList set_age;
	GList map_age;
	struct block *block;
};

/**
 * struct chunk - one reservation of address space, or a block of another map's
 * @addr: where it starts
 * @size: bytes
 * @reserved: where the reservation starts
 * @spare: bytes of it that are not used, so that @addr is a multiple of the page size
 * @map: the map
 * @lender: the allocated region of another map that it is; NULL: it is a reservation
 * @first: its lowest region
 */
struct chunk {
	uint64_t addr;
	size_t size;
	uint64_t reserved;
	size_t spare;
	struct region_map *map;
	struct region *lender;
	struct region *first;
};

/* What one stream has free: by size and address for the best fit, and by age for the harvest. */
struct free_set {
	GTree *by_size;
	GQueue by_age;
};

/**
 * struct region_map - all regions of a pool, or of what it keeps apart
 * @streams: who uses them
 * @set: which of a stream's free sets is this map's
 * @keeps: old addresses stay mapped for when they are wanted again, and what nobody has to wait for any more is nobody's
 * @alone: the only stream may have free memory that nobody has to wait for
 * @chunks: of struct chunk, by address
 * @by_addr: all regions that are not allocated, by address
 * @last: the region that the next address is likely to lie in, as the one before did; or NULL
 * @mallocs: address to region
 * @unmapped: by size and address
 * @unused: free memory that no stream has used
 * @sets: of struct free_set, those of streams
 * @passed: free memory of streams whose events have passed, by size and address
 * @by_age: all free memory, by age
 * @gaps: the same, by how it is cut up
 * @dead: zombies whose events have passed
 * @bytes: how many bytes there are of each kind
 * @lent: bytes that other maps have lent it
 * @count: how many regions there are
 * @newest: the id that was given last
 */
struct region_map {
	struct stream_map *streams;
	unsigned int set;
	bool keeps;
	bool alone;
	GPtrArray *chunks;
	GTree *by_addr;
	struct region *last;
	GHashTable *mallocs;
	GTree *unmapped;
	struct free_set unused;
	GPtrArray *sets;
	GTree *passed;
	GQueue by_age;
	struct gaps gaps;
	GQueue dead;
	uint64_t bytes[REGION_KINDS];
	uint64_t lent;
	uint64_t count;
	uint64_t newest;
};

/**
 * region_map_init() - set up an empty map
 * @map: the map
 * @streams: who uses its memory
 * @set: which of the free sets of a stream is this map's, below STREAM_SETS
 * @keeps: whether zombies stay until they are asked for, and free memory whose event has passed is nobody's
 */
void region_map_init(struct region_map *map, struct stream_map *streams, unsigned int set, bool keeps);

/**
 * region_map_clear() - forget all regions
 * @map: the map
 *
 * Lets go of the events, and of what belongs to it in the streams.
 */
void region_map_clear(struct region_map *map);

/**
 * region_forget() - a stream that no region belongs to is about to be forgotten
 * @map: the map
 * @stream: the stream
 */
void region_forget(struct region_map *map, struct stream *stream);

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
 * region_add_lent() - take over an allocated region of another map, as one that is free here
 * @map: the map
 * @lender: the region
 * @stream: the stream that had it last; NULL: none had
 * @event: the point in the stream after which it is free; NULL: it was never in use
 */
void region_add_lent(struct region_map *map, struct region *lender, struct stream *stream, struct event *event);

/**
 * region_remove_lent() - undo region_add_lent()
 * @map: the map
 * @chunk: the chunk, one free region
 *
 * Return: the region of the other map.
 */
struct region *region_remove_lent(struct region_map *map, struct chunk *chunk);

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
 * region_first_fit() - the smallest region of a set that fits, to go on from to larger ones
 * @set: the set
 * @size: bytes
 *
 * Return: the node of the set's tree, or NULL.
 */
GTreeNode *region_first_fit(const struct free_set *set, size_t size);

/**
 * region_find_largest_unmapped() - the largest hole
 * @map: the map
 *
 * Return: the region, or NULL.
 */
struct region *region_find_largest_unmapped(struct region_map *map);

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
 * region_find_run() - the smallest row of free regions, whoever has to wait for them
 * @map: the map
 * @size: bytes that it has at least
 * @addr: receives where it starts
 *
 * Looks at the oldest few thousand of what is free.
 *
 * Return: its bytes; 0: there is none.
 */
size_t region_find_run(struct region_map *map, size_t size, uint64_t *addr);

/**
 * region_run() - the row of free regions that starts with one
 * @region: the region
 * @end: receives the region behind it; NULL: the chunk ends there
 *
 * Return: its bytes; 0: @region is not free, or not the first.
 */
size_t region_run(const struct region *region, struct region **end);

/**
 * region_at() - the region that an address lies in, if it is not allocated
 * @map: the map
 * @addr: the address
 *
 * What is allocated is found by where it starts, with region_find_malloc(): most of a pool is, and comes and goes at
 * the ends of what is free, so that the tree by address need not know.
 *
 * Return: the region; NULL: it is allocated, or lies in no chunk.
 */
struct region *region_at(struct region_map *map, uint64_t addr);

/**
 * region_expect() - what region_at() is asked for next lies in a region
 * @map: the map
 * @region: the region, which is not allocated; NULL: nothing is known
 */
static inline void region_expect(struct region_map *map, struct region *region)
{
	map->last = region;
}

/**
 * region_isolate() - make one region of exactly a range
 * @map: the map
 * @addr: where it starts
 * @size: bytes; all of it is of one kind, and nobody has to wait for what its parts waited for
 *
 * Return: the region, with the stream and event of its first part.
 */
struct region *region_isolate(struct region_map *map, uint64_t addr, size_t size);

/**
 * region_take() - allocate a range, whatever it was divided into
 * @map: the map
 * @addr: where it starts
 * @size: bytes; all of it is free
 * @stream: for which stream
 * @event: which the stream comes after, and others may not; NULL: there is none
 *
 * What is left over of the regions at the ends stays what it was.
 *
 * Return: the region.
 */
struct region *region_take(struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
			   struct event *event);

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
 * Return: the region, merged with its free neighbours of the same stream; the latest event of them counts. Where the map
 * keeps and there is but one stream, all is that stream's, so that nothing hangs on what it is known to be past.
 */
struct region *region_set_free(struct region_map *map, struct region *region, struct stream *stream,
			       struct event *event);

/**
 * region_share() - there is more than one stream now: what nobody has to wait for is nobody's
 * @map: the map, which keeps
 */
void region_share(struct region_map *map);

/**
 * region_set_zombie() - a free region's memory has moved elsewhere
 * @map: the map
 * @region: the region, which is free, or a hole that something is mapped to; it keeps its stream and event
 *
 * Return: the region; where the map keeps, merged with zombies beside it that nobody has to wait for.
 */
struct region *region_set_zombie(struct region_map *map, struct region *region);

/**
 * region_set_begin() - whoever has an allocated region next comes after more than those who had it before
 * @region: the region
 * @event: a point in its stream that is behind those
 */
void region_set_begin(struct region *region, struct event *event);

/**
 * region_set_stray() - a hole has something mapped that the driver would not unmap; it is to be unmapped later
 * @map: the map
 * @region: the region, which is unmapped
 */
void region_set_stray(struct region_map *map, struct region *region);

/**
 * region_pass() - the event of a region has passed; for stream_map_init()
 * @guarded: the region, which its event does not link any more
 *
 * Where the map keeps, the region may be one with its neighbours afterwards.
 */
void region_pass(void *guarded);

#endif /* REGION_H */
