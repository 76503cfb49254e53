// SPDX-License-Identifier: LGPL-2.1-or-later
/* Sets up a pool's core, and tears it down. */
#include <stddef.h>

#include "core/alias.h"
#include "core/cache-flush.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/hollow.h"
#include "core/shareable.h"
#include "core/small.h"
#include "trace/sampler.h"

/* A stream may leave this part of the device's memory uncovered: see cache.h. */
#define UNMARKED_PART (16 * 1024)

/* The cache of one stream may have this part of what a pool is to keep (VPMM_KEEP). */
#define CACHE_SHARE 16

/* Which of a stream's free sets is which map's. */
enum { SET_REGIONS, SET_SPANS };

/* The callback of stream_map_init(). */
static void core_pass(void *guarded)
{
	const struct region *region = guarded;
	struct region_map *map = region->chunk->map;
	struct core *core;

	if (map->set == SET_REGIONS && (region->kind == REGION_FREE || region->kind == REGION_LOOSE)) {
		core = (struct core *)((char *)map - offsetof(struct core, regions));
		extent_doubt(&core->extents, region->addr, region->size);
	}
	region_pass(guarded);
}

/* The other callback. */
static void core_share(struct stream_map *streams)
{
	struct core *core = (struct core *)((char *)streams - offsetof(struct core, streams));

	region_share(&core->regions);
	region_share(&core->spans);
}

void core_init(struct core *core, struct backend *backend, const struct backend_info *info,
	       const struct settings *settings)
{
	lock_init(&core->lock, LOCK_CORE);
	core->backend = backend;
	core->ops = backend->ops;
	core->place = backend->place;
	core->device = info->device;
	core->granularity = info->granularity;
	core->settings = *settings;
	core->direct = settings->cache && !settings->stacks;
	core->sampler = settings->stacks ? sampler_new(settings->stacks) : NULL;
	core->piece = settings->paged ? settings->page_size : CORE_PIECE;
	log_init(&core->log, settings->log_level, settings->log, settings->log_data);
	region_map_init(&core->regions, &core->streams, SET_REGIONS, !settings->paged);
	core->regions.ages = core->regions.keeps && settings->overlap;
	core->regions.lazy = core->regions.keeps;
	core->regions.free_run = alias_free_run;
	region_map_init(&core->spans, &core->streams, SET_SPANS, true);
	core->spans.ages = settings->overlap;
	core->spans.cell = REGION_CELL_SLABS;
	memo_init(&core->memo);
	memo_init(&core->routine);
	extent_map_init(&core->extents, backend, settings->page_size);
	account_init(&core->account);
	stream_map_init(&core->streams, backend, &core->account, info->memory_total / UNMARKED_PART, core_pass,
			core_share);
	core->flushed = g_new(struct freed, 2 * CACHE_BLOCKS_MAX);
	if (settings->keep < UINT64_MAX)
		core->streams.most_cached = settings->keep / CACHE_SHARE;
	core->extents.limit = settings->limit;
	core->extents.exportable = settings->export_as != VPMM_EXPORT_NONE;
	core->small = small_table_new();
	core->strays = g_ptr_array_new();
}

/* One unmap for each run, as no work is pending there; and twice, as no later call could try again. */
static void unmap_at_last(struct core *core, uint64_t addr, uint64_t end, void *data)
{
	if (extent_unmap(&core->extents, addr, end - addr, NULL))
		extent_unmap(&core->extents, addr, end - addr, NULL);
}

void core_unmap(struct core *core)
{
	/* What is left of it: then there is no mapping, and no handle. */
	core->extents.hollow_full = false;
	if (core->extents.hollow)
		hollow_empty(core);
	chunk_each_mapped(core, &core->regions, unmap_at_last, NULL);
	chunk_each_mapped(core, &core->spans, unmap_at_last, NULL);
}

void core_clear(struct core *core)
{
	address_end(&core->owner);
	shareable_clear(core);
	extent_map_clear(&core->extents);
	chunk_unreserve(core, &core->regions);
	chunk_unreserve(core, &core->spans);
	region_map_clear(&core->regions);
	region_map_clear(&core->spans);
	memo_clear(&core->memo);
	memo_clear(&core->routine);
	g_hash_table_destroy(core->small);
	stream_map_clear(&core->streams);
	g_clear_pointer(&core->flushed, g_free);
	account_clear(&core->account);
}
