// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What the library has to hear before a context or a stream goes. Its pool retains the primary context, so without this
 * the program's last release would not be the last. And the captures that are running, which are lost with their
 * streams and the contexts of these.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/lent.h"
#include "preload/library.h"
#include "preload/monitor.h"
#include "preload/own.h"
#include "preload/peers.h"
#include "preload/pools.h"
#include "preload/primary.h"
#include "preload/report.h"
#include "util/captures.h"

struct capture {
	struct capture *next;
	drv_stream stream;		/* that of a thread by default: any of those */
	drv_context context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *all;

/*
 * Before it begins: what another thread does for a free would invalidate it as soon as it has. In a forked child, where
 * the driver does nothing, a lock can be held by a thread that is the parent's.
 */
static drv_result note_capture(drv_stream stream)
{
	drv_context context = NULL;
	struct capture *capture;

	if (stream_context(stream, &context) == DRV_ERROR_NOT_INITIALIZED)
		return DRV_ERROR_NOT_INITIALIZED;
	capture = malloc(sizeof(*capture));
	if (!capture)
		return DRV_ERROR_OUT_OF_MEMORY;
	capture->stream = stream;
	capture->context = context;
	captures_begin();
	pthread_mutex_lock(&lock);
	capture->next = all;
	all = capture;
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

/* Takes one out; called with the lock held. */
static void unlink_capture(struct capture **at)
{
	struct capture *capture = *at;

	*at = capture->next;
	captures_end(1);
	free(capture);
}

/* The stream has been destroyed, or its capture has ended; it may have been under none. */
static void capture_forget(drv_stream stream)
{
	struct capture **at = &all;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->stream != stream)
		at = &(*at)->next;
	if (*at)
		unlink_capture(at);
	pthread_mutex_unlock(&lock);
}

static void capture_forget_all(drv_context context)
{
	struct capture **at = &all;

	pthread_mutex_lock(&lock);
	while (*at) {
		if ((*at)->context == context)
			unlink_capture(at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&lock);
}

static drv_result begun(drv_stream stream, drv_result result)
{
	if (result)
		capture_forget(stream);
	return result;
}

static bool is_captured(drv_stream stream)
{
	drv_capture_status status = DRV_STREAM_CAPTURE_STATUS_NONE;

	return !FORWARD(cuStreamIsCapturing, stream, &status) && status != DRV_STREAM_CAPTURE_STATUS_NONE;
}

/*
 * An invalid capture ends with an error. One that another stream or another thread has to end stays, and may have been
 * made invalid.
 */
static drv_result ended(drv_stream stream, bool captured, drv_result result)
{
	if (!result || (captured && !is_captured(stream)))
		capture_forget(stream);
	return result;
}

/* @meant: the stream; behind it, the arguments of the call. */
#define BEGINS(name, params, meant, ...) \
	drv_result name params \
	{ \
		return GATED(note_capture(meant) ?: begun(meant, FORWARD(name, __VA_ARGS__))); \
	}
#define ENDS(name, meant) \
	drv_result name(drv_stream stream, drv_graph *graph) \
	{ \
		bool captured = is_captured(meant); \
		\
		return ended(meant, captured, FORWARD(name, stream, graph)); \
	}

BEGINS(cuStreamBeginCapture, (drv_stream stream), stream, stream)
BEGINS(cuStreamBeginCapture_ptsz, (drv_stream stream), stream_per_thread(stream), stream)
BEGINS(cuStreamBeginCapture_v2, (drv_stream stream, drv_capture_mode mode), stream, stream, mode)
BEGINS(cuStreamBeginCapture_v2_ptsz, (drv_stream stream, drv_capture_mode mode), stream_per_thread(stream), stream,
       mode)
#define TO_GRAPH (drv_stream stream, drv_graph graph, const drv_graph_node *nodes, const void *edges, size_t count, \
		  drv_capture_mode mode)
BEGINS(cuStreamBeginCaptureToGraph, TO_GRAPH, stream, stream, graph, nodes, edges, count, mode)
BEGINS(cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH, stream_per_thread(stream), stream, graph, nodes, edges, count, mode)
ENDS(cuStreamEndCapture, stream)
ENDS(cuStreamEndCapture_ptsz, stream_per_thread(stream))

/*
 * Work that is under way may use the memory that goes. A pool that cannot be reached finds out by itself, but our own
 * stream is to be forgotten even so.
 */
static void give_up_pool(drv_device device)
{
	drv_result result;

	monitor_reset(device);
	if (!library_used() || !primary_context(device))
		return;
	result = primary_push(device);
	if (result == DRV_ERROR_NOT_INITIALIZED)
		return;
	/* First: it waits for a thread that is letting another device in, which would make a pool anew. */
	peers_forget(device);
	if (!result) {
		FORWARD(cuCtxSynchronize);
		report_pool(device);
		LIBRARY(vpmm_pool_abandon, NULL);
	}
	library_served_no_more(device);
	lent_forget(device);
	own_forget(device, !result);
	if (!result)
		primary_pop();
}

drv_result cuDevicePrimaryCtxRetain(drv_context *context, drv_device device)
{
	drv_result result = FORWARD(cuDevicePrimaryCtxRetain, context, device);

	if (!result) {
		primary_retained(device, *context);
		report_at_exit();
	}
	return result;
}

/*
 * The release counts before the driver is asked: of threads that release at once one is the last, and nobody is served
 * in a context that goes. The driver serves a thread that retains it meanwhile.
 */
static int before_release(drv_device device)
{
	int retains = primary_released(device);

	if (retains == 1)
		give_up_pool(device);
	return retains;
}

/* A device that does not exist has none. */
static void forget_device(drv_device device)
{
	drv_context context = primary_context(device);

	pools_forget(device);
	if (context)
		capture_forget_all(context);
}

static drv_result after_release(drv_device device, int retains, drv_result result)
{
	if (retains == 1)
		primary_left(device);
	if (result && retains)
		primary_release_failed(device);
	if (!result && retains == 1 && !primary_retains(device))
		forget_device(device);
	return result;
}

#define RELEASES(name) \
	drv_result name(drv_device device) \
	{ \
		int retains = before_release(device); \
		\
		return after_release(device, retains, FORWARD(name, device)); \
	}
RELEASES(cuDevicePrimaryCtxRelease)
RELEASES(cuDevicePrimaryCtxRelease_v2)

/* The error may be one of earlier work, and the context reset; but in a forked child nothing is. */
static drv_result after_reset(drv_device device, drv_result result)
{
	if (result != DRV_ERROR_NOT_INITIALIZED)
		forget_device(device);
	return result;
}

#define RESETS(name) \
	drv_result name(drv_device device) \
	{ \
		give_up_pool(device); \
		return after_reset(device, FORWARD(name, device)); \
	}
RESETS(cuDevicePrimaryCtxReset)
RESETS(cuDevicePrimaryCtxReset_v2)

/* Of those that the program has of its own: the library knows nothing of their streams, and captures end with them. */
static drv_result context_gone(drv_context context, drv_result result)
{
	if (!result && captures_any())
		capture_forget_all(context);
	return result;
}

drv_result cuCtxDestroy(drv_context context)
{
	peers_leave(context);
	return context_gone(context, FORWARD(cuCtxDestroy, context));
}

drv_result cuCtxDestroy_v2(drv_context context)
{
	peers_leave(context);
	return context_gone(context, FORWARD(cuCtxDestroy_v2, context));
}

/*
 * What the stream has freed would be out of others' reach for good. Where nothing was served since the last reset there
 * is nothing, and the stream may be of the time before: to ask the driver about such a one ends the process.
 */
static void retire_destroyed(drv_stream stream)
{
	drv_context context;
	int device;

	if (!stream || !library_serving() || stream_context(stream, &context) || !primary_of(context, &device) ||
	    primary_push(device))
		return;
	LIBRARY(vpmm_stream_retire, NULL, stream);
	primary_pop();
}

/* A stream that goes under capture takes that with it. */
static drv_result destroyed(drv_stream stream, drv_result result)
{
	if (!result && captures_any())
		capture_forget(stream);
	return result;
}

#define DESTROYS(name) \
	drv_result name(drv_stream stream) \
	{ \
		retire_destroyed(stream); \
		return destroyed(stream, FORWARD(name, stream)); \
	}
DESTROYS(cuStreamDestroy)
DESTROYS(cuStreamDestroy_v2)
