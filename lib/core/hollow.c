// SPDX-License-Identifier: LGPL-2.1-or-later
/* Takes the memory from under a pool's mappings, and puts it back: each undone if a later call fails. */
#include <errno.h>

#include "backend/backend.h"
#include "core/account.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/extent.h"
#include "core/hollow.h"
#include "util/bound.h"
#include "util/error.h"

/* What the driver has in a run of mappings. */
enum run_state {
	RUN_GONE,			/* nothing */
	RUN_MAPPED,			/* all of it */
	RUN_UNSURE			/* perhaps a part, as undoing has failed */
};

/* Mappings that follow one another, in one chunk. */
struct run {
	uint64_t addr;
	uint64_t size;
	enum run_state state;
};

#define for_each_run(run, runs) \
	for (struct run *run = (struct run *)(void *)(runs)->data, *end_ = run + (runs)->len; run < end_; run++)

static void add_run(GArray *runs, uint64_t addr, uint64_t size, enum run_state state)
{
	struct run run = { .addr = addr, .size = size, .state = state };

	if (size)
		g_array_append_val(runs, run);
}

struct collected {
	enum run_state state;
	GArray *runs;
};

/* The mappings from @addr to below @end, between which there may be pages that have none. */
static void collect_stretch(struct core *core, uint64_t addr, uint64_t end, void *data)
{
	const struct collected *to = data;
	uint64_t start = addr;

	while (addr < end) {
		const struct place *place = extent_place(&core->extents, addr);

		if (place) {
			addr += place->extent->size;
			continue;
		}
		add_run(to->runs, start, addr - start, to->state);
		addr += core->extents.page_size;
		start = addr;
	}
	add_run(to->runs, start, addr - start, to->state);
}

static GArray *collect_runs(struct core *core, enum run_state state)
{
	/* With room for one, as an empty array may have no address that a loop could begin at. */
	struct collected to = { state, g_array_sized_new(FALSE, FALSE, sizeof(struct run), 1) };

	chunk_each_mapped(core, &core->regions, collect_stretch, &to);
	chunk_each_mapped(core, &core->spans, collect_stretch, &to);
	return to.runs;
}

static int unmap_run(struct extent_map *map, struct run *run)
{
	int err;

	err = TIMED(map, unmaps, unmap, run->addr, run->size, NULL);
	if (!err)
		run->state = RUN_GONE;
	return err;
}

static int map_places(struct extent_map *map, struct run *run)
{
	uint64_t addr = run->addr, end = addr + run->size;
	int err = 0;

	while (addr < end && !err) {
		const struct extent *extent = extent_place_mapped(map, addr)->extent;

		err = TIMED(map, maps, map, addr, extent->size, extent->handle);
		run->state = RUN_UNSURE;
		addr += extent->size;
	}
	return err;
}

static int map_run(struct extent_map *map, struct run *run)
{
	int err = 0;

	if (run->state == RUN_UNSURE)
		err = unmap_run(map, run);
	if (!err && run->state == RUN_GONE)
		err = map_places(map, run);
	/* What is mapped already may have other peers by now. */
	if (!err)
		err = TIMED(map, accesses, access, run->addr, run->size);
	if (!err)
		run->state = RUN_MAPPED;
	return err;
}

/* Undoing makes each call once more if it fails, as nobody else will. */
static bool map_again(struct extent_map *map, struct run *run)
{
	return !map_run(map, run) || !map_run(map, run);
}

static bool unmap_run_at_last(struct extent_map *map, struct run *run)
{
	return run->state == RUN_GONE || !unmap_run(map, run) || !unmap_run(map, run);
}

static void release(struct extent_map *map, struct extent *extent)
{
	if (!extent->handle)
		return;
	if (TIMED(map, releases, release, extent->handle))
		g_ptr_array_add(map->stray, extent_new(extent->size, extent->handle));
	else
		extent_count_held(map, -(int64_t)extent->size);
	map->given_back += extent->size;
	extent->handle = 0;
}

static void release_all(struct extent_map *map)
{
	for (GList *link = map->all.head; link; link = link->next)
		release(map, link->data);
}

int hollow_out(struct core *core)
{
	struct extent_map *map = &core->extents;
	GArray *runs = collect_runs(core, RUN_MAPPED);
	struct error_kept kept;
	bool undone = true;
	int err = 0;

	lock_assert_held(&core->lock);
	for_each_run(run, runs) {
		extent_tell(map, run->addr, run->size);
		err = unmap_run(map, run);
		if (err)
			break;
	}
	error_keep(&kept);
	if (err) {
		for_each_run(run, runs)
			undone &= run->state == RUN_MAPPED || map_again(map, run);
	} else {
		release_all(map);
	}
	error_restore(&kept);
	if (err && undone) {
		for_each_run(run, runs)
			extent_tell_back(map, run->addr, run->size);
		g_array_free(runs, TRUE);
		return err;
	}
	map->hollow = runs;
	map->hollow_full = err;
	return err;
}

static bool is_unmapped(const GArray *runs)
{
	for_each_run(run, runs) {
		if (run->state != RUN_GONE)
			return false;
	}
	return true;
}

bool hollow_is_complete(const struct core *core)
{
	const struct extent_map *map = &core->extents;

	return map->hollow && !map->hollow_full && is_unmapped(map->hollow);
}

/* Extents may have been dropped since. */
static void collect_again(struct core *core)
{
	if (!hollow_is_complete(core))
		return;
	g_array_free(core->extents.hollow, TRUE);
	core->extents.hollow = collect_runs(core, RUN_GONE);
}

static int judge_hollow(struct extent_map *map)
{
	size_t size = 0, first = 0;

	for (GList *link = map->all.head; link; link = link->next) {
		const struct extent *extent = link->data;

		first = first ? first : extent->size;
		size += extent->handle ? 0 : extent->size;
	}
	return size ? extent_judge(map, size, first) : 0;
}

static int create_all(struct extent_map *map)
{
	int err = 0;

	for (GList *link = map->all.head; link && !err; link = link->next) {
		struct extent *extent = link->data;

		if (extent->handle)
			continue;
		err = extent_create_handle(map, extent->size, &extent->handle);
		/* No stream has had memory that is new from the device. */
		g_clear_pointer(&extent->owners, g_tree_unref);
	}
	return err;
}

/*
 * The largest that is made of others: it goes back to the device only as a whole. The driver takes some 100 us for each
 * to unmap and release it, and as long to give access; five recorded programs that are paused three times take 1.0056
 * of their peak with 256 MiB and 1.0054 with 64.
 */
#define JOINED ((size_t)256 << 20)

/* So many make up a pool, so that what a few blocks of it leave free can go back or move. */
#define JOINED_PARTS BOUND(128, 1)

struct joined {
	struct extent *last;
	size_t most;
};

/*
 * Whether two extents without memory, each with one mapping and allocations that count, can become one. With one
 * mapping an extent has all that is free of it there, split or not.
 */
static bool extent_can_join(const struct extent *low, const struct extent *high)
{
	return low && !low->handle && !high->handle && low->counts && high->counts && low->live && high->live &&
	       !low->places->next && !high->places->next && low->places->addr + low->size == high->places->addr;
}

/* Whether a growable block starts or ends at an address. It loses whole extents, so it has none with another block. */
static bool ends_growable(struct core *core, uint64_t addr)
{
	const struct region *region = core->regions.growables ? region_around(&core->regions, addr) : NULL;

	return region && region->addr == addr && (region->max || (region->prev && region->prev->max));
}

static void join_stretch(struct core *core, uint64_t addr, uint64_t end, void *data)
{
	struct extent_map *map = &core->extents;
	struct joined *joined = data;

	while (addr < end) {
		struct place *place = extent_place(map, addr);
		struct extent *extent;

		if (!place) {
			joined->last = NULL;
			addr += map->page_size;
			continue;
		}
		extent = place->extent;
		addr = place->addr + extent->size;
		if (joined->last && extent_can_join(joined->last, extent) && !ends_growable(core, place->addr) &&
		    joined->last->size + extent->size <= joined->most)
			extent_join(map, joined->last, extent);
		else
			joined->last = extent;
	}
}

/* As no memory is there, it need not come back in the pieces that it was. Larger ones take fewer driver calls. */
static void join_extents(struct core *core)
{
	struct joined joined = {
		.most = MIN(MIN(JOINED, core->extents.bytes / JOINED_PARTS), core->settings.extent_max),
	};

	if (hollow_is_complete(core))
		chunk_each_mapped(core, &core->regions, join_stretch, &joined);
}

int hollow_fill(struct core *core)
{
	struct extent_map *map = &core->extents;
	int err;

	lock_assert_held(&core->lock);
	collect_again(core);
	join_extents(core);
	err = judge_hollow(map);
	if (!err)
		err = create_all(map);
	if (!err) {
		for_each_run(run, map->hollow) {
			err = map_run(map, run);
			if (err)
				break;
		}
	}
	if (err)
		hollow_empty(core);
	return err;
}

void hollow_empty(struct core *core)
{
	struct extent_map *map = &core->extents;
	struct error_kept kept;
	bool gone = true;

	lock_assert_held(&core->lock);
	error_keep(&kept);
	for_each_run(run, map->hollow)
		gone &= unmap_run_at_last(map, run);
	if (gone && !map->hollow_full)
		release_all(map);
	error_restore(&kept);
}

void hollow_end(struct core *core)
{
	struct extent_map *map = &core->extents;

	lock_assert_held(&core->lock);
	for_each_run(run, map->hollow)
		extent_tell_back(map, run->addr, run->size);
	g_array_free(map->hollow, TRUE);
	map->hollow = NULL;
	map->hollow_full = false;
	account_note_taken(core);
}
