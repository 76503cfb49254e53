// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The stream-ordered allocator. What is captured goes to the driver: its memory belongs to the graph, and nobody tells
 * us when that and all its copies are gone.
 */
#include <errno.h>

#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/library.h"
#include "preload/monitor.h"
#include "preload/own.h"
#include "preload/pools.h"
#include "preload/primary.h"
#include "preload/settings.h"
#include "preload/wait.h"

/* An error is for the driver to report. */
static bool may_be_captured(drv_stream stream)
{
	drv_capture_status status = DRV_STREAM_CAPTURE_STATUS_NONE;

	return FORWARD(cuStreamIsCapturing, stream, &status) || status != DRV_STREAM_CAPTURE_STATUS_NONE;
}

/* What a request says; @pool: that of the program, or if not @named, the device's current one. */
struct ordered {
	size_t size;
	drv_mem_pool pool;
	bool named;
	drv_stream stream;
};

static bool is_left_async(const struct ordered *request)
{
	return !request->size || request->size < settings()->min || request->size > settings()->max ||
	       settings()->async_driver;
}

/* The library stands for the default pool. */
static bool is_for_default(const struct ordered *request, int device)
{
	drv_mem_pool pool = request->pool;

	if (!request->named && FORWARD(cuDeviceGetMemPool, &pool, device))
		return false;
	return pool && pool == pools_default(device);
}

static bool stream_is_of(drv_stream stream, int device)
{
	drv_context context;
	int owner;

	return !stream_context(stream, &context) && primary_of(context, &owner) && owner == device;
}

/* The device's primary context is current, so a default stream is of that, and nobody need be asked. */
static bool is_of_current(drv_stream stream, int device)
{
	return stream_is_default(stream) || stream_is_of(stream, device);
}

static bool serve_ordered(drv_deviceptr *va, const struct ordered *request, drv_result *result)
{
	void *ptr = NULL;
	int device, err;

	if (!va || is_left_async(request) || !library_serves(&device) || may_be_captured(request->stream) ||
	    !is_of_current(request->stream, device) || !is_for_default(request, device))
		return false;
	err = GATED(LIBRARY(vpmm_malloc, NULL, &ptr, request->size, request->stream));
	return library_answer(device, err, ptr, va, result);
}

/*
 * What the driver says to a free on a stream that it answers an error for, such as the legacy default stream while a
 * blocking stream is under capture, and what becomes of the capture then, a call of the same kind finds out. Of a block
 * of ours the driver would say that it knows of none; or free it, if it has it for the library.
 */
static drv_result refuse_free(drv_stream stream)
{
	drv_deviceptr probe;
	drv_result result = FORWARD(cuMemAllocAsync, &probe, 1, stream);

	if (result)
		return result;
	result = FORWARD(cuMemFreeAsync, probe, stream);
	/* A probe whose free is refused as well is freed at once, because nothing uses it. */
	if (result)
		RELAXED(cuMemFree_v2, probe);
	return result;
}

static bool is_ours(drv_deviceptr va)
{
	struct vpmm_allocation block;

	return library_find(va, &block) && block.base == (void *)va;
}

/*
 * A stream of another context has no order that the library knows. Its work is waited for, in a way that no capture of
 * another thread suffers from, and then the block is freed as cuMemFree() does.
 */
static drv_result free_on_other(const struct vpmm_allocation *block, drv_stream stream)
{
	drv_result result = RELAXED(cuStreamSynchronize, stream);

	return result ? result : free_without_stream(block);
}

/* Whether the block, if it is ours, is of another context than the stream. With one device a look at that tells. */
static bool is_on_other(drv_deviceptr va, drv_stream stream, struct vpmm_allocation *block)
{
	int device;

	return !(primary_only(&device) && stream_is_of(stream, device)) && library_find(va, block) &&
	       block->base == (void *)va && !stream_is_of(stream, block->device);
}

/* A block of somebody else is the driver's to free; unless it has that for the library still, after an earlier free. */
static bool free_ordered(drv_deviceptr va, drv_stream stream, drv_result *result)
{
	drv_capture_status status = DRV_STREAM_CAPTURE_STATUS_NONE;
	struct vpmm_allocation block;
	drv_result refused;

	if (!va || !library_used())
		return false;
	if (FORWARD(cuStreamIsCapturing, stream, &status) && is_ours(va)) {
		*result = refuse_free(stream);
		if (*result)
			return true;
	} else if (status != DRV_STREAM_CAPTURE_STATUS_NONE) {
		return false;
	}
	if (is_on_other(va, stream, &block)) {
		*result = free_on_other(&block, stream);
		return true;
	}
	*result = free_on((void *)va, stream);
	if (!*result || *result == DRV_ERROR_OUT_OF_MEMORY)
		return true;
	if (!is_ours(va))
		return library_look(va, &block) == -EALREADY;
	refused = refuse_free(stream);
	if (refused)
		*result = refused;
	return true;
}

/* What is captured is none of the process's allocations yet. */
static drv_result note_ordered(drv_result result, const drv_deviceptr *va, const struct ordered *request)
{
	int device;

	if (settings()->monitor && !result && !is_left_async(request) && library_wants(&device) &&
	    !may_be_captured(request->stream) && is_of_current(request->stream, device) &&
	    is_for_default(request, device))
		monitor_allocated(device, *va, request->size, request->stream);
	return result;
}

static void note_async_free(drv_deviceptr va, drv_stream stream)
{
	if (settings()->monitor && !may_be_captured(stream))
		monitor_free(va, stream);
}

/* @meant: the stream; behind it, the arguments of the call. */
#define ALLOCATES(name, params, pool, named, meant, ...) \
	drv_result name params \
	{ \
		const struct ordered request = { size, pool, named, meant }; \
		drv_result result; \
		\
		if (serve_ordered(va, &request, &result)) \
			return result; \
		return note_ordered(FORWARD_REQUEST(name, __VA_ARGS__), va, &request); \
	}
#define FREES(name, meant) \
	drv_result name(drv_deviceptr va, drv_stream stream) \
	{ \
		drv_result result; \
		\
		if (free_ordered(va, meant, &result)) \
			return result; \
		note_async_free(va, meant); \
		return FORWARD(name, va, stream); \
	}

ALLOCATES(cuMemAllocAsync, (drv_deviceptr *va, size_t size, drv_stream stream), NULL, false, stream, va, size, stream)
ALLOCATES(cuMemAllocAsync_ptsz, (drv_deviceptr *va, size_t size, drv_stream stream), NULL, false,
	  stream_per_thread(stream), va, size, stream)
#define FROM_POOL (drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)
ALLOCATES(cuMemAllocFromPoolAsync, FROM_POOL, pool, true, stream, va, size, pool, stream)
ALLOCATES(cuMemAllocFromPoolAsync_ptsz, FROM_POOL, pool, true, stream_per_thread(stream), va, size, pool, stream)
FREES(cuMemFreeAsync, stream)
FREES(cuMemFreeAsync_ptsz, stream_per_thread(stream))
