// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams and events of a CUDA device. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/device.h"
#include "util/error.h"

/*
 * An event that is recorded on a stream under capture belongs to the graph: to query it later fails, and invalidates
 * the capture. Everything that is done with a stream begins by asking for its id, so it ends here, before the driver
 * is asked for the id: it does not tell that of such a stream.
 */
int cuda_stream_id(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	struct cuda *cuda = cuda_of(be);
	drv_capture_status status;
	drv_result result;
	drv_u64 got;

	result = drv.cuStreamIsCapturing(stream, &status);
	if (G_UNLIKELY(result))
		return cuda_check(result, "cuStreamIsCapturing of stream %p", (void *)stream);
	if (G_UNLIKELY(status != DRV_STREAM_CAPTURE_STATUS_NONE))
		return error_set(-EBUSY, "stream %p is being captured into a graph", (void *)stream);
	if (cuda_is_legacy(stream)) {
		got = atomic_load_explicit(&cuda->legacy_id, memory_order_relaxed);
		if (G_LIKELY(got != LEGACY_UNKNOWN)) {
			*id = got;
			return 0;
		}
	}
	result = drv.cuStreamGetId(stream, &got);
	if (G_UNLIKELY(result))
		return cuda_check(result, "cuStreamGetId of stream %p", (void *)stream);
	if (cuda_is_legacy(stream))
		atomic_store_explicit(&cuda->legacy_id, got, memory_order_relaxed);
	*id = got;
	return 0;
}

/* The driver promises no id for a capture that was invalidated; one that it tells all the same is right. */
int cuda_stream_capture(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	drv_capture_status status;
	uint64_t got = 0;
	int err;

	(void)be;
	err = cuda_check(drv.cuStreamGetCaptureInfo(stream, &status, &got, NULL, NULL, NULL),
			 "cuStreamGetCaptureInfo of stream %p", (void *)stream);
	if (err)
		return err;
	if (status == DRV_STREAM_CAPTURE_STATUS_NONE)
		got = 0;
	else if (!got)
		return error_set(-EBUSY, "stream %p is under a capture that was invalidated", (void *)stream);
	*id = got;
	return 0;
}

/*
 * A struct backend_event is the driver's own event under another name. The driver does not tell which events keep time,
 * so the lowest bit of their addresses does.
 */
#define EVENT_TIMED ((uintptr_t)1)

static drv_event event_of(struct backend_event *event)
{
	return (drv_event)((uintptr_t)event & ~EVENT_TIMED);
}

static bool event_is_timed(struct backend_event *event)
{
	return (uintptr_t)event & EVENT_TIMED;
}

int cuda_stream_wait(struct backend *be, struct CUstream_st *stream, struct backend_event *event)
{
	(void)be;
	return cuda_check(drv.cuStreamWaitEvent(stream, event_of(event), 0), "cuStreamWaitEvent on stream %p",
			  (void *)stream);
}

/*
 * Reuses events: that costs less than a new one, and an event can be recorded again while streams still wait on the
 * device for its earlier record. The last one returned is taken first, as its memory is most likely cached.
 */
static int event_take(struct cuda *cuda, bool timed, struct backend_event **event)
{
	GPtrArray *spare = timed ? cuda->spare_timed : cuda->spare;
	drv_event got = NULL;
	int err;

	lock_acquire(&cuda->lock);
	if (spare->len)
		got = g_ptr_array_remove_index_fast(spare, spare->len - 1);
	lock_release(&cuda->lock);
	if (!got) {
		/* It is of the current context, which is the program's where a cache marks a free without an enter. */
		err = cuda_enter(&cuda->base);
		if (err)
			return err;
		err = cuda_check(drv.cuEventCreate(&got, timed ? DRV_EVENT_DEFAULT : DRV_EVENT_DISABLE_TIMING),
				 "cuEventCreate");
		cuda_leave(&cuda->base);
		if (err)
			return err;
	}
	*event = (struct backend_event *)((uintptr_t)got | (timed ? EVENT_TIMED : 0));
	return 0;
}

int cuda_event_create(struct backend *be, struct backend_event **event)
{
	return event_take(cuda_of(be), false, event);
}

int cuda_event_create_timed(struct backend *be, struct backend_event **event)
{
	return event_take(cuda_of(be), true, event);
}

void cuda_event_destroy(struct backend *be, struct backend_event *event)
{
	struct cuda *cuda = cuda_of(be);

	lock_acquire(&cuda->lock);
	g_ptr_array_add(event_is_timed(event) ? cuda->spare_timed : cuda->spare, event_of(event));
	lock_release(&cuda->lock);
}

int cuda_event_record(struct backend *be, struct backend_event *event, struct CUstream_st *stream)
{
	(void)be;
	return cuda_check(drv.cuEventRecord(event_of(event), stream), "cuEventRecord on stream %p", (void *)stream);
}

/*
 * While a stream is captured, the driver fails to record the context, and invalidates that capture. Of a blocking
 * stream that can be known beforehand: the legacy default stream is not to be used then.
 */
int cuda_event_record_all(struct backend *be, struct backend_event *event)
{
	drv_capture_status status;
	int err;

	if (!drv.cuCtxRecordEvent)
		return error_set(-ENOTSUP, "the driver has no cuCtxRecordEvent, which is of CUDA 12.5");
	err = cuda_check(drv.cuStreamIsCapturing(DRV_STREAM_LEGACY, &status),
			 "cuStreamIsCapturing of the legacy default stream");
	return err ?: cuda_check(drv.cuCtxRecordEvent(cuda_of(be)->context, event_of(event)), "cuCtxRecordEvent");
}

int cuda_event_query(struct backend *be, struct backend_event *event, int *complete)
{
	drv_result result;

	(void)be;
	cuda_relax();
	result = drv.cuEventQuery(event_of(event));
	if (result && result != DRV_ERROR_NOT_READY)
		return cuda_check(result, "cuEventQuery");
	*complete = !result;
	return 0;
}

int cuda_event_sync(struct backend *be, struct backend_event *event)
{
	(void)be;
	cuda_relax();
	return cuda_check(drv.cuEventSynchronize(event_of(event)), "cuEventSynchronize");
}

/*
 * CUDA 12.8 has a later version of this call, which does not report errors of pending work. All drivers have this one.
 */
int cuda_event_elapsed(struct backend *be, struct backend_event *start, struct backend_event *end, int64_t *ns)
{
	float ms;
	int err;

	(void)be;
	cuda_relax();
	err = cuda_check(drv.cuEventElapsedTime(&ms, event_of(start), event_of(end)), "cuEventElapsedTime");
	if (!err)
		*ns = (int64_t)((double)ms * 1e6 + (ms < 0 ? -0.5 : 0.5));
	return err;
}

/* As small as it gets. */
#define HOST_BYTES 4096

/*
 * To give pinned memory back waits for all that any stream of the context is at, and lets captures go on, which
 * cuCtxSynchronize() invalidates. Nor does it take memory of the device, of which there may be none when this is
 * called.
 */
int cuda_sync(struct backend *be)
{
	drv_result result;
	void *host;

	(void)be;
	cuda_relax();
	result = drv.cuMemAllocHost(&host, HOST_BYTES);
	if (result)
		return cuda_check(result, "cuMemAllocHost of %d bytes", HOST_BYTES);
	result = drv.cuMemFreeHost(host);
	if (!result)
		return 0;
	/* It may report what was earlier, and then there is no other way to get rid of it. */
	drv.cuMemFreeHost(host);
	return cuda_check(result, "cuMemFreeHost");
}

int cuda_clear(struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream)
{
	(void)be;
	return cuda_check(drv.cuMemsetD8Async(va, 0, size, stream), "cuMemsetD8Async of %zu bytes at %#" PRIx64, size,
			  va);
}

int cuda_copy(struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream)
{
	(void)be;
	return cuda_check(drv.cuMemcpyDtoDAsync(to, from, size, stream),
			  "cuMemcpyDtoDAsync of %zu bytes from %#" PRIx64 " to %#" PRIx64, size, from, to);
}
