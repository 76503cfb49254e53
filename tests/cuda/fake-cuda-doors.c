// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The variants that a driver exports beside what libvpmm calls, and its own resolver: what programs reach, by whatever
 * door, under the preload object. What a driver tells about memory is as measured on driver 580.
 */
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/hooks.h"

static drv_stream per_thread(drv_stream stream)
{
	return stream ? stream : DRV_STREAM_PER_THREAD;
}

drv_result cuMemAllocAsync_ptsz(drv_deviceptr *va, size_t size, drv_stream stream)
{
	return cuMemAllocAsync(va, size, per_thread(stream));
}

drv_result cuMemAllocFromPoolAsync_ptsz(drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)
{
	return cuMemAllocFromPoolAsync(va, size, pool, per_thread(stream));
}

drv_result cuMemFreeAsync_ptsz(drv_deviceptr va, drv_stream stream)
{
	return cuMemFreeAsync(va, per_thread(stream));
}

drv_result cuMemAllocPitch_v2(drv_deviceptr *va, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	if (element != 4 && element != 8 && element != 16)
		return DRV_ERROR_INVALID_VALUE;
	*pitch = (width + 511) / 512 * 512;
	return cuMemAlloc_v2(va, *pitch * height);
}

drv_result cuMemcpyDtoDAsync_v2_ptsz(drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)
{
	return cuMemcpyDtoDAsync_v2(to, from, size, per_thread(stream));
}

drv_result cuMemcpyAsync(drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)
{
	return cuMemcpyDtoDAsync_v2(to, from, size, stream);
}

drv_result cuMemcpyAsync_ptsz(drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)
{
	return cuMemcpyAsync(to, from, size, per_thread(stream));
}

static drv_result copy_now(drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)
{
	drv_result result = cuMemcpyAsync(to, from, size, stream);

	return result ? result : cuStreamSynchronize(stream);
}

drv_result cuMemcpy(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	return copy_now(to, from, size, NULL);
}

drv_result cuMemcpy_ptds(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	return copy_now(to, from, size, DRV_STREAM_PER_THREAD);
}

drv_result cuMemcpyDtoD_v2(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	return copy_now(to, from, size, NULL);
}

drv_result cuMemcpyDtoD_v2_ptds(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	return copy_now(to, from, size, DRV_STREAM_PER_THREAD);
}

drv_result cuDevicePrimaryCtxRelease(drv_device device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

drv_result cuDevicePrimaryCtxReset(drv_device device)
{
	return cuDevicePrimaryCtxReset_v2(device);
}

drv_result cuStreamGetCtx(drv_stream stream, drv_context *context)
{
	BEGIN_IN(cuStreamGetCtx, current);
	stream_check("cuStreamGetCtx", stream);
	*context = stream_home(stream, current);
	return DRV_SUCCESS;
}

/* Captures of its streams end with it. */
drv_result cuCtxDestroy_v2(drv_context context)
{
	BEGIN(cuCtxDestroy);
	streams_end_captures(context);
	fake_cuda_context_destroy(context);
	return DRV_SUCCESS;
}

drv_result cuCtxDestroy(drv_context context)
{
	return cuCtxDestroy_v2(context);
}

drv_result cuStreamDestroy(drv_stream stream)
{
	return cuStreamDestroy_v2(stream);
}

drv_result cuStreamBeginCapture(drv_stream stream)
{
	return cuStreamBeginCapture_v2(stream, DRV_STREAM_CAPTURE_MODE_GLOBAL);
}

drv_result cuStreamBeginCapture_ptsz(drv_stream stream)
{
	return cuStreamBeginCapture(per_thread(stream));
}

drv_result cuStreamBeginCapture_v2_ptsz(drv_stream stream, drv_capture_mode mode)
{
	return cuStreamBeginCapture_v2(per_thread(stream), mode);
}

drv_result cuStreamEndCapture_ptsz(drv_stream stream, drv_graph *graph)
{
	return cuStreamEndCapture(per_thread(stream), graph);
}

/*
 * What a driver answers a name with, from the version of CUDA on that brought it. By address: dlsym() would be answered
 * by whoever stands in front of it.
 */
static const struct {
	const char *name;
	void *legacy;
	void *per_thread;		/* the variant for the calling thread's default stream */
	int version;
} variants[] = {
#define ONE(name, call, version) { #name, (void *)(call), (void *)(call), (version) }
#define BOTH(name, call, version) { #name, (void *)(call), (void *)call##_ptsz, (version) }
	ONE(cuGetProcAddress, cuGetProcAddress_v2, 12000),
	ONE(cuGetProcAddress, cuGetProcAddress, 11030),
	ONE(cuMemAlloc, cuMemAlloc_v2, 3020),
	ONE(cuMemAllocPitch, cuMemAllocPitch_v2, 3020),
	ONE(cuMemFree, cuMemFree_v2, 3020),
	ONE(cuMemGetInfo, cuMemGetInfo_v2, 3020),
	BOTH(cuMemAllocAsync, cuMemAllocAsync, 11020),
	BOTH(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020),
	BOTH(cuMemFreeAsync, cuMemFreeAsync, 11020),
	BOTH(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020),
	BOTH(cuMemcpyAsync, cuMemcpyAsync, 4000),
	ONE(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010),
	ONE(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000),
	ONE(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010),
	ONE(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010),
	ONE(cuLaunchKernel, cuLaunchKernel, 4000),
	ONE(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000),
	ONE(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000),
	ONE(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000),
	ONE(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000),
	ONE(cuStreamDestroy, cuStreamDestroy_v2, 4000),
	BOTH(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010),
	BOTH(cuStreamBeginCapture, cuStreamBeginCapture, 10000),
	BOTH(cuStreamEndCapture, cuStreamEndCapture, 10000),
	ONE(cuCtxGetCurrent, cuCtxGetCurrent, 4000),
#undef ONE
#undef BOTH
};

static void *resolve(const char *name, int version, bool per_thread_default)
{
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(variants); i++)
		if (!strcmp(name, variants[i].name) && version >= variants[i].version)
			return per_thread_default ? variants[i].per_thread : variants[i].legacy;
	return NULL;
}

drv_result cuGetProcAddress(const char *name, void **call, int version, drv_u64 flags)
{
	*call = resolve(name, version, flags & 2);
	return *call ? DRV_SUCCESS : DRV_ERROR_NOT_FOUND;
}

drv_result cuGetProcAddress_v2(const char *name, void **call, int version, drv_u64 flags, drv_enum *status)
{
	drv_result result = cuGetProcAddress(name, call, version, flags);

	if (status)
		*status = result ? 1 : 0;
	return result;
}
