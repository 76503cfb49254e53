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
		return cuda_check(result, "cuMemPoolCreate on device %d", cuda->ordinal);
	result = drv.cuMemPoolSetAttribute(cuda->pool, DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	if (result) {
		drv.cuMemPoolDestroy(cuda->pool);
		return cuda_check(result, "cuMemPoolSetAttribute of the release threshold");
	}
	return 0;
}

int cuda_small_access(struct cuda *cuda, const drv_access_desc *descs, size_t count)
{
	if (!cuda->pool || !count)
		return 0;
	if (!drv.cuMemPoolSetAccess)
		return error_set(-ENOTSUP, "the driver of CUDA device %d lets no other device access its memory pools",
				 cuda->ordinal);
	cuda_relax();
	return cuda_check(drv.cuMemPoolSetAccess(cuda->pool, descs, count), "cuMemPoolSetAccess of %zu devices", count);
}

int cuda_small_alloc(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	struct cuda *cuda = cuda_of(be);
	drv_deviceptr got;
	int err;

	if (!cuda->pool)
		return error_set(-ENOTSUP, "CUDA device %d has no memory pools to take %zu bytes from", cuda->ordinal,
				 size);
	cuda_relax();
	err = cuda_check_memory(drv.cuMemAllocFromPoolAsync(&got, size, cuda->pool, stream), "cuMemAllocFromPoolAsync",
				size);
	if (!err)
		*va = got;
	return err;
}

int cuda_small_free(struct backend *be, uint64_t va, struct CUstream_st *stream)
{
	int err;

	if (!cuda_of(be)->pool)
		return error_set(-EINVAL, "CUDA device %d has no memory pools", cuda_of(be)->ordinal);
	cuda_relax();
	err = cuda_check(drv.cuMemFreeAsync(va, stream), "cuMemFreeAsync of %#" PRIx64, va);
	if (!err)
		cuda_frees_note(&cuda_of(be)->frees, stream);
	return err;
}

int cuda_small_held(struct backend *be, uint64_t *bytes, uint64_t *peak)
{
	drv_mem_pool pool = cuda_of(be)->pool;
	drv_u64 current = 0, high = 0;
	int err = 0;

	if (pool) {
		cuda_relax();
		err = cuda_check(drv.cuMemPoolGetAttribute(pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &current) ?:
				 drv.cuMemPoolGetAttribute(pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high),
				 "cuMemPoolGetAttribute");
	}
	if (!err) {
		*bytes = current;
		*peak = high;
	}
	return err;
}

/*
 * The memory pool is this backend's own, so nothing is taken from what the program keeps in the device's default one.
 */
int cuda_small_trim(struct backend *be, uint64_t keep, bool *pending)
{
	drv_mem_pool pool = cuda_of(be)->pool;
	bool left = false;
	int err = 0;

	if (pool) {
		cuda_relax();
		left = cuda_frees_poll(&cuda_of(be)->frees);
		err = cuda_check(drv.cuMemPoolTrimTo(pool, MIN(keep, SIZE_MAX)), "cuMemPoolTrimTo of %" PRIu64 " bytes",
				 keep);
	}
	if (!err)
		*pending = left;
	return err;
}
