// SPDX-License-Identifier: LGPL-2.1-or-later
/* Counts the captures that begin and end. */
#include <stdatomic.h>

#include "preload/capture.h"
#include "preload/deferred.h"
#include "preload/driver.h"

static atomic_int running;

bool capture_is_running(void)
{
	return running > 0;
}

static drv_result begun(drv_result result)
{
	if (!result)
		running++;
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
		running--;
	if (!capture_is_running())
		deferred_release();
	return result;
}

drv_result cuStreamBeginCapture(drv_stream stream)
{
	return begun(FORWARD(cuStreamBeginCapture, stream));
}

drv_result cuStreamBeginCapture_ptsz(drv_stream stream)
{
	return begun(FORWARD(cuStreamBeginCapture_ptsz, stream));
}

drv_result cuStreamBeginCapture_v2(drv_stream stream, drv_capture_mode mode)
{
	return begun(FORWARD(cuStreamBeginCapture_v2, stream, mode));
}

drv_result cuStreamBeginCapture_v2_ptsz(drv_stream stream, drv_capture_mode mode)
{
	return begun(FORWARD(cuStreamBeginCapture_v2_ptsz, stream, mode));
}

drv_result cuStreamBeginCaptureToGraph(drv_stream stream, drv_graph graph, const drv_graph_node *nodes,
				       const void *edges, size_t count, drv_capture_mode mode)
{
	return begun(FORWARD(cuStreamBeginCaptureToGraph, stream, graph, nodes, edges, count, mode));
}

drv_result cuStreamBeginCaptureToGraph_ptsz(drv_stream stream, drv_graph graph, const drv_graph_node *nodes,
					    const void *edges, size_t count, drv_capture_mode mode)
{
	return begun(FORWARD(cuStreamBeginCaptureToGraph_ptsz, stream, graph, nodes, edges, count, mode));
}

drv_result cuStreamEndCapture(drv_stream stream, drv_graph *graph)
{
	bool captured = is_captured(stream);

	return ended(stream, captured, FORWARD(cuStreamEndCapture, stream, graph));
}

drv_result cuStreamEndCapture_ptsz(drv_stream stream, drv_graph *graph)
{
	const drv_stream meant = stream ? stream : DRV_STREAM_PER_THREAD;
	bool captured = is_captured(meant);

	return ended(meant, captured, FORWARD(cuStreamEndCapture_ptsz, stream, graph));
}
