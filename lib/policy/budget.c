// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much device memory a pool may take: no more than the most that was live. */
#include "calls/pool.h"
#include "policy/budget.h"

/* What the pool may hold: the most that was live, or what it was trimmed to until more than before is live. */
static uint64_t most_held(const struct vpmm_pool *pool)
{
	return pool->peak_live > pool->budget.past ? pool->peak_asked : pool->budget.held;
}

size_t budget_room(const struct vpmm_pool *pool, size_t size)
{
	uint64_t mapped = pool_mapped(pool), limit = MAX(most_held(pool), pool_live(pool) + size), room;

	/* What would be given back at once is not taken, and what is not to be had is not planned with. */
	limit = MIN(limit, pool->settings.keep);
	room = limit > mapped ? MIN(limit - mapped, extent_room(&pool->extents)) : 0;
	return room / pool->settings.page_size * pool->settings.page_size;
}

void budget_note_trim(struct vpmm_pool *pool)
{
	pool->budget.past = pool->peak_live;
	pool->budget.held = pool_mapped(pool);
}
