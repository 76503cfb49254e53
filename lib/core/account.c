// SPDX-License-Identifier: LGPL-2.1-or-later
/* Statistics of allocated and held memory: what the caches have, and peaks. */
#include <stdatomic.h>

#include "core/account.h"
#include "core/cache.h"
#include "core/core.h"
#include "util/error.h"

/*
 * With more streams than this, not every malloc adds up all caches, unless the peak may be higher by more than
 * 1/PEAK_PART.
 */
#define PEAK_STREAMS 4
#define PEAK_PART 64

static void add_cache(struct cache_sums *sums, struct cache *cache)
{
	brief_acquire(&cache->lock);
	sums->mallocs += cache->mallocs;
	sums->frees += cache_frees(cache);
	sums->bytes += cache->bytes + cache->stranded_bytes;
	brief_release(&cache->lock);
}

void cache_sum(struct core *core, struct cache_sums *sums)
{
	*sums = (struct cache_sums){ .mallocs = core->streams.mallocs, .frees = core->streams.frees };
	for_each_stream(stream, &core->streams)
		add_cache(sums, stream->cache);
}

uint64_t cache_withheld(struct cache *cache)
{
	uint64_t bytes;

	brief_acquire(&cache->lock);
	bytes = cache->bytes + cache->stranded_bytes;
	brief_release(&cache->lock);
	return bytes;
}

struct region *cache_last(struct core *core, bool *served)
{
	uint64_t central = atomic_load_explicit(&core->central, memory_order_relaxed);
	struct region *last = NULL;

	lock_assert_held(&core->lock);
	*served = false;
	for_each_stream(stream, &core->streams) {
		struct cache *cache = stream->cache;

		brief_acquire(&cache->lock);
		if (cache->central == central) {
			*served = true;
			last = cache->last ? cache->last->region : NULL;
		}
		brief_release(&cache->lock);
		if (last)
			break;
	}
	return last;
}

/*
 * Whether adding up the caches could raise the peak by no more than 1/PEAK_PART, if they hold no less than last time.
 */
static bool peak_is_near(const struct core *core, uint64_t most)
{
	return most - MIN(most, core->peak_cached) <= core->peak_live + core->peak_live / PEAK_PART;
}

void cache_note_peak(struct core *core, bool asked)
{
	uint64_t most = core_live(core), cached = 0, more = 0;
	unsigned int served = 0;
	uint64_t central = atomic_load_explicit(&core->central, memory_order_relaxed);
	guint streams = g_hash_table_size(core->streams.by_id);

	if (most <= core->peak_live)
		return;
	if (!asked && streams > PEAK_STREAMS && ++core->peak_skipped < streams && peak_is_near(core, most))
		return;
	core->peak_skipped = 0;
	for_each_stream(stream, &core->streams) {
		struct cache *cache = stream->cache;

		brief_acquire(&cache->lock);
		cached += cache->bytes + cache->stranded_bytes;
		if (cache->central == central) {
			more = cache->bytes - cache->lowest;
			served++;
		}
		brief_release(&cache->lock);
	}
	core->peak_cached = cached;
	/*
	 * The cache may have held less since the maps last changed. With several such caches, the minima need not
	 * coincide.
	 */
	most = most - cached + (served == 1 ? more : 0);
	core->peak_live = MAX(core->peak_live, most);
}

void account_note_taken(struct core *core)
{
	uint64_t mapped = core_mapped(core);
	uint64_t small = 0, peak;
	struct error_kept kept;

	lock_assert_held(&core->lock);
	/* A peak is worth no error: what cannot be queried does not count. */
	error_keep(&kept);
	if (core->backend->ops->small_held(core->backend, &small, &peak))
		small = 0;
	error_restore(&kept);
	core->peak_mapped = MAX(core->peak_mapped, mapped);
	core->peak_taken = MAX(core->peak_taken, mapped + small);
}
