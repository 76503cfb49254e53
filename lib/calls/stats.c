// SPDX-License-Identifier: LGPL-2.1-or-later
#include "calls/pool.h"
#include "calls/stats.h"
#include "util/error.h"

void stats_note_peaks(struct vpmm_pool *pool)
{
	uint64_t mapped = pool_mapped(pool);
	uint64_t small = 0, peak;
	struct error_kept kept;

	/* A peak is worth no error: what cannot be asked for does not count. */
	error_keep(&kept);
	if (pool->backend->ops->small_held(pool->backend, &small, &peak))
		small = 0;
	error_restore(&kept);
	pool->peak_mapped = MAX(pool->peak_mapped, mapped);
	pool->peak_taken = MAX(pool->peak_taken, mapped + small);
}

int stats_get(struct vpmm_pool *pool, struct vpmm_stats *stats)
{
	const struct region_map *regions = &pool->regions, *spans = &pool->spans;
	uint64_t small_mapped, peak_small;
	struct cache_sums cached;
	int err;

	err = pool->backend->ops->small_held(pool->backend, &small_mapped, &peak_small);
	if (err)
		return err;
	stats_note_peaks(pool);
	cache_sum(pool, &cached);
	if (pool->settings.cache)
		cache_note_peak(pool, true);
	*stats = (struct vpmm_stats){
		.size = stats->size,
		.mapped = pool_mapped(pool),
		.live = pool_live(pool) - cached.bytes,
		.free = pool_mapped(pool) - pool_live(pool) + cached.bytes,
		.holes = regions->bytes[REGION_UNMAPPED] + spans->bytes[REGION_UNMAPPED],
		.zombies = regions->bytes[REGION_ZOMBIE] + spans->bytes[REGION_ZOMBIE],
		.small_live = pool->small_live,
		.small_mapped = small_mapped,
		.peak_live = pool->peak_live,
		.peak_mapped = pool->peak_mapped,
		.mallocs = pool->counts.mallocs + cached.mallocs,
		.frees = pool->counts.frees + cached.frees,
		.reuses = pool->counts.reuses + cached.mallocs,
		.steals = pool->counts.steals,
		.defrags = pool->counts.defrags,
		.grows = pool->counts.grows,
		.waits = pool->counts.waits,
		.creates = pool->extents.calls.creates,
		.maps = pool->extents.calls.maps,
		.accesses = pool->extents.calls.accesses,
		.unmaps = pool->extents.calls.unmaps,
		.releases = pool->extents.calls.releases,
		.grown = pool->counts.grown,
		.remapped = pool->counts.remapped,
		.chunks = regions->chunks->len + spans->chunks->len,
		.regions = regions->count + spans->count,
		.extents = pool->extents.all.length,
		.streams = g_hash_table_size(pool->streams.by_id),
		.driver_ns = pool->extents.calls.ns,
		.peak_small = peak_small,
		.peak_taken = pool->peak_taken,
		.stuck = pool->extents.stuck_bytes,
		.spans = spans->bytes[REGION_MALLOC] + spans->bytes[REGION_FREE],
		.mappings = pool->extents.places,
		.held = pool->held_bytes,
		.given_back = pool->extents.given_back,
		.scrubbed = pool->scrubbed,
	};
	for (int kind = 0; kind < REGION_KINDS; kind++)
		stats->reserved += regions->bytes[kind] + spans->bytes[kind];
	stats->reserved -= spans->lent;
	return 0;
}

int stats_get_info(struct vpmm_pool *pool, struct vpmm_info *info)
{
	struct backend_info device;
	int err;

	err = pool->backend->ops->info(pool->backend, &device);
	if (err)
		return err;
	*info = (struct vpmm_info){
		.size = info->size,
		.device = device.device,
		.driver_version = device.driver_version,
		.granularity = device.granularity,
		.memory_total = device.memory_total,
		.memory_free = device.memory_free,
		.mapping_limit = device.mapping_limit,
	};
	settings_tell(&pool->settings, info);
	g_strlcpy(info->backend, device.name, sizeof(info->backend));
	g_strlcpy(info->device_name, device.device_name, sizeof(info->device_name));
	return 0;
}
