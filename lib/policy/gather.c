// SPDX-License-Identifier: LGPL-2.1-or-later
/* Carries out a gathering: waits, creates, maps, and undoes all of it if a call fails. */
#include <errno.h>
#include <inttypes.h>

#include "core/account.h"
#include "core/alias.h"
#include "core/allocation.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/gather.h"
#include "policy/policy.h"
#include "policy/state.h"
#include "policy/trim.h"
#include "policy/tuning.h"
#include "util/error.h"

/* The largest hole, so that the block has room to grow behind it; NULL if it is too small. */
static struct region *find_gather_hole(struct region_map *regions, size_t bytes)
{
	struct region *hole = region_find_largest_unmapped(regions);

	return hole && hole->size >= bytes ? hole : NULL;
}

/* Makes a hole: reserves address space, or else unmaps unused old mappings. */
static int make_gather_hole(struct core *core, size_t bytes, struct region **hole, struct chunk **chunk)
{
	struct region_map *regions = &core->regions;
	struct error_kept kept;
	int err = -ENOMEM;

	error_keep(&kept);
	if (regions->chunks->len < (guint)tuning_chunks_most)
		err = chunk_add(core, regions, bytes, hole);
	if (!err)
		*chunk = (*hole)->chunk;
	if (err != -ENOMEM)
		return err;
	error_restore(&kept);
	err = alias_trim(core);
	return err ? err : chunk_find(core, regions, bytes, hole, chunk);
}

/* Decides where the new part of the block is mapped; *@chunk receives the chunk that was reserved for it, or NULL. */
static int gather_place(struct gathering *g, size_t bytes, struct chunk **chunk)
{
	size_t page = g->core->settings.page_size, gap;
	struct region *hole;
	int err;

	*chunk = NULL;
	if (g->base_size || g->fixed) {
		g->addr = g->hole->addr;
		return 0;
	}
	if (!g->core->regions.keeps) {
		err = chunk_find(g->core, &g->core->regions, bytes, &hole, chunk);
		g->addr = err ? 0 : hole->addr;
		return err;
	}
	hole = find_gather_hole(&g->core->regions, bytes);
	err = hole ? 0 : make_gather_hole(g->core, bytes, &hole, chunk);
	if (err)
		return err;
	gap = hole->prev ? MIN((size_t)tuning_gap * bytes, hole->size / (size_t)tuning_gap_part / page * page) : 0;
	g->addr = hole->addr + (hole->size - gap >= bytes ? gap : 0);
	return 0;
}

/* Bytes of the new memory that the pool holds over the peak, and over VPMM_OVERLAP, because as much is pinned. */
static size_t bytes_over(const struct gathering *g)
{
	uint64_t most = growth_most(g->core, g->size), mapped = core_mapped(g->core), over;

	over = mapped > most ? mapped - most : 0;
	return MIN(MIN(over, g->create), g->core->extents.stuck_bytes);
}

static void gather_say(struct gathering *g, uint64_t addr)
{
	struct core *core = g->core;
	size_t over = bytes_over(g);

	if (over)
		log_add(&core->log, VPMM_LOG_INFO, "created %zu bytes for stream %" PRIu64 ", %zu of them as %" PRIu64
			" of %" PRIu64 " free bytes are pinned by allocations in the same extents", g->create,
			g->stream->id, over, core->extents.stuck_bytes, core_mapped(core) - core_live(core));
	else if (g->create)
		log_add(&core->log, VPMM_LOG_INFO, "created %zu bytes for stream %" PRIu64,
			g->create, g->stream->id);
	if (log_wants(&core->log, VPMM_LOG_DEBUG))
		layout_say(core, region_at(&core->regions, addr)->chunk, "gathered", g->size, g->stream);
}

static void gather_count(struct gathering *g)
{
	struct counts *counts = &g->core->counts;

	counts_add_remapped(counts, gather_remapped(g));
	if (g->create) {
		counts_add_grown(counts, g->create);
		counts->stranded += bytes_over(g);
	}
}

/* Old mappings: their memory is still free elsewhere until alias_claim() makes it free here instead. */
static void add_zombie(struct region_map *regions, uint64_t addr, size_t bytes)
{
	if (bytes)
		region_set_zombie(regions, region_isolate(regions, addr, bytes));
}

/* Pages that a stream is ordered after are its own. */
static void own_pages(struct gathering *g, uint64_t start, size_t bytes)
{
	struct region_map *regions = &g->core->regions;

	bytes = MIN(bytes, g->size);
	if (!regions->keeps && bytes)
		region_set_free(regions, region_isolate(regions, start, bytes), g->stream, g->order->own);
}

/* Updates the region maps for what was mapped, in order: tail, donors, new memory, head. Nothing here can fail. */
static uint64_t gather_commit(struct gathering *g)
{
	struct core *core = g->core;
	struct region_map *regions = &core->regions;
	const struct chunk *chunk = region_at(regions, g->addr)->chunk;
	uint64_t addr = g->addr, start = g->base_size ? g->base : addr;
	size_t moved = gather_moved(g), tail = g->tail.extent ? g->tail.extent->size : 0;

	add_zombie(regions, addr, tail + moved);
	if (tail) {
		start += g->tail.from;
		alias_claim(core, start, part_size(&g->tail));
		addr += tail;
	}
	alias_claim(core, addr, moved);
	own_pages(g, start, g->base_size + moved);
	layout_say(core, chunk, "moved", moved, g->stream);
	addr += moved;
	if (g->create)
		region_set_free(regions, region_isolate(regions, addr, g->create), NULL, NULL)->fresh = !regions->keeps;
	layout_say(core, chunk, "created", g->create, g->stream);
	if (g->head.extent) {
		add_zombie(regions, addr + g->create, g->head.extent->size);
		alias_claim(core, addr + g->create, part_size(&g->head));
	}
	own_pages(g, start, g->size);
	return start;
}

/* Collects the extents of the new part, in order, and creates what is missing. */
static int gather_memory(struct gathering *g, GPtrArray *extents)
{
	struct extent_map *map = &g->core->extents;
	size_t last = gather_last(g);
	int err;

	/* Ask once for everything, so that nothing is created if any of it cannot be. */
	err = extent_judge(map, g->create, MIN(gather_extent_size(g), g->create - last));
	if (err)
		return err;
	if (g->tail.extent)
		g_ptr_array_add(extents, g->tail.extent);
	for (guint i = 0; i < g->donors->len; i++)
		g_ptr_array_add(extents, g->donors->pdata[i]);
	err = extent_create(map, g->create - last, gather_extent_size(g), true, extents);
	if (!err)
		err = extent_create(map, last, last, true, extents);
	if (!err && g->head.extent)
		g_ptr_array_add(extents, g->head.extent);
	return err;
}

/* Adds the events of the used part of an extent; returns the bytes that are still missing. */
static size_t order_part(struct gathering *g, const struct extent *extent, size_t from, size_t to, size_t missing)
{
	size_t used = MIN(to - from, missing);

	if (extent)
		alias_order(g->core, extent, from, from + used, g->order);
	return missing - used;
}

void gather_order(struct gathering *g)
{
	struct core *core = g->core;
	size_t missing = g->size - g->base_size;

	if (g->base_size)
		order_add_range(g->order, &core->regions, g->base, g->base_size);
	missing = order_part(g, g->tail.extent, g->tail.from, g->tail.to, missing);
	for (guint i = 0; i < g->donors->len; i++)
		missing = order_part(g, g->donors->pdata[i], 0, ((struct extent *)g->donors->pdata[i])->size, missing);
	missing -= MIN(missing, g->create);
	order_part(g, g->head.extent, g->head.from, g->head.to, missing);
	alias_order_sole(core, g->order);
}

static int gather_map(struct gathering *g, uint64_t *addr)
{
	GPtrArray *extents = g_ptr_array_new();
	size_t bytes = gather_bytes(g);
	struct chunk *added;
	int err;

	err = gather_place(g, bytes, &added);
	if (err)
		goto out;
	err = gather_memory(g, extents);
	if (!err)
		err = chunk_map(g->core, &g->core->regions, g->addr, extents);
	if (err)
		goto err_drop;
	*addr = gather_commit(g);
	gather_count(g);
	gather_say(g, *addr);
	account_note_taken(g->core);
	goto out;

err_drop:
	chunk_drop(g->core, added);
out:
	g_ptr_array_free(extents, TRUE);
	return err;
}

/* New memory takes the place of these extents. */
static int release_renewed(struct gathering *g)
{
	int err = 0;

	for (guint i = 0; g->renewed && i < g->renewed->len && !err; i++)
		err = trim_extent(g->core, g->renewed->pdata[i]);
	if (g->renewed)
		g_ptr_array_set_size(g->renewed, 0);
	return err;
}

int gather_carry_out(struct gathering *g, struct CUstream_st *handle, uint64_t *addr)
{
	int err;

	lock_assert_held(&g->core->lock);
	gather_note_gaps(g);
	/* A failure here leaves nothing to undo. */
	err = live_wait(g->core, g->order, handle);
	if (!err)
		err = release_renewed(g);
	return err ? err : gather_map(g, addr);
}
