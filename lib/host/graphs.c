// SPDX-License-Identifier: LGPL-2.1-or-later
/* Captures and graphs by the handles of their streams. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>

#include "host/capture.h"
#include "host/clock.h"
#include "host/forks.h"
#include "host/graphs.h"
#include "host/life.h"
#include "host/queue.h"
#include "host/streams.h"
#include "util/error.h"

int host_capture_begin(int device, struct CUstream_st *handle)
{
	return HOST_ON_STREAM(device, handle, host_capture_start(found));
}

int host_capture_end(int device, struct CUstream_st *handle, struct vpmm_host_graph **graph)
{
	return HOST_ON_STREAM(device, handle, host_capture_finish(found, graph));
}

void host_capture_invalidate(int device, struct CUstream_st *handle, const char *why)
{
	struct CUstream_st *stream;

	host_acquire(&host_streams_lock);
	stream = host_stream_resolve(device, handle);
	if (stream && stream->capture)
		host_capture_spoil(stream->capture, why);
	lock_release(&host_streams_lock);
}

bool host_capture_is_valid(int device, struct CUstream_st *handle)
{
	struct CUstream_st *stream;
	bool valid;

	host_acquire(&host_streams_lock);
	stream = host_stream_resolve(device, handle);
	valid = stream && stream->capture && !stream->capture->why;
	lock_release(&host_streams_lock);
	return valid;
}

REQUIRES(host_streams_lock)
static int watch(const struct CUstream_st *stream, void (*gone)(void *data), void *data)
{
	if (!stream->capture)
		return error_set(-EBUSY, "stream %" PRIu64 " is under no capture", stream->id);
	host_life_watch(stream->capture->life, gone, data);
	return 0;
}

int host_graph_watch(int device, struct CUstream_st *handle, void (*gone)(void *data), void *data)
{
	return HOST_ON_STREAM(device, handle, watch(found, gone, data));
}

/* All of a graph is launched, or nothing. */
REQUIRES(host_streams_lock)
static int check_time(const struct vpmm_host_graph *graph)
{
	uint64_t ns = 0;
	guint i;

	for (i = 0; i < graph->tasks->len; i++) {
		if (!g_uint64_checked_add(&ns, ns, g_array_index(graph->tasks, struct host_task, i).ns))
			return error_set(-EINVAL, "the work of the graph takes longer than the clock can count");
	}
	return host_clock_room(ns);
}

int host_graph_launch(const struct vpmm_host_graph *graph, int device, struct CUstream_st *handle)
{
	struct CUstream_st *stream;
	guint i;
	int ret;

	host_acquire(&host_streams_lock);
	stream = host_stream_resolve(device, handle);
	ret = stream ? check_time(graph) : -EINVAL;
	for (i = 0; !ret && i < graph->tasks->len; i++) {
		struct host_task task = g_array_index(graph->tasks, struct host_task, i);

		task.life = graph->life;
		ret = host_capture_task(stream, &task);
	}
	if (!ret && stream->capture)
		host_life_contain(stream->capture->life, graph->life);
	else if (!ret)
		host_queue_launched(stream, graph->life);
	lock_release(&host_streams_lock);
	return ret;
}

void host_graph_destroy(struct vpmm_host_graph *graph)
{
	host_acquire(&host_streams_lock);
	host_life_destroy(graph->life);
	lock_release(&host_streams_lock);
	g_array_free(graph->tasks, TRUE);
	g_free(graph);
}
