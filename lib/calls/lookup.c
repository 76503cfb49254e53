// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_lookup(): the allocation that an address is in. */
#include <errno.h>
#include <inttypes.h>

#include "calls/arena.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "calls/shared.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/shareable.h"
#include "core/small.h"
#include "pending/users.h"
#include "util/address-index.h"
#include "util/assume.h"
#include "util/error.h"

#define NONE_STARTS "no allocation of this pool starts there"

static int fill_found(struct vpmm_pool *pool, uint64_t base, size_t bytes, struct vpmm_allocation *allocation)
{
	*allocation = (struct vpmm_allocation){
		.size = allocation->size,
		.pool = pool,
		.base = (void *)(uintptr_t)base,
		.bytes = bytes,
		.device = pool->core.device,
	};
	return 0;
}

static struct region *allocated_around(struct region_map *map, uint64_t addr)
{
	struct region *region = region_around(map, addr);

	return region && region->kind == REGION_MALLOC && !region->held ? region : NULL;
}

/* Its stream must not free it into its cache while its size is read. */
static bool read_requested(struct vpmm_pool *pool, struct region *region, size_t *bytes)
{
	if (!cache_take(region))
		return false;
	*bytes = live_requested(region);
	cache_untake(region, use_find(&pool->pending, region->addr));
	return true;
}

/* Shareable blocks do not come from the driver's allocator. */
static int lookup_small(struct vpmm_pool *pool, uint64_t addr, struct vpmm_allocation *allocation)
{
	uint64_t start = address_start(addr);
	const struct small *small = g_hash_table_lookup(pool->core.small, &start);

	if (!small || addr - small->addr >= small->size || (small->held && small->shareable))
		return -EINVAL;
	return small->held ? -EALREADY : fill_found(pool, small->addr, small->size, allocation);
}

int lookup_pool(struct vpmm_pool *pool, uint64_t addr, struct vpmm_allocation *allocation)
{
	struct region *region = allocated_around(&pool->core.regions, addr);
	size_t bytes;

	lock_assert_held(&pool->core.lock);
	if (!region)
		region = allocated_around(&pool->core.spans, addr);
	if (!region)
		return lookup_small(pool, addr, allocation);
	if (!read_requested(pool, region, &bytes) || addr - region->addr >= bytes)
		return -EINVAL;
	return fill_found(pool, region->addr, bytes, allocation);
}

/* Of another pool it is known only which addresses it has: its lock has the same rank. */
static bool is_of_another(struct vpmm_pool *pool, uint64_t addr)
{
	struct address_owner *owner;
	struct vpmm_pool *found = address_visit(addr, &owner);
	bool another;

	if (!found)
		return false;
	another = arena_root(found) != arena_root(pool);
	address_leave(owner);
	return another;
}

/* Where the block starts that an address is in; 0: none. Arenas have locks of the same rank, and their tags another. */
static uint64_t start_around(struct vpmm_pool *pool, uint64_t addr)
{
	struct vpmm_allocation around = { .size = sizeof(around) };
	struct tags *tags = pool_tags(arena_root(pool));

	if (!lookup_pool(pool, addr, &around))
		return (uintptr_t)around.base;
	return tags ? tags_find_around(tags, addr) : 0;
}

int lookup_refuse(struct vpmm_pool *pool, uint64_t addr)
{
	struct vpmm_allocation near = { .size = sizeof(near) };
	uint64_t start;

	lock_assert_held(&pool->core.lock);
	if (pool_shared_lookup(addr, &near))
		return error_set(-EINVAL, NONE_STARTS ": the shared range at %p has it, see vpmm_shared_free()", near.base);
	start = start_around(pool, addr);
	if (start && start != addr)
		return error_set(-EINVAL, NONE_STARTS ": the one at %#" PRIx64 " has it", start);
	return error_set(-EINVAL, NONE_STARTS "%s", is_of_another(pool, addr) ? ": it is an address of another pool" : "");
}

size_t lookup_bytes(struct vpmm_pool *pool, uint64_t addr, bool *by_driver)
{
	const struct region *region;
	const struct small *small;
	size_t bytes;

	lock_acquire(&pool->core.lock);
	region = live_find(&pool->core, addr);
	if (region) {
		bytes = region->size;
		*by_driver = false;
	} else {
		small = small_find(&pool->core, addr);
		assume(small);
		bytes = small->shareable ? small->shareable->bytes : small->size;
		*by_driver = !small->shareable;
	}
	lock_release(&pool->core.lock);
	return bytes;
}
