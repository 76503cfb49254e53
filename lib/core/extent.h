/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Physical memory: what the pool has created, and where it is mapped. This is the only room that creates, maps, unmaps
 * and releases, so it counts and times those calls. All of it is under the lock of the pool.
 */
#ifndef EXTENT_H
#define EXTENT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/assume.h"

struct backend;
struct backend_event;
struct extent;

/**
 * struct place - where an extent is mapped, or was until its memory moved
 * @addr: where it starts
 * @extent: the extent
 * @next: the next older place of the same extent
 */
struct place {
	uint64_t addr;
	struct extent *extent;
	struct place *next;
};

/**
 * struct extent - one handle, the smallest thing that can move
 * @size: bytes, a whole number of pages
 * @handle: the driver's
 * @places: where it is mapped, the newest first
 * @home: the place where its bytes are allocated or free, all of them unless @split
 * @live: bytes of it that are allocated, at whatever place
 * @counts: whether @live is kept, and so whether it may move
 * @split: its free bytes may be free at more than one place
 * @owners: which streams had its bytes last, as owner.h has it; NULL: none
 * @stamp: when it was looked at last, in a count of the map's
 * @all: links it into the map's extents from the first place on
 * @whole: links it into the map's whole extents while nothing of it is allocated
 * @same_size: the extents of its size, from the first place on
 * @alike: links it into the whole ones of them
 */
struct extent {
	size_t size;
	uint64_t handle;
	struct place *places;
	struct place *home;
	size_t live;
	bool counts;
	bool split;
	GTree *owners;
	uint64_t stamp;
	GList all;
	GList whole;
	struct extent_size *same_size;
	GList alike;
};

/* The extents of one size. */
struct extent_size {
	size_t size;
	guint extents;
	GQueue whole;			/* nothing of them is allocated; the longest free comes first */
};

/* Places are found by page. A table with an entry a page would be most of the price of a large extent. */
#define EXTENT_BLOCK 512

struct extent_block {
	uint64_t number;
	unsigned int used;
	struct place *places[EXTENT_BLOCK];
};

/* How many blocks of pages are found without the table: of a pool of so many GiB, nearly all. */
#define EXTENT_NEAR 64

/* Driver calls, and the nanoseconds spent in them. */
struct extent_calls {
	uint64_t creates;
	uint64_t maps;
	uint64_t accesses;
	uint64_t unmaps;
	uint64_t releases;
	uint64_t ns;
};

/**
 * struct extent_map - all extents of a pool
 * @backend: the device
 * @page_size: what extents are multiples of
 * @page_shift: its binary logarithm; 0: it has none
 * @active: number of a block of pages to the places of its pages
 * @near: blocks that were found last, each where its number says; or NULL
 * @stray: extents that are mapped nowhere, and that the driver did not take back when asked to; it is asked again
 * @all: extents that are mapped, or were until the pool goes
 * @whole: extents of which nothing is allocated, of those that count
 * @whole_bytes: bytes of them
 * @sizes: size to struct extent_size
 * @stuck_bytes: bytes that are free in extents of which something is allocated
 * @bytes: bytes of all extents
 * @held: the same with those that have no place yet, and those that the driver did not take back
 * @limit: bytes that may be held, with what is taken apart; UINT64_MAX: as many as there are
 * @apart: bytes that are taken for the pool without the map, and count as well
 * @given_back: bytes of extents that were dropped
 * @places: how many places they have
 * @stamp: counts what looks at extents one by one
 * @calls: what was asked of the driver
 */
struct extent_map {
	struct backend *backend;
	size_t page_size;
	unsigned int page_shift;
	GHashTable *active;
	struct extent_block *near[EXTENT_NEAR];
	GPtrArray *stray;
	GQueue all;
	GQueue whole;
	uint64_t whole_bytes;
	GTree *sizes;
	uint64_t stuck_bytes;
	uint64_t bytes;
	uint64_t held;
	uint64_t limit;
	uint64_t apart;
	uint64_t given_back;
	uint64_t places;
	uint64_t stamp;
	struct extent_calls calls;
};

void extent_map_init(struct extent_map *map, struct backend *backend, size_t page_size);

/**
 * extent_map_clear() - release every extent
 * @map: the map; nothing is mapped any more
 */
void extent_map_clear(struct extent_map *map);

/* Whether nothing of an extent is allocated, and all of it is free at its home. */
static inline bool extent_is_whole(const struct extent *extent)
{
	return extent->counts && !extent->live && !extent->split;
}

/**
 * extent_size_upto() - the largest size, up to a limit, that the pool has extents of
 * @map: the map
 * @limit: bytes
 *
 * Return: the node of a struct extent_size in the order of the sizes, or NULL.
 */
GTreeNode *extent_size_upto(struct extent_map *map, size_t limit);

/**
 * extent_size_from() - the smallest size, from a limit on, that the pool has extents of
 * @map: the map
 * @limit: bytes
 *
 * Return: as of extent_size_upto().
 */
GTreeNode *extent_size_from(struct extent_map *map, size_t limit);

/**
 * extent_create() - create device memory, mapped nowhere yet
 * @map: the map; extent_judge() has allowed it
 * @size: bytes, a multiple of the page size
 * @piece: bytes of an extent, likewise; the last may have fewer
 * @counts: whether what is allocated of them is to be counted, by extent_add_live()
 * @extents: receives the extents, of struct extent, added at the end
 *
 * Return: 0, or what the backend's create returns; @extents is as before then.
 */
int extent_create(struct extent_map *map, size_t size, size_t piece, bool counts, GPtrArray *extents);

/**
 * extent_retry_stray() - ask the driver again to take back what it would not
 * @map: the map
 */
void extent_retry_stray(struct extent_map *map);

/**
 * extent_release() - release extents that were created and have no place; never fails
 * @map: the map
 * @extents: of struct extent
 * @first: index of the first of them; the rest are released and removed from the array
 */
void extent_release(struct extent_map *map, GPtrArray *extents, guint first);

/**
 * extent_block() - look a block of pages up in the table, so that it is near afterwards
 * @map: the map
 * @number: its number
 *
 * Return: the block; NULL: nothing is mapped there.
 */
struct extent_block *extent_block(struct extent_map *map, uint64_t number);

/**
 * extent_place() - what is mapped at an address
 * @map: the map
 * @addr: the address
 *
 * Return: the place that the address lies in, or NULL.
 */
struct place *extent_place(struct extent_map *map, uint64_t addr);

/* A number of a page; nearly always a shift, as a division takes a while. */
static inline uint64_t extent_page(const struct extent_map *map, uint64_t addr)
{
	return map->page_shift ? addr >> map->page_shift : addr / map->page_size;
}

/* The block that a page is in, or NULL; nearly always one that is near. */
static inline struct extent_block *extent_block_of(struct extent_map *map, uint64_t page)
{
	uint64_t number = page / EXTENT_BLOCK;
	struct extent_block *block = map->near[number % EXTENT_NEAR];

	return G_LIKELY(block && block->number == number) ? block : extent_block(map, number);
}

/**
 * extent_place_mapped() - the same of an address where something is mapped, as the caller knows
 * @map: the map
 * @addr: the address
 *
 * Return: the place.
 */
static inline struct place *extent_place_mapped(struct extent_map *map, uint64_t addr)
{
	uint64_t page = extent_page(map, addr);
	struct extent_block *block = extent_block_of(map, page);
	struct place *place;

	assume(block);
	place = block->places[page % EXTENT_BLOCK];
	assume(place);
	return place;
}

/**
 * extent_collect() - the extents that are mapped in a range
 * @map: the map
 * @addr: where it starts
 * @size: bytes; extents lie there one after another, each of them whole
 * @extents: receives them in the order of their addresses, added at the end
 */
void extent_collect(struct extent_map *map, uint64_t addr, size_t size, GPtrArray *extents);

/**
 * extent_add_live() - something was allocated
 * @map: the map
 * @addr: where it starts
 * @size: bytes, all mapped to extents that count
 */
void extent_add_live(struct extent_map *map, uint64_t addr, size_t size);

/**
 * extent_sub_live() - something that was allocated no longer is
 * @map: the map
 * @addr: where it starts
 * @size: bytes, as given to extent_add_live()
 *
 * Return: whether an extent is whole now whose free bytes may be free at more than one place.
 */
bool extent_sub_live(struct extent_map *map, uint64_t addr, size_t size);

/**
 * extent_map_at() - map extents one after another, readable and writable
 * @map: the map
 * @addr: where the first goes
 * @extents: of struct extent
 * @left: receives, when this fails, how many bytes at @addr are mapped all the same, as undoing it failed too
 *
 * They stay mapped where they were; the new places count from extent_settle() on.
 *
 * Return: 0, or what the backend's map and access return.
 */
int extent_map_at(struct extent_map *map, uint64_t addr, GPtrArray *extents, size_t *left);

/**
 * extent_settle() - let the places where extents were mapped last be places of theirs
 * @map: the map
 * @addr: as given to extent_map_at()
 * @extents: likewise
 */
void extent_settle(struct extent_map *map, uint64_t addr, GPtrArray *extents);

/**
 * extent_unmap() - unmap a range, and forget the places in it
 * @map: the map
 * @addr: where it starts
 * @size: bytes; whole places, or parts where nothing is mapped
 * @guard: the event that must have passed; NULL: none
 *
 * Return: 0, or what the backend's unmap returns.
 */
int extent_unmap(struct extent_map *map, uint64_t addr, size_t size, struct backend_event *guard);

/**
 * extent_room() - what may be taken before the limit is reached
 * @map: the map
 *
 * Return: bytes; UINT64_MAX: there is no limit.
 */
uint64_t extent_room(const struct extent_map *map);

/**
 * extent_judge_limit() - whether the limit allows more to be taken
 * @map: the map
 * @size: bytes
 *
 * Before the answer is no, the driver is asked again for what it did not take back.
 *
 * Return: 0 or -ENOMEM.
 */
int extent_judge_limit(struct extent_map *map, size_t size);

/**
 * extent_judge() - whether the limit and the device allow extents to be created
 * @map: the map
 * @size: bytes of all of them
 * @first: bytes of the first; the device is asked where others follow it, or where it is very large
 *
 * To be called before extent_create(), once for all that a request creates, so that one that cannot be served creates
 * nothing. The answer holds until others take memory of the device.
 *
 * Return: 0, -ENOMEM, or what the backend's info returns.
 */
int extent_judge(struct extent_map *map, size_t size, size_t first);

/**
 * extent_drop() - unmap an extent, and release it
 * @map: the map
 * @extent: the extent, mapped at one place, with nothing allocated of it and nobody working through it
 *
 * What the driver does not release is tried again before more is created.
 *
 * Return: 0, or what the backend's unmap returns; nothing has changed then.
 */
int extent_drop(struct extent_map *map, struct extent *extent);

#endif /* EXTENT_H */
