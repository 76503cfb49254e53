// SPDX-License-Identifier: LGPL-2.1-or-later
/* The driver's own allocators, to compare with. */
#include <errno.h>
#include <glib.h>

#include "device-cuda.h"
#include "fail.h"

#define GRANULE ((size_t)2 << 20)

struct cuda_async {
	struct allocator base;
	const struct drv_program *drv;
	drv_mem_pool pool;
	bool counted;
	uint64_t mallocs;
	uint64_t frees;
};

struct cuda_malloc {
	struct allocator base;
	const struct drv_program *drv;
	GHashTable *sizes;		/* address to bytes taken; NULL: not counted */
	uint64_t taken;
	uint64_t peak;
	uint64_t mallocs;
	uint64_t frees;
};

static int async_alloc(struct allocator *base, void **ptr, size_t size, struct CUstream_st *stream)
{
	struct cuda_async *a = (struct cuda_async *)base;
	drv_deviceptr va = 0;
	drv_result result;

	if (size) {
		result = a->drv->cuMemAllocFromPoolAsync(&va, size, a->pool, stream);
		if (result)
			return driver_fail(a->drv, result, "cuMemAllocFromPoolAsync of %zu bytes", size);
		if (a->counted)
			a->mallocs++;
	}
	*ptr = (void *)(uintptr_t)va;
	return 0;
}

static int async_free(struct allocator *base, void *ptr, struct CUstream_st *stream)
{
	struct cuda_async *a = (struct cuda_async *)base;
	drv_result result;

	if (!ptr)
		return 0;
	result = a->drv->cuMemFreeAsync((drv_deviceptr)(uintptr_t)ptr, stream);
	if (result)
		return driver_fail(a->drv, result, "cuMemFreeAsync");
	if (a->counted)
		a->frees++;
	return 0;
}

static int async_stats(struct allocator *base, struct vpmm_stats *stats)
{
	struct cuda_async *a = (struct cuda_async *)base;
	drv_u64 held, peak;
	drv_result result;

	result = a->drv->cuMemPoolGetAttribute(a->pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held);
	if (!result)
		result = a->drv->cuMemPoolGetAttribute(a->pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &peak);
	if (result)
		return driver_fail(a->drv, result, "cuMemPoolGetAttribute");
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

	a->drv->cuMemPoolDestroy(a->pool);
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
	drv_result result;
	drv_mem_pool pool;

	result = dev->drv->cuMemPoolCreate(&pool, &props);
	if (result)
		return driver_fail(dev->drv, result, "cuMemPoolCreate");
	result = dev->drv->cuMemPoolSetAttribute(pool, DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	if (result) {
		dev->drv->cuMemPoolDestroy(pool);
		return driver_fail(dev->drv, result, "cuMemPoolSetAttribute");
	}
	a = g_new0(struct cuda_async, 1);
	a->base.ops = &async_ops;
	a->drv = dev->drv;
	a->pool = pool;
	a->counted = !base->opts.uncounted;
	*allocator = &a->base;
	return 0;
}

static void count_malloc(struct cuda_malloc *a, void *ptr, size_t size)
{
	size_t taken = (size + GRANULE - 1) & ~(GRANULE - 1);

	g_hash_table_insert(a->sizes, ptr, GSIZE_TO_POINTER(taken));
	a->taken += taken;
	a->peak = MAX(a->peak, a->taken);
	a->mallocs++;
}

static void count_free(struct cuda_malloc *a, void *ptr)
{
	a->taken -= GPOINTER_TO_SIZE(g_hash_table_lookup(a->sizes, ptr));
	g_hash_table_remove(a->sizes, ptr);
	a->frees++;
}

static int malloc_alloc(struct allocator *base, void **ptr, size_t size, struct CUstream_st *stream)
{
	struct cuda_malloc *a = (struct cuda_malloc *)base;
	drv_deviceptr va = 0;
	drv_result result;

	(void)stream;
	if (size) {
		result = a->drv->cuMemAlloc(&va, size);
		if (result)
			return driver_fail(a->drv, result, "cuMemAlloc of %zu bytes", size);
		if (a->sizes)
			count_malloc(a, (void *)(uintptr_t)va, size);
	}
	*ptr = (void *)(uintptr_t)va;
	return 0;
}

static int malloc_free(struct allocator *base, void *ptr, struct CUstream_st *stream)
{
	struct cuda_malloc *a = (struct cuda_malloc *)base;
	drv_result result;

	(void)stream;
	if (!ptr)
		return 0;
	result = a->drv->cuMemFree((drv_deviceptr)(uintptr_t)ptr);
	if (result)
		return driver_fail(a->drv, result, "cuMemFree");
	if (a->sizes)
		count_free(a, ptr);
	return 0;
}

static int malloc_stats(struct allocator *base, struct vpmm_stats *stats)
{
	struct cuda_malloc *a = (struct cuda_malloc *)base;

	*stats = (struct vpmm_stats){
		.size = sizeof(*stats),
		.mapped = a->taken,
		.live = a->taken,
		.peak_live = a->peak,
		.peak_mapped = a->peak,
		.peak_taken = a->peak,
		.mallocs = a->mallocs,
		.frees = a->frees,
	};
	return 0;
}

static void malloc_destroy(struct allocator *base)
{
	struct cuda_malloc *a = (struct cuda_malloc *)base;

	if (a->sizes)
		g_hash_table_destroy(a->sizes);
	g_free(a);
}

static const struct allocator_ops malloc_ops = {
	.alloc = malloc_alloc,
	.free = malloc_free,
	.stats = malloc_stats,
	.error = fail_text,
	.destroy = malloc_destroy,
};

int device_cuda_malloc(struct device *base, struct allocator **allocator)
{
	struct device_cuda *dev = (struct device_cuda *)base;
	struct cuda_malloc *a;

	a = g_new0(struct cuda_malloc, 1);
	a->base.ops = &malloc_ops;
	a->drv = dev->drv;
	if (!base->opts.uncounted)
		a->sizes = g_hash_table_new(NULL, NULL);
	*allocator = &a->base;
	return 0;
}
