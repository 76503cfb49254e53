// SPDX-License-Identifier: LGPL-2.1-or-later
#include "budget.h"
#include "pool.h"

/* A pool takes this part more than the most that was live rather than remap what it has. */
#define EXCESS 500

/* While it grows, it takes up to that part more than what is live rather than let one allocation take long. */
#define STRETCH 4

/*
 * Each time that memory is remapped strains by one, and of that each so many allocations take one off. No program that
 * finds its shape comes to as much as is relieved; one that does goes on so, and little more of it is relieved again.
 */
#define STRAIN_FADES 512
#define STRAIN_MOST 256
#define STRAIN_MORE 16

/* Relief comes in steps of this part of the memory, and all of it is at most that part. */
#define RELIEF_STEP 32
#define RELIEF_MOST 4

/* The most that was live in the pool, this request included. */
static uint64_t most_live(const struct vpmm_pool *pool, size_t size)
{
	uint64_t peak = pool->peak_live > pool->strain.past ? pool->peak_live : pool->strain.held;

	return MAX(peak, pool_live(pool) + size);
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

size_t budget_room(const struct vpmm_pool *pool, size_t size)
{
	uint64_t most = most_live(pool, size);

	return room_to(pool, most + most / EXCESS + pool->strain.relief);
}

size_t budget_stretch(const struct vpmm_pool *pool, size_t size)
{
	uint64_t most = pool_live(pool) + size;

	return most > MAX(most_live(pool, 0), pool_mapped(pool)) ? room_to(pool, most + most / STRETCH) : 0;
}

void budget_note_trim(struct vpmm_pool *pool)
{
	pool->strain.past = pool->peak_live;
	pool->strain.held = pool_mapped(pool);
	pool->strain.relief = 0;
}

void budget_note_remap(struct vpmm_pool *pool)
{
	struct strain *strain = &pool->strain;
	uint64_t faded = (pool->counts.mallocs - strain->mallocs) / STRAIN_FADES;

	strain->mallocs += faded * STRAIN_FADES;
	strain->remaps -= MIN(strain->remaps, faded);
	if (++strain->remaps < STRAIN_MOST)
		return;
	strain->remaps -= STRAIN_MORE;
	if (strain->relief < pool->peak_live / RELIEF_MOST)
		strain->relief += pool->peak_live / RELIEF_STEP;
}
