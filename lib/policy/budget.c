// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdatomic.h>

#include "calls/pool.h"
#include "core/cache.h"
#include "policy/budget.h"
#include "util/error.h"

/* A pool takes this part more than the most that was live rather than remap what it has. */
#define EXCESS 500

/* While it grows, it takes up to that part more than what is live rather than let one allocation take long. */
#define STRETCH 4

/*
 * Each strain counts for one, and so many allocations take one off, or so many nanoseconds, which makes a percent of the
 * time: who allocates no more often than that has no use for more memory. No program that finds its shape comes to as
 * much as is relieved; one that does goes on so, and little more of it is relieved again.
 */
#define STRAIN_FADES 512
#define STRAIN_FADES_NS 10000000
#define STRAIN_MOST 256
#define STRAIN_MORE 16

/* Relief comes in steps of this part of the memory, and all of it is at most that part. */
#define RELIEF_STEP 32
#define RELIEF_MOST 4

/* The most that was live in the pool, as far as it was asked for. */
static uint64_t peak_live(const struct vpmm_pool *pool)
{
	return pool->peak_live > pool->strain.past ? pool->peak_asked : pool->strain.held;
}

/* Bytes that are allocated; at ease, caches are not emptied before anybody looks. */
static uint64_t live_now(struct vpmm_pool *pool)
{
	struct cache_sums cached = { 0 };

	if (atomic_load_explicit(&pool->at_ease, memory_order_relaxed))
		cache_sum(pool, &cached);
	return pool_live(pool) - cached.bytes;
}

/* The most that was live, this request included. */
static uint64_t most_live(struct vpmm_pool *pool, size_t size)
{
	return MAX(peak_live(pool), live_now(pool) + size);
}

/* Whole pages that are missing to a number of bytes. */
static size_t room_to(const struct vpmm_pool *pool, uint64_t limit)
{
	uint64_t mapped = pool_mapped(pool), room;

	/* What would be given back at once is not taken, and what is not to be had is not planned with. */
	limit = MIN(limit, pool->settings.keep);
	room = limit > mapped ? MIN(limit - mapped, extent_room(&pool->extents)) : 0;
	return room / pool->settings.page_size * pool->settings.page_size;
}

size_t budget_room(struct vpmm_pool *pool, size_t size)
{
	uint64_t most = most_live(pool, size);

	return room_to(pool, most + most / EXCESS + pool->strain.relief);
}

size_t budget_stretch(struct vpmm_pool *pool, size_t size)
{
	uint64_t most = live_now(pool) + size;

	return most > MAX(peak_live(pool), pool_mapped(pool)) ? room_to(pool, most + most / STRETCH) : 0;
}

void budget_note_trim(struct vpmm_pool *pool)
{
	pool->strain.past = pool->peak_live;
	pool->strain.held = pool_mapped(pool);
	pool->strain.relief = 0;
	atomic_store_explicit(&pool->scarce, false, memory_order_relaxed);
	atomic_store_explicit(&pool->at_ease, false, memory_order_relaxed);
}

void budget_note_scarce(struct vpmm_pool *pool)
{
	atomic_store_explicit(&pool->scarce, true, memory_order_relaxed);
	atomic_store_explicit(&pool->at_ease, false, memory_order_relaxed);
}

bool budget_has_ease(const struct vpmm_pool *pool, size_t size)
{
	return room_to(pool, peak_live(pool) + pool->strain.relief) >= size;
}

/* Whether the memory that blocks which are too large may take is there, and was whenever it was asked for. */
static bool can_be_at_ease(const struct vpmm_pool *pool)
{
	struct backend_info info = { 0 };
	struct error_kept kept;

	if (atomic_load_explicit(&pool->scarce, memory_order_relaxed))
		return false;
	error_keep(&kept);
	if (pool->backend->ops->info(pool->backend, &info))
		error_restore(&kept);
	return MIN(info.memory_free, extent_room(&pool->extents)) >= peak_live(pool) / CACHE_NEAR_PART;
}

static void strain_fade(struct strain *strain, uint64_t mallocs, uint64_t ns)
{
	uint64_t served = (mallocs - strain->mallocs) / STRAIN_FADES;
	uint64_t passed = (ns - strain->ns) / STRAIN_FADES_NS;

	strain->mallocs += served * STRAIN_FADES;
	strain->ns += passed * STRAIN_FADES_NS;
	strain->sum -= MIN(strain->sum, served + passed);
}

void budget_note_strain(struct vpmm_pool *pool)
{
	struct strain *strain = &pool->strain;
	uint64_t relief;

	strain_fade(strain, pool->counts.mallocs, pool->backend->ops->now(pool->backend));
	if (++strain->sum < STRAIN_MOST)
		return;
	strain->sum -= STRAIN_MORE;
	relief = MIN(strain->relief + peak_live(pool) / RELIEF_STEP, peak_live(pool) / RELIEF_MOST);
	if (relief > strain->relief)
		log_add(&pool->log, VPMM_LOG_INFO, "may take %" G_GUINT64_FORMAT " bytes more, as it had to remap "
			"again and again", relief);
	strain->relief = relief;
	atomic_store_explicit(&pool->at_ease, can_be_at_ease(pool), memory_order_relaxed);
}
