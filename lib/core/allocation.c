// SPDX-License-Identifier: LGPL-2.1-or-later
#include "calls/pool.h"
#include "core/alias.h"
#include "core/allocation.h"
#include "policy/span.h"

struct region *live_find(struct vpmm_pool *pool, uint64_t addr)
{
	struct region *region = region_find_malloc(&pool->spans, addr);

	if (!region)
		region = region_find_malloc(&pool->regions, addr);
	return region && !region->lent && !region->held ? region : NULL;
}

/* Whether it keeps extents from moving. Pages that are allocated are not free, and that is all; spans do not move. */
static bool is_packed(const struct vpmm_pool *pool, const struct region *region)
{
	return region->chunk->map == &pool->regions && !pool->settings.paged;
}

/* Whether it is small, and has what large requests could have: what spans have borrowed, or did not get. */
static bool is_lent(const struct vpmm_pool *pool, const struct region *region)
{
	return region->size < pool_small_size(pool) && (is_packed(pool, region) || region->chunk->lender);
}

void live_enter(struct vpmm_pool *pool, struct region *region)
{
	if (is_packed(pool, region)) {
		extent_add_live(&pool->extents, region->addr, region->size);
		memo_enter(&pool->memo, region->addr, region->size);
	}
	if (pool->settings.cache)
		cache_add(region, is_lent(pool, region));
	else
		pool->peak_live = pool->peak_asked = MAX(pool->peak_live, pool_live(pool));
}

void live_leave(struct vpmm_pool *pool, struct region *region, struct stream *stream, struct event *event)
{
	bool packed = is_packed(pool, region), split = false;
	uint64_t addr = region->addr;
	size_t size = region->size;

	if (packed) {
		memo_leave(&pool->memo, addr, size);
		split = extent_sub_live(&pool->extents, addr, size);
	}
	region = region_set_free(region->chunk->map, region, stream, event);
	/* What makes an extent whole is to be free at one place with the rest of it, where it makes a larger region. */
	if (split)
		alias_unify(pool, addr, size);
	else
		span_return(pool, region);
}
