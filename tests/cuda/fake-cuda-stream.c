// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams and events of the suite's own libcuda.so.1. */
#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "cuda/fake-cuda-inside.h"
#include "host/graphs.h"
#include "host/streams.h"

/* An event, and what it stands for. */
struct CUevent_st {
	struct CUctx_st *context;
	bool timed;
	struct backend_event *point;	/* NULL before it is recorded, and where it was captured */
	drv_stream captured;		/* the stream that it was captured on */
	bool dead;			/* its context was reset */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static GHashTable *global;		/* streams whose capture was begun in the usual mode; under the lock */
static GHashTable *homes;		/* stream to the context that it was created in; under the lock */
static GHashTable *events;		/* those that exist; under the lock */
static GHashTable *dead_streams;	/* of contexts that were reset; under the lock */
static GPtrArray *dead_events;		/* likewise */

/* What the driver lets the thread do while another one captures. */
static _Thread_local drv_capture_mode mode = DRV_STREAM_CAPTURE_MODE_GLOBAL;

static void __attribute__((constructor)) prepare(void)
{
	global = g_hash_table_new(NULL, NULL);
	homes = g_hash_table_new(NULL, NULL);
	events = g_hash_table_new(NULL, NULL);
	dead_streams = g_hash_table_new(NULL, NULL);
	dead_events = g_ptr_array_new_with_free_func(g_free);
}

static void __attribute__((destructor)) tear_down(void)
{
	g_hash_table_unref(global);
	g_hash_table_unref(homes);
	g_hash_table_unref(events);
	g_hash_table_unref(dead_streams);
	g_ptr_array_unref(dead_events);
}

/* The structure stays, so that no other event gets its address. */
static gboolean event_die(gpointer key, gpointer value, gpointer context)
{
	struct CUevent_st *event = key;

	(void)value;
	if (event->context != context)
		return FALSE;
	host_event_unref(event->point);
	event->point = NULL;
	event->dead = true;
	g_ptr_array_add(dead_events, event);
	return TRUE;
}

static gboolean stream_die(gpointer stream, gpointer home, gpointer context)
{
	return home == context && g_hash_table_add(dead_streams, stream);
}

void streams_reset(struct CUctx_st *context)
{
	pthread_mutex_lock(&lock);
	g_hash_table_foreach_remove(events, event_die, context);
	g_hash_table_foreach_remove(homes, stream_die, context);
	g_hash_table_remove_all(global);
	pthread_mutex_unlock(&lock);
	if (host_stream_reset(context->device))
		g_error("cuDevicePrimaryCtxReset: the streams of device %d cannot be reset", context->device);
}

void stream_check(const char *call, drv_stream stream)
{
	bool dead;

	pthread_mutex_lock(&lock);
	dead = g_hash_table_contains(dead_streams, stream);
	pthread_mutex_unlock(&lock);
	if (dead)
		g_error("%s: stream %p is of a context that was reset", call, (void *)stream);
}

struct CUctx_st *stream_home(drv_stream stream, struct CUctx_st *current)
{
	struct CUctx_st *home;

	pthread_mutex_lock(&lock);
	home = g_hash_table_lookup(homes, stream);
	pthread_mutex_unlock(&lock);
	return home ? home : current;
}

void streams_end_captures(struct CUctx_st *context)
{
	struct vpmm_host_graph *graph;
	gpointer stream, home;
	GHashTableIter iter;

	pthread_mutex_lock(&lock);
	g_hash_table_iter_init(&iter, homes);
	while (g_hash_table_iter_next(&iter, &stream, &home)) {
		if (home != context)
			continue;
		graph = NULL;
		if (!host_capture_end(context->device, stream, &graph) && graph)
			host_graph_destroy(graph);
		g_hash_table_remove(global, stream);
	}
	pthread_mutex_unlock(&lock);
}

static void event_check(const char *call, drv_event event)
{
	if (event && event->dead)
		g_error("%s: event %p is of a context that was reset", call, (void *)event);
}

static bool is_capturing(struct CUctx_st *context, drv_stream stream)
{
	uint64_t id;

	return !host_stream_capture(context->device, stream, &id) && id;
}

drv_result unsafe(struct CUctx_st *context, const char *call)
{
	GHashTableIter iter;
	gpointer stream;
	bool any;

	if (mode == DRV_STREAM_CAPTURE_MODE_RELAXED)
		return DRV_SUCCESS;
	pthread_mutex_lock(&lock);
	any = g_hash_table_size(global);
	g_hash_table_iter_init(&iter, global);
	while (g_hash_table_iter_next(&iter, &stream, NULL))
		host_capture_invalidate(context->device, stream, call);
	pthread_mutex_unlock(&lock);
	return any ? DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED : DRV_SUCCESS;
}

/*
 * Like the driver's, it tells of streams of all contexts, and answers for a captured one with an error, and the capture
 * is no good any more.
 */
#ifndef FAKE_CUDA_OLD
drv_result cuStreamGetId(drv_stream stream, drv_u64 *id)
{
	BEGIN_IN(cuStreamGetId, context);
	stream_check("cuStreamGetId", stream);
	context = stream_home(stream, context);
	if (is_capturing(context, stream)) {
		host_capture_invalidate(context->device, stream, "cuStreamGetId");
		return DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return HOST(context, stream_id, stream, id) ? DRV_ERROR_INVALID_HANDLE : DRV_SUCCESS;
}
#endif

static drv_result capture_info(struct CUctx_st *context, drv_stream stream, drv_capture_status *status, uint64_t *id)
{
	uint64_t got;

	switch (host_stream_capture(context->device, stream, &got)) {
	case 0:
		break;
	case -EBUSY:
		return DRV_ERROR_STREAM_CAPTURE_IMPLICIT;
	default:
		return DRV_ERROR_INVALID_HANDLE;
	}
	*status = !got ? DRV_STREAM_CAPTURE_STATUS_NONE :
		  host_capture_is_valid(context->device, stream) ? DRV_STREAM_CAPTURE_STATUS_ACTIVE :
		  DRV_STREAM_CAPTURE_STATUS_INVALIDATED;
	/* Of one that is no good any more it tells neither id nor graph. */
	if (id)
		*id = *status == DRV_STREAM_CAPTURE_STATUS_ACTIVE ? got : 0;
	return DRV_SUCCESS;
}

drv_result cuStreamIsCapturing(drv_stream stream, drv_capture_status *status)
{
	BEGIN_IN(cuStreamIsCapturing, context);
	stream_check("cuStreamIsCapturing", stream);
	return capture_info(context, stream, status, NULL);
}

drv_result cuStreamGetCaptureInfo_v2(drv_stream stream, drv_capture_status *status, uint64_t *id, drv_graph *graph,
				     const drv_graph_node **dependencies, size_t *count)
{
	uint64_t got = 0;
	drv_result result;

	BEGIN_IN(cuStreamGetCaptureInfo, context);
	stream_check("cuStreamGetCaptureInfo", stream);
	if (dependencies || count)
		return DRV_ERROR_NOT_SUPPORTED;
	result = capture_info(context, stream, status, &got);
	if (result)
		return result;
	if (id)
		*id = got;
	if (graph)
		*graph = got ? graph_of_capture(context, stream, got) : NULL;
	return DRV_SUCCESS;
}

drv_result cuThreadExchangeStreamCaptureMode(drv_capture_mode *exchanged)
{
	drv_capture_mode before = mode;

	BEGIN(cuThreadExchangeStreamCaptureMode);
	mode = *exchanged;
	*exchanged = before;
	return DRV_SUCCESS;
}

drv_result cuStreamBeginCapture_v2(drv_stream stream, drv_capture_mode capture_mode)
{
	int err;

	BEGIN_IN(cuStreamBeginCapture, context);
	stream_check("cuStreamBeginCapture", stream);
	err = host_capture_begin(context->device, stream);
	if (err)
		return DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	if (capture_mode == DRV_STREAM_CAPTURE_MODE_GLOBAL)
		g_hash_table_add(global, stream);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result cuStreamEndCapture(drv_stream stream, drv_graph *graph)
{
	struct vpmm_host_graph *got = NULL;
	uint64_t id = 0;
	int err;

	BEGIN_IN(cuStreamEndCapture, context);
	stream_check("cuStreamEndCapture", stream);
	if (host_stream_capture(context->device, stream, &id) || !id)
		return DRV_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	g_hash_table_remove(global, stream);
	pthread_mutex_unlock(&lock);
	err = host_capture_end(context->device, stream, &got);
	*graph = graph_captured(id, got);
	return err ? DRV_ERROR_STREAM_CAPTURE_INVALIDATED : DRV_SUCCESS;
}

drv_result cuStreamWaitEvent(drv_stream stream, drv_event event, unsigned int flags)
{
	BEGIN_IN(cuStreamWaitEvent, context);
	event_check("cuStreamWaitEvent", event);
	stream_check("cuStreamWaitEvent", stream);
	if (flags)
		return DRV_ERROR_INVALID_VALUE;
	if (event->captured)
		return host_stream_follow(context->device, stream, event->captured) ?
		       DRV_ERROR_STREAM_CAPTURE_ISOLATION : DRV_SUCCESS;
	if (is_capturing(context, stream)) {
		host_capture_invalidate(context->device, stream, "cuStreamWaitEvent");
		return DRV_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	return event->point ? HOST(context, stream_wait, stream, event->point) : DRV_SUCCESS;
}

drv_result cuEventCreate(drv_event *event, unsigned int flags)
{
	BEGIN_IN(cuEventCreate, context);
	if (flags != DRV_EVENT_DISABLE_TIMING && flags != DRV_EVENT_DEFAULT)
		return DRV_ERROR_INVALID_VALUE;
	*event = g_new0(struct CUevent_st, 1);
	(*event)->context = context;
	(*event)->timed = flags == DRV_EVENT_DEFAULT;
	pthread_mutex_lock(&lock);
	g_hash_table_add(events, *event);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result cuEventDestroy_v2(drv_event event)
{
	BEGIN_IN(cuEventDestroy, context);
	event_check("cuEventDestroy", event);
	(void)context;
	if (!event)
		return DRV_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	g_hash_table_remove(events, event);
	pthread_mutex_unlock(&lock);
	host_event_unref(event->point);
	g_free(event);
	return DRV_SUCCESS;
}

static bool is_of_stream(drv_event event, drv_stream stream)
{
	return stream_home(stream, event->context) == event->context;
}

/* Recorded again, an event stands for the later point; who waits for the earlier one goes on to do so. */
drv_result cuEventRecord(drv_event event, drv_stream stream)
{
	struct backend_event *point;
	drv_result result;

	BEGIN_IN(cuEventRecord, context);
	event_check("cuEventRecord", event);
	stream_check("cuEventRecord", stream);
	if (!is_of_stream(event, stream))
		return DRV_ERROR_INVALID_HANDLE;
	if (is_capturing(context, stream)) {
		host_event_unref(event->point);
		event->point = NULL;
		event->captured = stream;
		return DRV_SUCCESS;
	}
	point = host_event_create();
	result = HOST(context, event_record, point, stream);
	if (result) {
		host_event_unref(point);
		return result;
	}
	host_event_unref(event->point);
	event->point = point;
	event->captured = NULL;
	return DRV_SUCCESS;
}

/* Captures are in the way, and invalid afterwards, whatever their mode and the thread's. */
#ifndef FAKE_CUDA_BARE
drv_result cuCtxRecordEvent(drv_context of, drv_event event)
{
	struct backend_event *point;
	drv_result result;

	BEGIN_IN(cuCtxRecordEvent, context);
	event_check("cuCtxRecordEvent", event);
	if (of != context || event->context != context)
		return DRV_ERROR_INVALID_HANDLE;
	point = host_event_create();
	result = capture_result(HOST(context, event_record_all, point));
	if (result) {
		host_event_unref(point);
		return result;
	}
	host_event_unref(event->point);
	event->point = point;
	event->captured = NULL;
	return DRV_SUCCESS;
}
#endif

drv_result cuEventQuery(drv_event event)
{
	int complete = 0;
	drv_result result;

	BEGIN_IN(cuEventQuery, context);
	event_check("cuEventQuery", event);
	result = unsafe(context, "cuEventQuery");
	if (result)
		return result;
	if (event->captured) {
		host_capture_invalidate(context->device, event->captured, "cuEventQuery");
		return DRV_ERROR_CAPTURED_EVENT;
	}
	if (!event->point)
		return DRV_SUCCESS;
	result = HOST(context, event_query, event->point, &complete);
	return result || complete ? result : DRV_ERROR_NOT_READY;
}

drv_result cuEventSynchronize(drv_event event)
{
	drv_result result;

	BEGIN_IN(cuEventSynchronize, context);
	event_check("cuEventSynchronize", event);
	result = unsafe(context, "cuEventSynchronize");
	if (result)
		return result;
	return event->point ? HOST(context, event_sync, event->point) : DRV_SUCCESS;
}

drv_result cuEventElapsedTime(float *ms, drv_event start, drv_event end)
{
	uint64_t from = 0, to = 0;
	drv_result result;

	BEGIN_IN(cuEventElapsedTime, context);
	event_check("cuEventElapsedTime", start);
	event_check("cuEventElapsedTime", end);
	result = unsafe(context, "cuEventElapsedTime");
	if (result)
		return result;
	if (!start->timed || !end->timed || !start->point || !end->point)
		return DRV_ERROR_INVALID_HANDLE;
	result = result_of(host_event_time(start->point, &from) ?: host_event_time(end->point, &to));
	if (!result)
		*ms = (float)((double)(int64_t)(to - from) / 1e6);
	return result;
}

drv_result cuStreamCreate(drv_stream *stream, unsigned int flags)
{
	BEGIN_IN(cuStreamCreate, context);
	/* No stream of the host backend waits for the default stream by itself. */
	if (flags != DRV_STREAM_NON_BLOCKING)
		return DRV_ERROR_NOT_SUPPORTED;
	*stream = host_stream_create(context->device);
	pthread_mutex_lock(&lock);
	g_hash_table_insert(homes, *stream, context);
	g_hash_table_remove(dead_streams, *stream);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result stream_sync(struct CUctx_st *context, drv_stream stream)
{
	struct backend_event *event = host_event_create();
	int err;

	err = host_event_record(stream_home(stream, context)->device, event, stream);
	if (!err)
		err = host_event_sync(event);
	host_event_unref(event);
	return result_of(err);
}

/*
 * A capture goes with the stream that it was begun on. What is pending completes before the stream goes, as a device
 * would see to in its own time.
 */
drv_result cuStreamDestroy_v2(drv_stream stream)
{
	drv_result result;

	BEGIN_IN(cuStreamDestroy, context);
	stream_check("cuStreamDestroy", stream);
	pthread_mutex_lock(&lock);
	g_hash_table_remove(global, stream);
	pthread_mutex_unlock(&lock);
	result = is_capturing(context, stream) ? DRV_SUCCESS : stream_sync(context, stream);
	return result ? result : result_of(host_stream_destroy(stream));
}

drv_result cuStreamQuery(drv_stream stream)
{
	unsigned int pending;
	int err;

	BEGIN_IN(cuStreamQuery, context);
	stream_check("cuStreamQuery", stream);
	err = host_stream_pending(context->device, stream, &pending);
	if (err)
		return DRV_ERROR_INVALID_HANDLE;
	return pending ? DRV_ERROR_NOT_READY : DRV_SUCCESS;
}

drv_result cuStreamSynchronize(drv_stream stream)
{
	BEGIN_IN(cuStreamSynchronize, context);
	stream_check("cuStreamSynchronize", stream);
	return stream_sync(context, stream);
}

/* Captures are in the way of this, too, and invalid afterwards, whatever their mode and the thread's. */
drv_result cuCtxSynchronize(void)
{
	struct backend_event *point;
	drv_result result;

	BEGIN_IN(cuCtxSynchronize, context);
	result = unsafe(context, "cuCtxSynchronize");
	if (result)
		return result;
	point = host_event_create();
	if (HOST(context, event_record_all, point))
		result = DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	host_event_unref(point);
	return result ? result : result_of(host_stream_sync_all(context->device));
}

drv_result cuMemAllocHost_v2(void **to, size_t size)
{
	drv_result result;

	BEGIN_IN(cuMemAllocHost, context);
	result = unsafe(context, "cuMemAllocHost");
	if (result)
		return result;
	*to = g_try_malloc0(size);
	return *to ? DRV_SUCCESS : DRV_ERROR_OUT_OF_MEMORY;
}

/* Waits for all streams, as the driver does, and captures go on. */
drv_result cuMemFreeHost(void *from)
{
	drv_result result;

	BEGIN_IN(cuMemFreeHost, context);
	result = unsafe(context, "cuMemFreeHost");
	if (result)
		return result;
	g_free(from);
	return result_of(host_stream_sync_all(context->device));
}
