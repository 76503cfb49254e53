// SPDX-License-Identifier: LGPL-2.1-or-later
/* Small allocations of a CUDA device: its stream-ordered allocator, from a memory pool of our own. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>

#include "cuda/device.h"
#include "util/error.h"

static int has_pool_calls(void)
{
	return drv.cuMemPoolCreate && drv.cuMemPoolDestroy && drv.cuMemPoolSetAttribute && drv.cuMemPoolGetAttribute &&
	       drv.cuMemPoolTrimTo && drv.cuMemAllocFromPoolAsync && drv.cuMemFreeAsync;
}

/* A memory pool of our own leaves the settings of the device's default one to the program. */
int cuda_small_open(struct cuda *cuda)
{
	const drv_mem_pool_props props = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.handle_types = DRV_MEM_HANDLE_TYPE_NONE,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, cuda->device },
	};
	drv_u64 threshold = UINT64_MAX;
	drv_result result;
	int supported;

	result = drv.cuDeviceGetAttribute(&supported, DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, cuda->device);
	if (result || !supported || !has_pool_calls())
		return 0;
	cuda_relax();
	result = drv.cuMemPoolCreate(&cuda->pool, &props);
	if (result)
		return cuda_fail(result, "", "cuMemPoolCreate on device %d", cuda->ordinal);
	result = drv.cuMemPoolSetAttribute(cuda->pool, DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	if (result) {
		drv.cuMemPoolDestroy(cuda->pool);
		return cuda_fail(result, "", "cuMemPoolSetAttribute of the release threshold");
	}
	return 0;
}

int cuda_small_access(struct cuda *cuda, const drv_access_desc *descs, size_t count)
{
	drv_result result;

	if (!cuda->pool || !count)
		return 0;
	if (!drv.cuMemPoolSetAccess)
		return error_set(-ENOTSUP, "the driver of CUDA device %d lets no other device access its memory pools",
				 cuda->ordinal);
	cuda_relax();
	result = drv.cuMemPoolSetAccess(cuda->pool, descs, count);
	return result ? cuda_fail(result, "", "cuMemPoolSetAccess of %zu devices", count) : 0;
}

int cuda_small_alloc(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	struct cuda *cuda = cuda_of(be);
	drv_deviceptr got;
	drv_result result;

	if (!cuda->pool)
		return error_set(-ENOTSUP, "CUDA device %d has no memory pools to take %zu bytes from", cuda->ordinal,
				 size);
	cuda_relax();
	result = drv.cuMemAllocFromPoolAsync(&got, size, cuda->pool, stream);
	if (result)
		return cuda_fail_memory(result, "cuMemAllocFromPoolAsync", size);
	*va = got;
	return 0;
}

int cuda_small_free(struct backend *be, uint64_t va, struct CUstream_st *stream)
{
	drv_result result;

	if (!cuda_of(be)->pool)
		return error_set(-EINVAL, "CUDA device %d has no memory pools", cuda_of(be)->ordinal);
	cuda_relax();
	result = drv.cuMemFreeAsync(va, stream);
	if (result)
		return cuda_fail(result, "", "cuMemFreeAsync of %#" PRIx64, va);
	cuda_frees_note(&cuda_of(be)->frees, stream);
	return 0;
}

int cuda_small_held(struct backend *be, uint64_t *bytes, uint64_t *peak)
{
	drv_mem_pool pool = cuda_of(be)->pool;
	drv_u64 current = 0, high = 0;
	drv_result result;

	if (pool) {
		cuda_relax();
		result = drv.cuMemPoolGetAttribute(pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &current);
		if (!result)
			result = drv.cuMemPoolGetAttribute(pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high);
		if (result)
			return cuda_fail(result, "", "cuMemPoolGetAttribute");
	}
	*bytes = current;
	*peak = high;
	return 0;
}

/*
 * The memory pool is this backend's own, so nothing is taken from what the program keeps in the device's default one.
 */
int cuda_small_trim(struct backend *be, uint64_t keep, bool *pending)
{
	drv_mem_pool pool = cuda_of(be)->pool;
	drv_result result;
	bool left = false;

	if (pool) {
		cuda_relax();
		left = cuda_frees_poll(&cuda_of(be)->frees);
		result = drv.cuMemPoolTrimTo(pool, MIN(keep, SIZE_MAX));
		if (result)
			return cuda_fail(result, "", "cuMemPoolTrimTo of %" PRIu64 " bytes", keep);
	}
	*pending = left;
	return 0;
}
