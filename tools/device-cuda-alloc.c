// SPDX-License-Identifier: LGPL-2.1-or-later
/* The driver's own allocators, to compare with. */
#include <errno.h>
#include <glib.h>

#include "device-cuda.h"
#include "fail.h"
#include "ledger.h"

#define GRANULE ((size_t)2 << 20)

struct cuda_async {
	struct allocator base;
	drv_mem_pool pool;
	bool counted;
	uint64_t mallocs;
	uint64_t frees;
};

struct cuda_malloc {
	struct ledger ledger;
	bool counted;
};

static int async_alloc(struct allocator *base, void **ptr, size_t size, struct CUstream_st *stream)
{
	struct cuda_async *a = (struct cuda_async *)base;
	drv_deviceptr va = 0;
	drv_result result;

	if (size) {
		result = driver.cuMemAllocFromPoolAsync(&va, size, a->pool, stream);
		if (result)
			return driver_fail(result, "cuMemAllocFromPoolAsync of %zu bytes", size);
		if (a->counted)
			a->mallocs++;
	}
	*ptr = (void *)(uintptr_t)va;
	return 0;
}

static int async_free(struct allocator *base, void *ptr, struct CUstream_st *stream)
{
	struct cuda_async *a = (struct cuda_async *)base;
	int err;

	if (!ptr)
		return 0;
	err = DRIVER_CALL(cuMemFreeAsync, (drv_deviceptr)(uintptr_t)ptr, stream);
	if (!err && a->counted)
		a->frees++;
	return err;
}

static int async_stats(struct allocator *base, struct vpmm_stats *stats)
{
	struct cuda_async *a = (struct cuda_async *)base;
	drv_u64 held = 0, peak = 0;
	int err;

	err = DRIVER_CALL(cuMemPoolGetAttribute, a->pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) ?:
	      DRIVER_CALL(cuMemPoolGetAttribute, a->pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &peak);
	if (err)
		return err;
	*stats = (struct vpmm_stats){
		.size = sizeof(*stats),
		.small_mapped = held,
		.peak_small = peak,
		.peak_taken = peak,
		.mallocs = a->mallocs,
		.frees = a->frees,
	};
	return 0;
}

static void async_destroy(struct allocator *base)
{
	struct cuda_async *a = (struct cuda_async *)base;

	driver.cuMemPoolDestroy(a->pool);
	g_free(a);
}

static const struct allocator_ops async_ops = {
	.alloc = async_alloc,
	.free = async_free,
	.stats = async_stats,
	.error = fail_text,
	.destroy = async_destroy,
};

int device_cuda_async(struct device *base, struct allocator **allocator)
{
	struct device_cuda *dev = (struct device_cuda *)base;
	drv_mem_pool_props props = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.handle_types = DRV_MEM_HANDLE_TYPE_NONE,
		.location = { .type = DRV_MEM_LOCATION_TYPE_DEVICE, .id = dev->device },
	};
	drv_u64 threshold = UINT64_MAX;
	struct cuda_async *a;
	drv_mem_pool pool;
	int err;

	err = DRIVER_CALL(cuMemPoolCreate, &pool, &props);
	if (err)
		return err;
	err = DRIVER_CALL(cuMemPoolSetAttribute, pool, DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	if (err) {
		driver.cuMemPoolDestroy(pool);
		return err;
	}
	a = g_new0(struct cuda_async, 1);
	a->base.ops = &async_ops;
	a->pool = pool;
	a->counted = !base->opts.uncounted;
	*allocator = &a->base;
	return 0;
}

static int malloc_alloc(struct allocator *base, void **ptr, size_t size, struct CUstream_st *stream)
{
	struct cuda_malloc *a = (struct cuda_malloc *)base;
	drv_deviceptr va = 0;
	drv_result result;

	(void)stream;
	if (size) {
		result = driver.cuMemAlloc(&va, size);
		if (result)
			return driver_fail(result, "cuMemAlloc of %zu bytes", size);
		if (a->counted)
			ledger_malloc(&a->ledger, (void *)(uintptr_t)va, (size + GRANULE - 1) & ~(GRANULE - 1));
	}
	*ptr = (void *)(uintptr_t)va;
	return 0;
}

static int malloc_free(struct allocator *base, void *ptr, struct CUstream_st *stream)
{
	struct cuda_malloc *a = (struct cuda_malloc *)base;
	int err;

	(void)stream;
	if (!ptr)
		return 0;
	err = DRIVER_CALL(cuMemFree, (drv_deviceptr)(uintptr_t)ptr);
	if (!err && a->counted)
		ledger_free(&a->ledger, ptr);
	return err;
}

static const struct allocator_ops malloc_ops = {
	.alloc = malloc_alloc,
	.free = malloc_free,
	.stats = ledger_stats,
	.error = fail_text,
	.destroy = ledger_destroy,
};

int device_cuda_malloc(struct device *base, struct allocator **allocator)
{
	struct cuda_malloc *a;

	a = g_new0(struct cuda_malloc, 1);
	ledger_init(&a->ledger, &malloc_ops);
	a->counted = !base->opts.uncounted;
	*allocator = &a->ledger.base;
	return 0;
}
