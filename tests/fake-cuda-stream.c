// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams and events of the suite's own libcuda.so.1. */
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "fake-cuda-inside.h"
#include "host-stream.h"

/* What an event stands for; NULL before it is recorded. */
struct CUevent_st {
	struct backend_event *point;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static drv_stream capturing;		/* nothing that is submitted to it goes into the graph; under the lock */

static bool is_capturing(drv_stream stream)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = capturing && capturing == stream;
	pthread_mutex_unlock(&lock);
	return is;
}

#ifndef FAKE_CUDA_OLD
drv_result cuStreamGetId(drv_stream stream, drv_u64 *id)
{
	BEGIN_IN(cuStreamGetId, context);
	if (is_capturing(stream))
		return DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return HOST(context, stream_id, stream, id) ? DRV_ERROR_INVALID_HANDLE : DRV_SUCCESS;
}
#endif

drv_result cuStreamIsCapturing(drv_stream stream, drv_capture_status *status)
{
	BEGIN_IN(cuStreamIsCapturing, context);
	(void)context;
	*status = is_capturing(stream) ? DRV_STREAM_CAPTURE_STATUS_ACTIVE : DRV_STREAM_CAPTURE_STATUS_NONE;
	return DRV_SUCCESS;
}

drv_result cuStreamBeginCapture_v2(drv_stream stream, drv_capture_mode mode)
{
	BEGIN_IN(cuStreamBeginCapture, context);
	(void)context;
	if (!stream || mode != DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL)
		return DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	capturing = stream;
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result cuStreamEndCapture(drv_stream stream, drv_graph *graph)
{
	drv_result result = DRV_ERROR_INVALID_VALUE;

	BEGIN_IN(cuStreamEndCapture, context);
	(void)context;
	pthread_mutex_lock(&lock);
	if (capturing == stream) {
		capturing = NULL;
		*graph = (drv_graph)&capturing;
		result = DRV_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

drv_result cuGraphDestroy(drv_graph graph)
{
	BEGIN_IN(cuGraphDestroy, context);
	(void)context;
	return graph == (drv_graph)&capturing ? DRV_SUCCESS : DRV_ERROR_INVALID_VALUE;
}

drv_result cuStreamWaitEvent(drv_stream stream, drv_event event, unsigned int flags)
{
	BEGIN_IN(cuStreamWaitEvent, context);
	if (flags)
		return DRV_ERROR_INVALID_VALUE;
	return event->point ? HOST(context, stream_wait, stream, event->point) : DRV_SUCCESS;
}

drv_result cuEventCreate(drv_event *event, unsigned int flags)
{
	BEGIN_IN(cuEventCreate, context);
	(void)context;
	if (flags != DRV_EVENT_DISABLE_TIMING)
		return DRV_ERROR_INVALID_VALUE;
	*event = g_new0(struct CUevent_st, 1);
	return DRV_SUCCESS;
}

drv_result cuEventDestroy_v2(drv_event event)
{
	BEGIN_IN(cuEventDestroy, context);
	(void)context;
	if (!event)
		return DRV_ERROR_INVALID_HANDLE;
	host_event_unref(event->point);
	g_free(event);
	return DRV_SUCCESS;
}

/* Recorded again, an event stands for the later point; who waits for the earlier one goes on to do so. */
drv_result cuEventRecord(drv_event event, drv_stream stream)
{
	struct backend_event *point;
	drv_result result;

	BEGIN_IN(cuEventRecord, context);
	point = host_event_create();
	result = HOST(context, event_record, point, stream);
	if (result) {
		host_event_unref(point);
		return result;
	}
	host_event_unref(event->point);
	event->point = point;
	return DRV_SUCCESS;
}

drv_result cuEventQuery(drv_event event)
{
	int complete = 0;
	drv_result result;

	BEGIN_IN(cuEventQuery, context);
	if (!event->point)
		return DRV_SUCCESS;
	result = HOST(context, event_query, event->point, &complete);
	return result || complete ? result : DRV_ERROR_NOT_READY;
}

drv_result cuEventSynchronize(drv_event event)
{
	BEGIN_IN(cuEventSynchronize, context);
	return event->point ? HOST(context, event_sync, event->point) : DRV_SUCCESS;
}

drv_result cuStreamCreate(drv_stream *stream, unsigned int flags)
{
	BEGIN_IN(cuStreamCreate, context);
	/* No stream of the host backend waits for the default stream by itself. */
	if (flags != DRV_STREAM_NON_BLOCKING)
		return DRV_ERROR_NOT_SUPPORTED;
	*stream = host_stream_create(context->device);
	return DRV_SUCCESS;
}

drv_result stream_sync(struct CUctx_st *context, drv_stream stream)
{
	struct backend_event *event = host_event_create();
	int err;

	err = host_event_record(context->device, event, stream);
	if (!err)
		err = host_event_sync(event);
	host_event_unref(event);
	return result_of(err);
}

/* What is pending completes before the stream goes, as a device would see to in its own time. */
drv_result cuStreamDestroy_v2(drv_stream stream)
{
	drv_result result;

	BEGIN_IN(cuStreamDestroy, context);
	result = stream_sync(context, stream);
	return result ? result : result_of(host_stream_destroy(stream));
}

drv_result cuStreamQuery(drv_stream stream)
{
	unsigned int pending;
	int err;

	BEGIN_IN(cuStreamQuery, context);
	err = host_stream_pending(context->device, stream, &pending);
	if (err)
		return DRV_ERROR_INVALID_HANDLE;
	return pending ? DRV_ERROR_NOT_READY : DRV_SUCCESS;
}

drv_result cuStreamSynchronize(drv_stream stream)
{
	BEGIN_IN(cuStreamSynchronize, context);
	return stream_sync(context, stream);
}

drv_result cuCtxSynchronize(void)
{
	BEGIN_IN(cuCtxSynchronize, context);
	return result_of(host_stream_sync_all(context->device));
}
