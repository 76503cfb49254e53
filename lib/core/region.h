/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The region maps: every byte of every chunk is in exactly one region, of one kind.
 *
 * They record the state of each address range and the stream that had it last. They know nothing of physical memory
 * and never call the driver. All of it is under core.lock.
 */
#ifndef REGION_H
#define REGION_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/gaps.h"
#include "core/region-start.h"
#include "core/stream.h"
#include "util/address-index.h"

/* log2 of the bytes of a cell, for region-start.h: of memory for large requests, and of slabs. */
#define REGION_CELL 18
#define REGION_CELL_SLABS 15

struct block;

/* One byte. */
enum region_kind {
	REGION_UNMAPPED,	/* a hole: nothing is mapped */
	REGION_MALLOC,		/* allocated */
	REGION_FREE,		/* mapped, and not allocated */
	REGION_ZOMBIE,		/* its memory is in use at another mapping; to be unmapped after the event */
	REGION_LOOSE,		/* free or a zombie: see region_decide() */
	REGION_KINDS
} __attribute__((packed));

/**
 * struct region - an interval of a chunk
 * @addr: where it starts
 * @size: bytes of it
 * @kind: see enum region_kind
 * @fresh: free: was created for the latest malloc
 * @sorted: free: it is in the tree of its stream by size, with the keys @key_addr and @key_size
 * @reserved: unmapped, zombie: address space of the growable block below it
 * @held: malloc: the program has freed it, and the free is deferred; see deferred-free.h
 * @stray: zombie: the driver failed to unmap it, and it holds no memory of the pool
 * @stream: free, zombie, loose: the stream that freed it, malloc: the one that allocated it; the map's @joined: several
 *	had it last; NULL: no stream has used it
 * @event: free, zombie, loose: the point at which it was freed; malloc: one that @stream already follows, and that
 *	another stream which frees the block must wait for; with a reference; NULL: no need to wait
 * @prev: the neighbour below it in the chunk
 * @next: the neighbour above it in the chunk
 * @chunk: the chunk
 * @id: free: when it was freed; malloc: when it was allocated; larger is later
 * @guarded: its link in the event while that is pending; afterwards, of a zombie, in the map's @dead
 * @late: its link in the map's @late, @loose or @new_mallocs, or in none of them
 * @block: malloc: its block in its stream's cache; NULL: none
 * @requested: malloc: bytes of the request, unless it has a block: that has been served again since
 * @max: malloc: bytes that a growable block may reach, as requested; 0: the block is not growable
 * @key_addr: @addr, as the indices by size have it; see @late of struct region_map
 * @key_size: @size, likewise
 * @set_age: its link in its stream's free memory, by age
 * @map_age: its link in all free memory, by age
 */
struct region {
	/* A cache line for those who walk over neighbours: */
	uint64_t addr;
	size_t size;
	enum region_kind kind;
	bool fresh;
	bool sorted;
	bool stray;
	bool reserved;
	bool held;
	struct region *prev;
	struct region *next;
	struct stream *stream;
	struct event *event;
	struct chunk *chunk;

	/* Another for what each malloc and free changes: */
	uint64_t id;
	GList guarded;
	GList late;
	struct block *block;

	size_t requested;
	size_t max;
	uint64_t key_addr;
	size_t key_size;
	GList set_age;
	GList map_age;
};

/**
 * struct chunk - a reservation of address space
 * @addr: where it starts
 * @size: bytes
 * @reserved: where the reservation starts
 * @spare: bytes of the reservation that are not used
 * @map: the map
 * @first: its lowest region
 * @starts: where its regions start
 * @known: in the index of all pools' addresses
 */
struct chunk {
	uint64_t addr;
	size_t size;
	uint64_t reserved;
	size_t spare;
	struct region_map *map;
	struct region *first;
	struct region_starts starts;
	struct address_range known;
};

/* The free memory of one stream: by size and address for best fit, by age for paged mode. */
struct free_set {
	GTree *by_size;
	GQueue by_age;
};

/**
 * struct region_map - all regions of a pool, or of its slabs
 * @streams: the streams of the pool
 * @set: index of this map in a stream's free sets
 * @keeps: old mappings stay as zombies for reuse, and free memory whose event has passed belongs to no stream
 * @ages: pending neighbours merge only if they wait for the same event, so that the age of each stays known, once there
 *	is more than one stream
 * @alone: there is one stream: free memory whose event has passed may stay that stream's
 * @lazy: what the only stream frees becomes loose. Not of slabs: each request looks for memory there
 * @cell: log2 of the bytes of a cell, for new chunks
 * @begin: where the first chunk is to start, if the addresses are free; 0: anywhere
 * @chunks: of struct chunk, by address
 * @mallocs: address to region, for those that are allocated
 * @new_mallocs: those that are not in @mallocs yet: they enter it once somebody looks for an allocation there, which
 *	the malloc and the free of a stream's cache never do
 * @near: the region that was looked up last; or NULL
 * @unmapped: holes, by size and address, without those that are reserved
 * @unused: free memory that belongs to no stream
 * @late: free regions that have no place in the tree of their stream by size yet, or another than they had. A program
 *	that repeats itself is given the addresses that it had before, and nobody reads the tree: what is freed and
 *	allocated again meanwhile never enters it
 * @loose: those of the kind REGION_LOOSE, the first freed first. Only while there is one stream
 * @free_run: how much of a loose range is free alike from its start on, or is not: *@free says which
 * @sets: every stream's struct free_set
 * @passed: free memory of streams whose events have passed, by size and address
 * @by_age: all free memory, by age
 * @gaps: sizes of all free regions, by class
 * @spare: unused structures of regions, for later ones, by @next
 * @spares: how many there are
 * @dead: zombies whose events have passed
 * @bytes: bytes of each kind
 * @count: number of regions
 * @newest: the last id that was given
 * @growables: number of ranges that are reserved for growable blocks
 */
struct region_map {
	struct stream_map *streams;
	unsigned int set;
	bool keeps;
	bool ages;
	bool alone;
	bool lazy;
	unsigned int cell;
	uint64_t begin;
	GPtrArray *chunks;
	GHashTable *mallocs;
	GList new_mallocs;
	struct region *near;
	GTree *unmapped;
	struct free_set unused;
	GList late;
	GList loose;
	size_t (*free_run)(const struct region_map *map, const struct region *loose, bool *free);
	GPtrArray *sets;
	GTree *passed;
	GQueue by_age;
	struct gaps gaps;
	struct region *spare;
	guint spares;
	GList dead;
	uint64_t bytes[REGION_KINDS];
	uint64_t count;
	uint64_t newest;
	uint64_t growables;
};

/**
 * region_map_ages() - whether it is to be known how old each part of free memory is
 * @map: the map
 */
static inline bool region_map_ages(const struct region_map *map)
{
	return map->ages && !map->streams->sole;
}

/**
 * region_map_init() - set up an empty map
 * @map: the map
 * @streams: the streams of the pool
 * @set: index of this map in a stream's free sets, below STREAM_SETS
 * @keeps: whether zombies stay for reuse, and free memory whose event has passed belongs to no stream
 */
void region_map_init(struct region_map *map, struct stream_map *streams, unsigned int set, bool keeps);

/**
 * region_map_clear() - forget all regions
 * @map: the map
 *
 * Drops the references to events, and the map's free sets in the streams.
 */
void region_map_clear(struct region_map *map);

/**
 * region_forget() - delete the free set of a stream that is about to be forgotten
 * @map: the map
 * @stream: the stream, to which no region belongs
 */
void region_forget(struct region_map *map, struct stream *stream);

/**
 * region_add_chunk() - add a reservation, as one unmapped region
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
 * @chunk: the chunk, which is one unmapped region
 */
void region_remove_chunk(struct region_map *map, struct chunk *chunk);

/**
 * region_find_unmapped() - the smallest hole of at least a size; the lowest of equals
 * @map: the map
 * @size: bytes
 *
 * Return: the region, or NULL.
 */
struct region *region_find_unmapped(struct region_map *map, size_t size);

/**
 * region_update_mallocs() - enter each of @new_mallocs into the table of allocations
 * @map: the map
 */
void region_update_mallocs(struct region_map *map);

/**
 * region_first_fit() - the smallest free region of at least a size, to iterate to larger ones
 * @map: the map
 * @set: one of its sets
 * @size: bytes
 *
 * Return: the node of the set's tree, or NULL.
 */
GTreeNode *region_first_fit(struct region_map *map, const struct free_set *set, size_t size);

/**
 * region_last_below() - the largest region of a set with fewer bytes, to go on from to smaller ones
 * @map: the map
 * @set: one of its sets
 * @size: bytes
 *
 * Return: the node of the set's tree, or NULL.
 */
GTreeNode *region_last_below(struct region_map *map, const struct free_set *set, size_t size);

/**
 * region_find_largest_unmapped() - the largest hole
 * @map: the map
 *
 * Return: the region, or NULL.
 */
struct region *region_find_largest_unmapped(struct region_map *map);

/**
 * region_find_own() - the smallest free region that a stream can have without a wait, by stream order
 * @map: the map
 * @stream: the stream
 * @size: bytes
 *
 * Memory that belongs to no stream serves as well; of equal sizes it is preferred.
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
 * region_find_run() - the smallest run of adjacent free regions, whatever their streams
 * @map: the map
 * @size: bytes that the run has at least
 * @addr: receives where it starts
 *
 * Looks at the few thousand oldest free regions only.
 *
 * Return: the size of the run; 0: there is none.
 */
size_t region_find_run(struct region_map *map, size_t size, uint64_t *addr);

/**
 * region_around() - the region that has an address, of any kind
 * @map: the map, after region_decide(): regions that are not allocated may have merged
 * @addr: the address
 *
 * Return: the region; NULL: the address is in no chunk.
 */
struct region *region_around(struct region_map *map, uint64_t addr);

/**
 * region_at() - the region that has an address which is known to be in a chunk, and not allocated
 * @map: the map
 * @addr: the address
 */
struct region *region_at(struct region_map *map, uint64_t addr);

/**
 * region_isolate() - split and merge, so that a range is one region
 * @map: the map
 * @addr: where it starts
 * @size: bytes; all of one kind. The events of all parts but the first are dropped, so no one may still have to wait
 *	for them
 *
 * Return: the region
 */
struct region *region_isolate(struct region_map *map, uint64_t addr, size_t size);

/**
 * region_take() - allocate a range, whatever regions it consists of
 * @map: the map
 * @addr: where it starts
 * @size: bytes; all of it is free, or zombies or loose, and its memory was made nobody's at other mappings
 * @stream: the stream that gets it
 * @event: the event that @stream is ordered after, and other streams may not be; NULL: none
 *
 * The rest of the first and the last region stays what it is.
 *
 * Return: the region.
 */
struct region *region_take(struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
			   struct event *event);

/**
 * region_find_malloc() - the allocation that starts at an address
 * @map: the map
 * @addr: its exact start
 *
 * Return: the region, or NULL.
 */
struct region *region_find_malloc(struct region_map *map, uint64_t addr);

/**
 * region_split() - split a region in two
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
 * region_cut() - limit a region to a size
 * @map: the map
 * @region: the region, which keeps the lower part
 * @size: bytes, more than 0 and no more than the region has
 *
 * Return: the upper part; NULL: the region was no larger.
 */
struct region *region_cut(struct region_map *map, struct region *region, size_t size);

/**
 * region_join() - undo region_split() of an allocated region
 * @map: the map
 * @region: the region, which keeps its stream and event
 * @upper: the allocated region directly behind it, gone afterwards
 */
void region_join(struct region_map *map, struct region *region, struct region *upper);

/**
 * region_set_unmapped() - make a region a hole, after its memory was unmapped
 * @map: the map
 * @region: the region
 *
 * Return: the region, merged with adjacent holes.
 */
struct region *region_set_unmapped(struct region_map *map, struct region *region);

/**
 * region_set_free() - make a region free
 * @map: the map
 * @region: the region
 * @stream: the stream that had it last; NULL: none
 * @event: the point in the stream after which it is free; NULL: it was never used
 *
 * Return: the region, merged with adjacent free regions of the same stream; it has the latest of their events. In a
 * map that keeps, with one stream only, all free memory is that stream's, so that merging does not depend on which
 * events are known to have passed; and if it is lazy, the region becomes loose instead.
 */
struct region *region_set_free(struct region_map *map, struct region *region, struct stream *stream,
			       struct event *event);

/**
 * region_share() - no stream is the only one any more: decides what is loose, and what has passed belongs to no stream
 * @map: the map
 */
void region_share(struct region_map *map);

/**
 * region_set_zombie() - make a region a zombie: its memory is in use at another mapping
 * @map: the map
 * @region: the region: free, or a hole that was mapped meanwhile; it keeps its stream and event
 *
 * Return: the region; in a map that keeps, merged with adjacent zombies whose events have passed.
 */
struct region *region_set_zombie(struct region_map *map, struct region *region);

/**
 * region_vacate() - make a part of a free region a zombie
 * @map: the map
 * @region: the region; its rest stays free
 * @addr: where the part starts
 * @size: bytes
 *
 * Return: the zombie, as of region_set_zombie().
 */
struct region *region_vacate(struct region_map *map, struct region *region, uint64_t addr, size_t size);

/**
 * region_set_begin() - replace the event that an allocated region is ordered after by a later one
 * @region: the region
 * @event: a point in its stream that is ordered after the earlier event
 */
void region_set_begin(struct region *region, struct event *event);

/**
 * region_set_stray() - make a hole a zombie, because the driver failed to unmap it
 * @map: the map
 * @region: the region, which is a hole; it is unmapped later
 */
void region_set_stray(struct region_map *map, struct region *region);

/**
 * region_reserve() - keep a hole for a growable block
 * @map: the map
 * @hole: the hole: nothing else is mapped there before region_unreserve()
 */
void region_reserve(struct region_map *map, struct region *hole);

/**
 * region_unreserve() - give up the address space that is reserved for one growable block
 * @map: the map
 * @region: the lowest reserved region; all that follow it without a gap are given up with it. NULL, or a region that is
 *	not reserved: the block takes up all of its address space
 */
void region_unreserve(struct region_map *map, struct region *region) __attribute__((cold));

/**
 * region_hand() - give an allocated region to another stream
 * @region: the region
 * @stream: the stream, which is ordered after all uses of the region
 * @event: a point in that stream behind those; NULL: no stream has to wait
 */
void region_hand(struct region *region, struct stream *stream, struct event *event);

/**
 * region_set_lost() - make the end of a growable block a zombie that is reserved for the block
 * @map: the map
 * @region: the end, split off
 * @stream: the stream that frees it
 * @event: the point in the stream after which it can be unmapped
 */
void region_set_lost(struct region_map *map, struct region *region, struct stream *stream, struct event *event);

/**
 * region_extend() - have an allocated region take in what is free behind it
 * @map: the map
 * @region: the region
 * @more: bytes, all free
 */
void region_extend(struct region_map *map, struct region *region, size_t more);

/**
 * region_merges() - whether a free region may merge with a free neighbour
 * @map: their map
 * @region: the region
 * @stream: the stream of the neighbour; NULL: none
 * @event: the event of the neighbour; NULL: none
 *
 * Memory that several streams used merges only where they are the same streams, and one event covers the other.
 */
bool region_merges(const struct region_map *map, const struct region *region, const struct stream *stream,
		   const struct event *event);

/**
 * region_pass() - the event of a region has passed; the callback of stream_map_init()
 * @guarded: the region, which the event no longer links; or which waits for a joined event with one part pending
 *
 * In a map that keeps, the region may have merged with its neighbours afterwards.
 */
void region_pass(void *guarded);

#endif /* REGION_H */
