/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Physical memory: the extents of a pool and their mappings. Only this file creates, maps, unmaps and releases device
 * memory, so it counts and times those calls; shareable.c does the same for blocks that other processes can map, and
 * hollow.c for a pool that gives its memory away for a while. All of it is under core.lock.
 */
#ifndef EXTENT_H
#define EXTENT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "budget/budget.h"
#include "core/ready.h"
#include "util/assume.h"
#include "util/bound.h"
#include "util/circle.h"
#include "util/clock.h"
#include "util/line.h"

struct backend;
struct backend_event;
struct extent;

/**
 * struct place - one mapping of an extent: a cache line
 * @addr: where it starts
 * @extent: the extent
 * @number: no other mapping of the process had or has it; later ones have greater ones
 * @next: the next older mapping of the same extent
 * @above: the mapping that starts where it ends; NULL: there is none
 * @used: its link in the map's @by_use
 */
struct place {
	uint64_t addr;
	struct extent *extent;
	uint64_t number;
	struct place *next;
	struct place *above;
	GList used;
};

/**
 * struct extent - one allocation handle of the driver, the smallest unit that can be remapped
 * @size: bytes, a whole number of pages
 * @live: allocated bytes of it, at all mappings; all of a slab, so that it never counts as whole
 * @home: the mapping where its bytes are allocated or free; all of them, unless @split
 * @stamp: the last walk that visited it, by the map's @stamp
 * @counts: whether @live is kept; only then can it be remapped
 * @split: its free bytes may be free at several mappings
 * @coarse: it is allocated in part to a block that called for a much smaller extent
 * @here: what the last walk visited of it is free at that mapping as it is, see alias.c
 * @late: its link in the map's @late
 * @handle: the driver's handle
 * @places: its mappings, the newest first
 * @owners: which streams had its bytes last, see owner.h; NULL: none
 * @all: its link in the map's @all, from the first mapping on
 * @whole: its link in the map's @whole, while nothing of it is allocated
 * @ready: the same in the map's @ready
 * @same_size: the extents of its size, from the first mapping on
 * @alike: its link in @same_size's whole extents
 */
struct extent {
	/* A cache line for those that walk over mappings: */
	size_t size;
	size_t live;
	struct place *home;
	uint64_t stamp;
	bool counts;
	bool split;
	bool coarse;
	bool here;
	GList late;

	uint64_t handle;
	struct place *places;
	GTree *owners;
	GList all;
	GList whole;
	struct ready_extent ready;
	struct extent_size *same_size;
	GList alike;
};

/* The extents of one size. */
struct extent_size {
	size_t size;
	guint extents;
	GQueue whole;			/* those without allocations, the longest free first */
};

/*
 * Mappings are looked up by page, in blocks of this many pages: a hash entry for each page would dominate the cost of
 * a large extent.
 */
#define EXTENT_BLOCK BOUND(512, 4)

struct extent_block {
	uint64_t number;
	unsigned int used;
	struct place *places[EXTENT_BLOCK];
};

/* A direct-mapped cache in front of the hash table, enough for nearly all of a pool of this many GiB. */
#define EXTENT_NEAR BOUND(64, 2)

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
 * @exportable: their handles can be exported
 * @page_size: what extents are multiples of
 * @page_shift: its binary logarithm; 0: it is no power of two
 * @active: block number to struct extent_block
 * @near: the blocks that were looked up last, by number; or NULL
 * @stray: unmapped extents that the driver failed to release, to be tried again; of struct extent
 * @all: extents with a mapping
 * @late: extents that became whole since extent_update_whole(), in that order. They are in no other list of whole ones:
 *	a program that repeats itself is given the addresses that it had before, and nobody reads those
 * @whole: extents without allocations, of those that count; the longest free first
 * @whole_bytes: bytes of those
 * @ready: which of those a stream need not wait for
 * @sizes: size to struct extent_size
 * @stuck_bytes: pinned bytes: free, in extents with an allocation
 * @coarse_bytes: bytes of extents that are @coarse
 * @bytes: bytes of @all
 * @held: bytes of all handles, unmapped and stray ones included
 * @limit: bytes that *@taken may reach; UINT64_MAX: no limit
 * @apart: bytes outside of the map that count towards the limit
 * @budget: what other processes' pools share with this one and its arenas; NULL: nothing
 * @part: what this map has of that
 * @own_taken: @held and @apart, of this map and of those whose @taken points here
 * @taken: what the limit bounds: @own_taken, or that of another map with which this one shares the limit. Atomic, as
 *	each is under the lock of its own pool
 * @own_held: @held of this map and of those whose @all_held points here
 * @all_held: @own_held, or that of another map: what VPMM_KEEP bounds. Atomic, as *@taken
 * @own_most: the most that @own_taken and the driver's small blocks were, as of account_note_taken(), since the peaks
 *	were last reset
 * @most: @own_most of this map or of the other
 * @given_back: bytes that were released to the device, @stray included
 * @by_use: all mappings, that first which was used before all others
 * @places: number of mappings
 * @stamp: number of the latest walk over extents
 * @calls: driver calls so far
 * @losing: is told of addresses that are about to lose their memory; NULL: nobody wants to know
 * @regained: is told of addresses that have memory again which vpmm_pause() took; NULL likewise
 * @told_data: passed to both
 * @hollow: see hollow.h: the memory of all mappings is away, and the driver knows nothing of them; NULL: it is there
 * @hollow_full: it is not mapped, but has its contents, so it is not released before it is mapped again
 */
struct extent_map {
	struct backend *backend;
	bool exportable;
	size_t page_size;
	unsigned int page_shift;
	GHashTable *active;
	struct extent_block *near[EXTENT_NEAR];
	GPtrArray *stray;
	GQueue all;
	GList late;
	GQueue whole;
	uint64_t whole_bytes;
	struct ready ready;
	GTree *sizes;
	uint64_t stuck_bytes;
	uint64_t coarse_bytes;
	uint64_t bytes;
	uint64_t held;
	uint64_t limit;
	uint64_t apart;
	struct budget *budget;
	struct budget_part part;
	_Atomic uint64_t own_taken;
	_Atomic uint64_t *taken;
	_Atomic uint64_t own_held;
	_Atomic uint64_t *all_held;
	_Atomic uint64_t own_most;
	_Atomic uint64_t *most;
	uint64_t given_back;
	GList by_use;
	uint64_t places;
	uint64_t stamp;
	struct extent_calls calls;
	void (*losing)(void *data, uint64_t addr, size_t size);
	void (*regained)(void *data, uint64_t addr, size_t size);
	void *told_data;
	GArray *hollow;
	bool hollow_full;
};

void extent_map_init(struct extent_map *map, struct backend *backend, size_t page_size);

/**
 * extent_map_clear() - release all extents
 * @map: the map; nothing is mapped any more
 */
void extent_map_clear(struct extent_map *map);

/* An extent without a mapping, for g_aligned_free(). */
static inline struct extent *extent_new(size_t size, uint64_t handle)
{
	struct extent *extent = line_alloc(sizeof(*extent), LINE_SIZE);

	extent->size = size;
	extent->handle = handle;
	return extent;
}

/**
 * extent_set_coarse() - note that a block calls for a much smaller extent than it is about to break
 * @map: the map
 * @extent: the extent; it stays coarse until it is whole again
 */
static inline void extent_set_coarse(struct extent_map *map, struct extent *extent)
{
	map->coarse_bytes += extent->coarse ? 0 : extent->size;
	extent->coarse = true;
}

/* All device memory of a pool that counts towards its limit and its budget, in bytes. */
static inline uint64_t extent_taken(const struct extent_map *map)
{
	return map->held + map->apart;
}

/* Whether an extent is free as a whole, at its home. */
static inline bool extent_is_whole(const struct extent *extent)
{
	return !extent->live && !extent->split;
}

/**
 * extent_size_upto() - the largest size of extent in the pool, up to a limit
 * @map: the map
 * @limit: bytes
 *
 * Return: the node of the struct extent_size in the tree of sizes, or NULL.
 */
GTreeNode *extent_size_upto(struct extent_map *map, size_t limit);

/**
 * extent_size_from() - the smallest size of extent in the pool, from a limit on
 * @map: the map
 * @limit: bytes
 *
 * Return: the node of the struct extent_size in the tree of sizes, or NULL.
 */
GTreeNode *extent_size_from(struct extent_map *map, size_t limit);

/**
 * extent_create() - create extents, not mapped yet
 * @map: the map; extent_judge() has approved
 * @size: bytes, a multiple of the page size
 * @piece: bytes of each extent, a multiple of the page size; the last may be smaller
 * @counts: whether extent_add_live() will count allocations in them: for all but slabs
 * @extents: receives the extents, of struct extent, at its end
 *
 * Return: 0, or what the backend's create returns; then extent_release() was called for @extents.
 */
int extent_create(struct extent_map *map, size_t size, size_t piece, bool counts, GPtrArray *extents);

/**
 * extent_count_held() - count bytes of handles that were created or released
 * @map: the map
 * @more: bytes; negative: fewer
 */
void extent_count_held(struct extent_map *map, int64_t more);

/**
 * extent_count_apart() - set @apart
 * @map: the map
 * @apart: bytes
 */
void extent_count_apart(struct extent_map *map, uint64_t apart);

/**
 * extent_judge_counted() - whether the limit holds with memory that is about to be created, and counts already
 * @map: the map; extent_judge() has approved
 * @size: bytes of it
 *
 * A pool counts memory before it creates it, as pools that share a limit do not hold one another's locks. Of two that
 * create at a time, at least one finds the memory of the other in the sum.
 *
 * Return: 0, or -ENOMEM, and the caller no longer counts the memory.
 */
int extent_judge_counted(const struct extent_map *map, size_t size);

/**
 * extent_create_handle() - create the memory of one extent, and count it
 * @map: the map
 * @size: bytes, a multiple of the page size
 * @handle: receives the handle
 *
 * Return: 0, -ENOMEM if another pool that shares the limit was faster, or what the backend's create returns.
 */
int extent_create_handle(struct extent_map *map, size_t size, uint64_t *handle);

/**
 * extent_retry_stray() - try again to release what the driver failed to release
 * @map: the map
 */
void extent_retry_stray(struct extent_map *map);

/**
 * extent_release() - release extents that were created and are not mapped after all; never fails
 * @map: the map
 * @extents: of struct extent; those without a mapping are released, and removed from the array
 */
void extent_release(struct extent_map *map, GPtrArray *extents);

/**
 * extent_block() - look a block up in the hash table, and cache it in @near
 * @map: the map
 * @number: its number
 *
 * Return: the block; NULL: nothing is mapped there.
 */
struct extent_block *extent_block(struct extent_map *map, uint64_t number) __attribute__((cold));

/**
 * extent_use() - note that a mapping has been used
 * @map: the map
 * @place: the mapping
 */
static inline void extent_use(struct extent_map *map, struct place *place)
{
	circle_remove(&place->used);
	circle_append(&map->by_use, &place->used);
}

/**
 * extent_place() - the mapping at an address
 * @map: the map
 * @addr: the address
 *
 * Return: the mapping, or NULL.
 */
struct place *extent_place(struct extent_map *map, uint64_t addr);

/* The number of a page: a shift if possible, as a division is slow. */
static inline uint64_t extent_page(const struct extent_map *map, uint64_t addr)
{
	return map->page_shift ? addr >> map->page_shift : addr / map->page_size;
}

/* The block of a page, or NULL; nearly always from the cache. */
static inline struct extent_block *extent_block_of(struct extent_map *map, uint64_t page)
{
	uint64_t number = page / EXTENT_BLOCK;
	struct extent_block *block = map->near[number % EXTENT_NEAR];

	return G_LIKELY(block && block->number == number) ? block : extent_block(map, number);
}

/**
 * extent_place_mapped() - the mapping at an address that is known to be mapped
 * @map: the map
 * @addr: the address
 *
 * Return: the mapping.
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
 * extent_collect() - list the extents that are mapped in a range
 * @map: the map
 * @addr: where it starts
 * @size: bytes; a whole number of mappings
 * @extents: receives them in the order of addresses, at its end
 */
void extent_collect(struct extent_map *map, uint64_t addr, size_t size, GPtrArray *extents);

/**
 * extent_map_at() - map extents one after another, readable and writable
 * @map: the map
 * @addr: address of the first
 * @extents: of struct extent
 * @left: receives, on error, how many bytes at @addr stay mapped because undoing failed too
 *
 * Their other mappings stay. The new ones count only after extent_add_places().
 *
 * Return: 0, or what the backend's map and access return.
 */
int extent_map_at(struct extent_map *map, uint64_t addr, GPtrArray *extents, size_t *left);

/**
 * extent_add_places() - enter the mappings that extent_map_at() has made
 * @map: the map
 * @addr: as given to extent_map_at()
 * @extents: as given to extent_map_at()
 */
void extent_add_places(struct extent_map *map, uint64_t addr, GPtrArray *extents);

/**
 * extent_tell() - tell that addresses are about to lose their memory
 * @map: the map
 * @addr: where they start
 * @size: bytes
 *
 * Before each unmap of what the program may have had. Returns when whoever wants to know has dealt with it.
 */
static inline void extent_tell(const struct extent_map *map, uint64_t addr, size_t size)
{
	if (map->losing)
		map->losing(map->told_data, addr, size);
}

/**
 * extent_tell_back() - tell that addresses have memory again, after extent_tell()
 * @map: the map
 * @addr: where they start
 * @size: bytes
 */
static inline void extent_tell_back(const struct extent_map *map, uint64_t addr, size_t size)
{
	if (map->regained)
		map->regained(map->told_data, addr, size);
}

/**
 * extent_unmap() - unmap a range, and forget its mappings
 * @map: the map
 * @addr: where it starts
 * @size: bytes; whole mappings, and gaps between them
 * @guard: the event that must have passed; NULL: none
 *
 * Tells of it first, also if it then fails.
 *
 * Return: 0, or what the backend's unmap returns.
 */
int extent_unmap(struct extent_map *map, uint64_t addr, size_t size, struct backend_event *guard);

/**
 * extent_room() - what the limit leaves
 * @map: the map
 *
 * Return: bytes; UINT64_MAX: no limit.
 */
uint64_t extent_room(const struct extent_map *map);

/**
 * extent_judge_limit() - whether the limit allows more memory
 * @map: the map
 * @size: bytes
 *
 * Before it fails, it tries again to release what the driver failed to release.
 *
 * Return: 0 or -ENOMEM.
 */
int extent_judge_limit(struct extent_map *map, size_t size);

/**
 * extent_judge() - whether the limit and the device allow extents to be created
 * @map: the map
 * @size: bytes of all of them
 * @first: bytes of the first of them; the device is asked only if there are more, or if the first is very large
 *
 * To be called once before the extent_create() calls of a request, so that a request that cannot be served creates
 * nothing. Another process can take the memory afterwards.
 *
 * Return: 0, -ENOMEM, or what the backend's info returns.
 */
int extent_judge(struct extent_map *map, size_t size, size_t first);

/**
 * extent_drop() - unmap and release an extent
 * @map: the map
 * @extent: the extent, with one mapping, without allocations, and with no pending work through the mapping
 *
 * An extent that the driver fails to release is tried again before more is created.
 *
 * Return: 0, or what the backend's unmap returns; nothing has changed then.
 */
int extent_drop(struct extent_map *map, struct extent *extent);

/**
 * extent_join() - let an extent have the addresses of another as well, which goes
 * @map: the map, which is hollow
 * @low: the extent, for which extent_can_join() is so
 * @high: the other
 */
void extent_join(struct extent_map *map, struct extent *low, struct extent *high);

/*
 * Performs the operation @op of struct backend_ops, for a GPU a function of cuda/, and adds it and its time to
 * @counter, for the statistics.
 */
#define TIMED(map, counter, op, ...) \
	({ \
		uint64_t start_ = clock_ns(); \
		int err_ = (map)->backend->ops->op((map)->backend, __VA_ARGS__); \
		(map)->calls.ns += clock_ns() - start_; \
		(map)->calls.counter++; \
		err_; \
	})

#endif /* EXTENT_H */
