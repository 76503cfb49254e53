// SPDX-License-Identifier: LGPL-2.1-or-later
/* Default memory pools: what the driver says of one, and does to it, and what the library's pool has to add. */
#include <stdatomic.h>

#include "preload/driver.h"
#include "preload/library.h"
#include "preload/pools.h"
#include "preload/primary.h"

/* By device; NULL: not asked for yet. */
static drv_mem_pool _Atomic presets[DEVICES_KNOWN];

drv_mem_pool pools_default(int device)
{
	drv_mem_pool preset = atomic_load_explicit(&presets[device], memory_order_relaxed);

	if (preset)
		return preset;
	if (FORWARD(cuDeviceGetDefaultMemPool, &preset, device))
		return NULL;
	atomic_store_explicit(&presets[device], preset, memory_order_relaxed);
	return preset;
}

void pools_forget(int device)
{
	if (device >= 0 && device < DEVICES_KNOWN)
		atomic_store_explicit(&presets[device], NULL, memory_order_relaxed);
}

bool pools_is_default(drv_mem_pool pool, int *device)
{
	int i;

	for (i = 0; pool && i < DEVICES_KNOWN; i++) {
		if (primary_retains(i) && pool == pools_default(i)) {
			*device = i;
			return true;
		}
	}
	return false;
}

/* Until pop: the context of the device of a default pool that the library has. */
static bool enter_default_pool(drv_mem_pool pool)
{
	int device;

	return library_used() && pools_is_default(pool, &device) && !primary_push(device);
}

drv_result cuMemPoolTrimTo(drv_mem_pool pool, size_t keep)
{
	if (enter_default_pool(pool)) {
		LIBRARY(vpmm_pool_trim, NULL, keep, NULL);
		primary_pop();
	}
	return FORWARD(cuMemPoolTrimTo, pool, keep);
}

static bool is_count(drv_pool_attribute attribute)
{
	return attribute >= DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT && attribute <= DRV_MEMPOOL_ATTR_USED_MEM_HIGH;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The peak of live bytes lacks blocks that the driver's allocator serves for the library; that of requests has them. */
static uint64_t count_of(const struct vpmm_stats *stats, drv_pool_attribute attribute)
{
	const uint64_t used = stats->live + stats->small_live + stats->shareable;

	switch (attribute) {
	case DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return stats->mapped + stats->small_mapped + stats->shareable + stats->shared;
	case DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return stats->peak_taken;
	case DRV_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return used;
	default:
		return most(most(stats->peak_live, stats->peak_requested), used);
	}
}

drv_result cuMemPoolGetAttribute(drv_mem_pool pool, drv_pool_attribute attribute, void *value)
{
	drv_result result = FORWARD(cuMemPoolGetAttribute, pool, attribute, value);
	struct vpmm_stats stats = { .size = sizeof(stats) };

	if (result || !is_count(attribute) || !enter_default_pool(pool))
		return result;
	if (!LIBRARY(vpmm_pool_stats, NULL, &stats))
		*(uint64_t *)value += count_of(&stats, attribute);
	primary_pop();
	return result;
}

drv_result cuMemPoolSetAttribute(drv_mem_pool pool, drv_pool_attribute attribute, void *value)
{
	drv_result result = FORWARD(cuMemPoolSetAttribute, pool, attribute, value);

	/* A count can only be set to 0, and only a high one. */
	if (!result && is_count(attribute) && enter_default_pool(pool)) {
		LIBRARY(vpmm_pool_reset_peaks, NULL);
		primary_pop();
	}
	return result;
}
