/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The calls of the CUDA driver that the preload object stands in front of, and those that it makes itself.
 *
 * A variant that is not in the first list goes to the driver unseen, so each call that allocates needs the calls that
 * free beside it. The 32-bit variants of CUDA 3.1 (cuMemAlloc, cuMemFree without _v2) are left out on purpose: they
 * agree with one another, and nothing else uses them. tests/scripts/test-preload-symbols.sh compares the list with
 * what a driver exports.
 */
#ifndef PRELOAD_HOOKS_H
#define PRELOAD_HOOKS_H

#include <stddef.h>

#include "cuda/abi.h"
#include "preload/submissions.h"

/* CUipcMemHandle, which goes by value. */
struct drv_ipc_handle {
	char bytes[64];
};

/* X(name as the driver exports it, arguments); all return drv_result. */
#define PRELOAD_HOOKS(X) \
	X(cuGetProcAddress, (const char *name, void **call, int version, drv_u64 flags)) \
	X(cuGetProcAddress_v2, (const char *name, void **call, int version, drv_u64 flags, drv_enum *status)) \
	X(cuMemAlloc_v2, (drv_deviceptr *va, size_t size)) \
	X(cuMemAllocPitch_v2, (drv_deviceptr *va, size_t *pitch, size_t width, size_t height, unsigned int element)) \
	X(cuMemFree_v2, (drv_deviceptr va)) \
	X(cuMemGetInfo_v2, (size_t *free, size_t *total)) \
	X(cuMemAllocAsync, (drv_deviceptr *va, size_t size, drv_stream stream)) \
	X(cuMemAllocAsync_ptsz, (drv_deviceptr *va, size_t size, drv_stream stream)) \
	X(cuMemAllocFromPoolAsync, (drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)) \
	X(cuMemAllocFromPoolAsync_ptsz, (drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)) \
	X(cuMemFreeAsync, (drv_deviceptr va, drv_stream stream)) \
	X(cuMemFreeAsync_ptsz, (drv_deviceptr va, drv_stream stream)) \
	X(cuMemPoolTrimTo, (drv_mem_pool pool, size_t keep)) \
	X(cuMemPoolGetAttribute, (drv_mem_pool pool, drv_pool_attribute attribute, void *value)) \
	X(cuMemPoolSetAttribute, (drv_mem_pool pool, drv_pool_attribute attribute, void *value)) \
	X(cuMemPoolSetAccess, (drv_mem_pool pool, const drv_access_desc *descs, size_t count)) \
	X(cuMemGetAddressRange_v2, (drv_deviceptr *base, size_t *size, drv_deviceptr va)) \
	X(cuPointerGetAttribute, (void *value, drv_enum attribute, drv_deviceptr va)) \
	X(cuPointerGetAttributes, (unsigned int count, drv_enum *attributes, void **values, drv_deviceptr va)) \
	X(cuPointerSetAttribute, (const void *value, drv_enum attribute, drv_deviceptr va)) \
	X(cuIpcGetMemHandle, (void *handle, drv_deviceptr va)) \
	X(cuIpcOpenMemHandle, (drv_deviceptr *va, struct drv_ipc_handle handle, unsigned int flags)) \
	X(cuIpcOpenMemHandle_v2, (drv_deviceptr *va, struct drv_ipc_handle handle, unsigned int flags)) \
	X(cuIpcCloseMemHandle, (drv_deviceptr va)) \
	X(cuCtxEnablePeerAccess, (drv_context peer, unsigned int flags)) \
	X(cuCtxDisablePeerAccess, (drv_context peer)) \
	X(cuCtxDestroy, (drv_context context)) \
	X(cuCtxDestroy_v2, (drv_context context)) \
	X(cuDevicePrimaryCtxRetain, (drv_context *context, drv_device device)) \
	X(cuDevicePrimaryCtxRelease, (drv_device device)) \
	X(cuDevicePrimaryCtxRelease_v2, (drv_device device)) \
	X(cuDevicePrimaryCtxReset, (drv_device device)) \
	X(cuDevicePrimaryCtxReset_v2, (drv_device device)) \
	X(cuStreamDestroy, (drv_stream stream)) \
	X(cuStreamDestroy_v2, (drv_stream stream)) \
	X(cuStreamBeginCapture, (drv_stream stream)) \
	X(cuStreamBeginCapture_ptsz, (drv_stream stream)) \
	X(cuStreamBeginCapture_v2, (drv_stream stream, drv_capture_mode mode)) \
	X(cuStreamBeginCapture_v2_ptsz, (drv_stream stream, drv_capture_mode mode)) \
	X(cuStreamBeginCaptureToGraph, (drv_stream stream, drv_graph graph, const drv_graph_node *nodes, \
		const void *edges, size_t count, drv_capture_mode mode)) \
	X(cuStreamBeginCaptureToGraph_ptsz, (drv_stream stream, drv_graph graph, const drv_graph_node *nodes, \
		const void *edges, size_t count, drv_capture_mode mode)) \
	X(cuStreamEndCapture, (drv_stream stream, drv_graph *graph)) \
	X(cuStreamEndCapture_ptsz, (drv_stream stream, drv_graph *graph))

/* The same, for copies, which have a hook with VPMM_PRELOAD_MONITOR=1 or VPMM_PAUSABLE=1 only. */
#define PRELOAD_COPIES(X) \
	X(cuMemcpy, (drv_deviceptr to, drv_deviceptr from, size_t size)) \
	X(cuMemcpy_ptds, (drv_deviceptr to, drv_deviceptr from, size_t size)) \
	X(cuMemcpyAsync, (drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)) \
	X(cuMemcpyAsync_ptsz, (drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)) \
	X(cuMemcpyDtoD_v2, (drv_deviceptr to, drv_deviceptr from, size_t size)) \
	X(cuMemcpyDtoD_v2_ptds, (drv_deviceptr to, drv_deviceptr from, size_t size)) \
	X(cuMemcpyDtoDAsync_v2, (drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)) \
	X(cuMemcpyDtoDAsync_v2_ptsz, (drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream))

/* The same, for what is only called. */
#define PRELOAD_CALLS(X) \
	X(cuCtxGetCurrent, (drv_context *context)) \
	X(cuCtxGetDevice, (drv_device *device)) \
	X(cuCtxGetFlags, (unsigned int *flags)) \
	X(cuCtxSetFlags, (unsigned int flags)) \
	X(cuCtxPushCurrent_v2, (drv_context context)) \
	X(cuCtxPopCurrent_v2, (drv_context *context)) \
	X(cuCtxRecordEvent, (drv_context context, drv_event event)) \
	X(cuCtxSynchronize, (void)) \
	X(cuDeviceGetDefaultMemPool, (drv_mem_pool *pool, drv_device device)) \
	X(cuDeviceGetMemPool, (drv_mem_pool *pool, drv_device device)) \
	X(cuEventCreate, (drv_event *event, unsigned int flags)) \
	X(cuEventDestroy_v2, (drv_event event)) \
	X(cuEventQuery, (drv_event event)) \
	X(cuEventSynchronize, (drv_event event)) \
	X(cuMemAllocHost_v2, (void **to, size_t size)) \
	X(cuMemFreeHost, (void *from)) \
	X(cuStreamCreate, (drv_stream *stream, unsigned int flags)) \
	X(cuStreamGetCtx, (drv_stream stream, drv_context *context)) \
	X(cuStreamIsCapturing, (drv_stream stream, drv_capture_status *status)) \
	X(cuStreamSynchronize, (drv_stream stream)) \
	X(cuThreadExchangeStreamCaptureMode, (drv_capture_mode *mode))

#define X(name, args) drv_result name args;
PRELOAD_HOOKS(X)
PRELOAD_COPIES(X)
PRELOAD_CALLS(X)
#undef X

enum preload_call {
#define X(name, args) CALL_##name,
	PRELOAD_HOOKS(X)
	HOOKS,
	HOOKS_LAST = HOOKS - 1,
	PRELOAD_COPIES(X)
	COPIES_END,
	COPIES_LAST = COPIES_END - 1,
#undef X
#define X(name) CALL_##name,
	PRELOAD_SUBMISSIONS(X)
	WATCHED,
	WATCHED_LAST = WATCHED - 1,
#undef X
#define X(name, args) CALL_##name,
	PRELOAD_CALLS(X)
	CALLS,
#undef X
};

#endif /* PRELOAD_HOOKS_H */
