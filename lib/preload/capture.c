// SPDX-License-Identifier: LGPL-2.1-or-later
/* Keeps the captures that are running, and what they are lost with: their streams, and the contexts of these. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "preload/capture.h"
#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/primary.h"
#include "util/captures.h"

struct capture {
	struct capture *next;
	drv_stream stream;		/* that of a thread by default: any of those */
	drv_context context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *all;

/* Before it begins: what another thread does for a free would invalidate it as soon as it has. */
static bool note_capture(drv_stream stream)
{
	struct capture *capture = malloc(sizeof(*capture));

	if (!capture)
		return false;
	capture->stream = stream;
	if (stream_context(stream, &capture->context))
		capture->context = NULL;
	captures_begin();
	pthread_mutex_lock(&lock);
	capture->next = all;
	all = capture;
	pthread_mutex_unlock(&lock);
	return true;
}

/* Takes one out; called with the lock held. */
static void unlink_capture(struct capture **at)
{
	struct capture *capture = *at;

	*at = capture->next;
	captures_end(1);
	free(capture);
}

void capture_forget(drv_stream stream)
{
	struct capture **at = &all;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->stream != stream)
		at = &(*at)->next;
	if (*at)
		unlink_capture(at);
	pthread_mutex_unlock(&lock);
}

void capture_forget_all(drv_context context)
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
		return GATED(note_capture(meant) ? begun(meant, FORWARD(name, __VA_ARGS__)) : DRV_ERROR_OUT_OF_MEMORY); \
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
