// SPDX-License-Identifier: LGPL-2.1-or-later
/* cuMemAlloc() and its kin, whose memory any stream may use at once, and cuMemFree(), which waits for the device. */
#include <errno.h>
#include <string.h>

#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/library.h"
#include "preload/monitor.h"
#include "preload/own.h"
#include "preload/primary.h"
#include "preload/settings.h"
#include "preload/wait.h"
#include "util/captures.h"

static bool is_left(size_t size)
{
	return !size || size < settings()->min || size > settings()->max || settings()->ipc_driver;
}

static bool serve_idle_malloc(drv_deviceptr *va, size_t size, drv_result *result)
{
	drv_stream stream;
	void *ptr = NULL;
	int device, err;

	if (is_left(size) || !library_serves(&device))
		return false;
	stream = own_stream(device);
	if (!stream)
		return false;
	err = GATED(LIBRARY(vpmm_malloc_flags, NULL, &ptr, size, stream, VPMM_IDLE));
	return library_answer(device, err, ptr, va, result);
}

static void note_idle(drv_deviceptr va, size_t size)
{
	int device;

	if (settings()->monitor && !is_left(size) && library_wants(&device))
		monitor_allocated(device, va, size, MONITOR_ANY);
}

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size)
{
	drv_result result;

	if (va && serve_idle_malloc(va, size, &result))
		return result;
	result = FORWARD_REQUEST(cuMemAlloc_v2, va, size);
	if (!result && va)
		note_idle(*va, size);
	return result;
}

/* As the driver does: rows begin at multiples of 512 bytes. */
#define PITCH_ALIGN 512

drv_result cuMemAllocPitch_v2(drv_deviceptr *va, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	size_t rows, size;
	drv_result result;

	if (va && pitch && (element == 4 || element == 8 || element == 16) &&
	    !__builtin_add_overflow(width, PITCH_ALIGN - 1, &rows)) {
		rows = rows / PITCH_ALIGN * PITCH_ALIGN;
		if (!__builtin_mul_overflow(rows, height, &size) && serve_idle_malloc(va, size, &result)) {
			if (!result)
				*pitch = rows;
			return result;
		}
	}
	result = FORWARD_REQUEST(cuMemAllocPitch_v2, va, pitch, width, height, element);
	if (!result && va && pitch)
		note_idle(*va, *pitch * height);
	return result;
}

/*
 * There is no wait beside a capture, as it would invalidate that. Whether the driver's cuMemFree() would, is up to the
 * capture's mode, and that only a call of the same kind finds out.
 */
static drv_result wait_before_free(int device)
{
	drv_deviceptr probe;
	drv_result result;
	bool captured;

	if (settings()->free_ordered)
		return DRV_SUCCESS;
	result = wait_for_device(device, &captured);
	if (!captured)
		return result;
	result = primary_push(device);
	if (result)
		return result;
	result = FORWARD(cuMemAlloc_v2, &probe, 1);
	if (!result) {
		result = FORWARD(cuMemFree_v2, probe);
		/* A probe whose free is refused is freed in the relaxed mode, because nothing uses it. */
		if (result)
			RELAXED(cuMemFree_v2, probe);
	}
	primary_pop();
	return result == DRV_ERROR_OUT_OF_MEMORY ? DRV_SUCCESS : result;
}

drv_result cuMemFree_v2(drv_deviceptr va)
{
	struct vpmm_allocation block;
	int err = va ? library_look(va, &block) : -EINVAL;
	drv_result result;

	/* The driver has it for the library still, and would free it once more. */
	if (err == -EALREADY)
		return DRV_ERROR_INVALID_VALUE;
	/* An address inside a block is as unknown to the driver as it would be without us. */
	if (err || block.base != (void *)va) {
		monitor_free(va, MONITOR_ANY);
		return FORWARD(cuMemFree_v2, va);
	}
	result = wait_before_free(block.device);
	return result ? result : free_without_stream(&block);
}

/* Of a budget the program sees what is left for it, with what others do not use, as if there were no more. */
static void bound_by_budget(const struct vpmm_stats *stats, size_t *free, size_t *total)
{
	uint64_t room = stats->budget_left + stats->budget_idle + stats->free;

	if (!stats->budget_size)
		return;
	if (*free > room)
		*free = room;
	if (total && *total > stats->budget_size)
		*total = stats->budget_size;
}

/* What could be had: the driver's free memory, and the library's. */
static void add_free(size_t *free, size_t *total)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct vpmm_info info = { .size = sizeof(info) };
	uint64_t taken, room;

	if (LIBRARY(vpmm_pool_stats, NULL, &stats) || LIBRARY(vpmm_pool_info, NULL, &info) ||
	    strcmp(info.backend, "cuda"))
		return;
	taken = stats.live + stats.small_live + stats.shareable + stats.shared;
	room = info.limit > taken ? info.limit - taken : 0;
	*free += stats.free;
	if (*free > room)
		*free = room;
	bound_by_budget(&stats, free, total);
}

drv_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
	drv_result result = FORWARD(cuMemGetInfo_v2, free, total);
	size_t unasked = 0;
	int device;

	/* Either can be left out. */
	if (!result && library_serves(&device))
		add_free(free ? free : &unasked, total);
	return result;
}
