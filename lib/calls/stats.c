// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_pool_stats(), vpmm_pool_reset_peaks() and vpmm_pool_info(). */
#include "calls/arena.h"
#include "calls/budget.h"
#include "calls/pool.h"
#include "calls/stats.h"
#include "core/account.h"
#include "policy/growth.h"
#include "util/error.h"

/* Of an arena that is paused. */
static void take_memory_out(struct vpmm_stats *stats)
{
	stats->paused = stats->live;
	stats->holes += stats->free;
	stats->mapped = stats->free = 0;
	stats->extents = stats->mappings = stats->stuck = stats->spans = 0;
}

int stats_get(struct vpmm_pool *pool, struct vpmm_stats *stats)
{
	uint64_t small_mapped, peak_small;
	int err;

	lock_assert_held(&pool->core.lock);
	err = pool->core.backend->ops->small_held(pool->core.backend, &small_mapped, &peak_small);
	if (err)
		return err;
	account_note_taken(&pool->core);
	stall_collect(&pool->core.streams);
	stats_count(pool, stats, small_mapped);
	return 0;
}

void stats_count(struct vpmm_pool *pool, struct vpmm_stats *stats, uint64_t small_mapped)
{
	struct region_map *regions = &pool->core.regions, *spans = &pool->core.spans;
	struct footprint live, peak;
	struct cache_sums cached;

	lock_assert_held(&pool->core.lock);
	/* The number of regions is read below, too, and C leaves the order of initializers open. */
	region_decide(regions);
	cache_sum(&pool->core, &cached);
	account_read(&pool->core.account, &live, &peak);
	*stats = (struct vpmm_stats){
		.size = stats->size,
		.mapped = core_mapped(&pool->core),
		.live = live.rounded,
		.free = core_mapped(&pool->core) - live.rounded,
		.holes = regions->bytes[REGION_UNMAPPED] + spans->bytes[REGION_UNMAPPED],
		.zombies = region_bytes(regions, REGION_ZOMBIE) + region_bytes(spans, REGION_ZOMBIE),
		.small_live = pool->core.small_live,
		.small_mapped = small_mapped,
		.peak_live = peak.rounded,
		.peak_mapped = pool->core.peak_mapped,
		.mallocs = pool->core.counts.mallocs + cached.mallocs - pool->core.counts.undone,
		.frees = pool->core.counts.frees + cached.frees - pool->core.counts.undone,
		.reuses = pool->core.counts.reuses + cached.mallocs,
		.steals = pool->core.counts.steals,
		.defrags = pool->core.counts.defrags,
		.grows = pool->core.counts.grows,
		.waits = pool->core.counts.waits,
		.creates = pool->core.extents.calls.creates,
		.maps = pool->core.extents.calls.maps,
		.accesses = pool->core.extents.calls.accesses,
		.unmaps = pool->core.extents.calls.unmaps,
		.releases = pool->core.extents.calls.releases,
		.grown = pool->core.counts.grown,
		.remapped = pool->core.counts.remapped,
		.chunks = regions->chunks->len + spans->chunks->len,
		.regions = regions->count + spans->count,
		.extents = pool->core.extents.all.length,
		.streams = g_hash_table_size(pool->core.streams.by_id),
		.driver_ns = pool->core.extents.calls.ns,
		.peak_small = pool->core.peak_small,
		.peak_taken = pool->core.peak_taken,
		.stuck = pool->core.extents.stuck_bytes,
		.spans = spans->bytes[REGION_MALLOC] + region_bytes(spans, REGION_FREE),
		.mappings = pool->core.extents.places,
		.held = pool->pending.held_bytes,
		.given_back = pool->core.extents.given_back,
		.scrubbed = pool->core.scrubbed,
		.waits_sampled = pool->core.streams.stalls.sampled,
		.wait_ns = pool->core.streams.stalls.ns,
		.requested = live.requested,
		.peak_requested = peak.requested,
		.shareable = pool->core.shareable,
		.imported = pool->core.imported,
		.shared = pool->core.shared,
		.overlap = allowance_bytes(&pool->core, account_most(&pool->core.account)),
		.stranded = pool->core.counts.stranded,
		.unsettled = pool->core.packed->steady.latest,
	};
	pool_budget_count(&pool->core, stats);
	for (int kind = 0; kind < REGION_KINDS; kind++)
		stats->reserved += regions->bytes[kind] + spans->bytes[kind];
	if (pool->core.extents.hollow)
		take_memory_out(stats);
	if (pool->arena)
		stats->saved = atomic_load(&pool->arena->saved_bytes);
}

/* What each pool tells of the device, or of streams that the others know too, is not added up. */
static bool is_common(size_t offset)
{
	return offset == offsetof(struct vpmm_stats, small_mapped) || offset == offsetof(struct vpmm_stats, peak_small) ||
	       offset == offsetof(struct vpmm_stats, streams) || offset == offsetof(struct vpmm_stats, budget_size) ||
	       offset == offsetof(struct vpmm_stats, budget_left) || offset == offsetof(struct vpmm_stats, budget_idle);
}

static bool is_peak(size_t offset)
{
	return offset == offsetof(struct vpmm_stats, peak_live) || offset == offsetof(struct vpmm_stats, peak_mapped) ||
	       offset == offsetof(struct vpmm_stats, peak_taken) ||
	       offset == offsetof(struct vpmm_stats, peak_requested);
}

void stats_add_arena(struct vpmm_stats *total, const struct vpmm_stats *part)
{
	for (size_t at = offsetof(struct vpmm_stats, reserved); at < sizeof(*total); at += sizeof(uint64_t)) {
		uint64_t *sum = (uint64_t *)(void *)((char *)total + at);
		uint64_t more = *(const uint64_t *)(const void *)((const char *)part + at);

		*sum = is_common(at) || is_peak(at) ? MAX(*sum, more) : *sum + more;
	}
}

static void sample(uint64_t *peak, uint64_t now, uint64_t *of_one)
{
	*peak = MAX(MAX(*peak, now), *of_one);
	*of_one = *peak;
}

void stats_sample_peaks(struct tags *tags, struct vpmm_stats *total)
{
	uint64_t taken = total->mapped + total->small_mapped + total->shareable + total->shared;

	if (!tags)
		return;
	lock_acquire(&tags->lock);
	sample(&tags->peak.live, total->live, &total->peak_live);
	sample(&tags->peak.mapped, total->mapped, &total->peak_mapped);
	sample(&tags->peak.taken, MAX(taken, atomic_load(&tags->pool->core.extents.own_most)), &total->peak_taken);
	sample(&tags->peak.requested, total->requested, &total->peak_requested);
	lock_release(&tags->lock);
}

int stats_reset_peaks(struct vpmm_pool *pool)
{
	struct core *core = &pool->core;
	uint64_t small, peak;
	int err;

	lock_assert_held(&core->lock);
	err = core->backend->ops->small_held(core->backend, &small, &peak);
	if (err)
		return err;
	account_reset(&core->account);
	core->peak_mapped = core_resident(core);
	core->peak_taken = core_resident(core) + core->shareable + core->shared + small;
	core->peak_small = small;
	core->small_past = peak;
	atomic_store(&core->extents.own_most, atomic_load(&core->extents.own_taken) + small);
	return 0;
}

int stats_get_info(struct vpmm_pool *pool, struct vpmm_info *info)
{
	struct backend_info device;
	int err;

	lock_assert_held(&pool->core.lock);
	err = pool->core.backend->ops->info(pool->core.backend, &device);
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
	settings_tell(&pool->core.settings, info);
	g_strlcpy(info->backend, device.name, sizeof(info->backend));
	g_strlcpy(info->device_name, device.device_name, sizeof(info->device_name));
	return 0;
}
