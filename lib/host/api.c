// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls of vpmm-host.h. */
#include <errno.h>
#include <inttypes.h>

#include "host/backend.h"
#include "host/clock.h"
#include "host/device.h"
#include "host/forks.h"
#include "host/graphs.h"
#include "host/streams.h"
#include "util/cancel.h"
#include "util/error.h"
#include "vpmm-host.h"

/* The result of a call, with its name in the text of an error. */
static int named(const char *call, int ret)
{
	return ret ? error_add(ret, "%s", call) : 0;
}

/* Whether there is such a device. */
static int check_host_device(const char *call, int device)
{
	int count, ret;

	ret = host_device_count(&count);
	if (!ret && (device < 0 || device >= count))
		ret = error_set(-EINVAL, "there is no device %d: VPMM_HOST_DEVICES is %d", device, count);
	return named(call, ret);
}

int vpmm_host_set_device(int device)
{
	int ret = check_host_device("vpmm_host_set_device", device);

	if (!ret)
		host_device_set_current(device);
	return ret;
}

int vpmm_host_reset(void)
{
	int cancel = cancel_hold(), ret = backend_host_reset(host_device_current());

	cancel_release(cancel);
	return named("vpmm_host_reset", ret);
}

int vpmm_host_check_access(int device, const void *addr, size_t size)
{
	int cancel, ret = check_host_device("vpmm_host_check_access", device);

	if (ret)
		return ret;
	if (!size)
		return error_set(-EINVAL, "vpmm_host_check_access: size is 0");
	cancel = cancel_hold();
	ret = backend_host_check_access(device, (uintptr_t)addr, size);
	cancel_release(cancel);
	return named("vpmm_host_check_access", ret);
}

int vpmm_host_stream_create(struct CUstream_st **stream)
{
	if (!stream)
		return error_set(-EINVAL, "vpmm_host_stream_create: stream is NULL");
	*stream = host_stream_create(host_device_current());
	return 0;
}

int vpmm_host_stream_destroy(struct CUstream_st *stream)
{
	int cancel = cancel_hold(), ret = host_stream_destroy(stream);

	cancel_release(cancel);
	return named("vpmm_host_stream_destroy", ret);
}

int vpmm_host_stream_submit(struct CUstream_st *stream)
{
	return named("vpmm_host_stream_submit", host_stream_submit(host_device_current(), stream, NULL, NULL));
}

int vpmm_host_stream_launch(struct CUstream_st *stream, vpmm_host_fn fn, void *data)
{
	if (!fn)
		return error_set(-EINVAL, "vpmm_host_stream_launch: fn is NULL");
	return named("vpmm_host_stream_launch", host_stream_submit(host_device_current(), stream, fn, data));
}

int vpmm_host_stream_wait(struct CUstream_st *stream, struct CUstream_st *other)
{
	return named("vpmm_host_stream_wait", host_stream_follow(host_device_current(), stream, other));
}

int vpmm_host_stream_complete(struct CUstream_st *stream, unsigned int n)
{
	int cancel = cancel_hold(), ret = host_stream_complete(host_device_current(), stream, n);

	cancel_release(cancel);
	return named("vpmm_host_stream_complete", ret);
}

int vpmm_host_stream_pending(struct CUstream_st *stream, unsigned int *n)
{
	if (!n)
		return error_set(-EINVAL, "vpmm_host_stream_pending: n is NULL");
	return named("vpmm_host_stream_pending", host_stream_pending(host_device_current(), stream, n));
}

int vpmm_host_stream_submit_for(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns)
{
	return named("vpmm_host_stream_submit_for", host_stream_submit_for(host_device_current(), stream, engine, ns));
}

uint64_t vpmm_host_time(void)
{
	uint64_t time;

	host_acquire(&host_streams_lock);
	time = host_clock_now();
	lock_release(&host_streams_lock);
	return time;
}

REQUIRES(host_streams_lock)
static int pass_time(uint64_t ns)
{
	uint64_t target = host_clock_now() + ns;
	int ret = host_clock_room(ns);

	if (ret)
		return ret;
	while (host_queue_step(target))
		;
	host_clock_reach(target);
	return 0;
}

int vpmm_host_time_pass(uint64_t ns)
{
	int cancel = cancel_hold(), ret = host_queue_not_in_work("let time pass");

	if (!ret) {
		host_acquire(&host_streams_lock);
		ret = pass_time(ns);
		lock_release(&host_streams_lock);
	}
	cancel_release(cancel);
	return named("vpmm_host_time_pass", ret);
}

/* Nothing completes by the clock any more: what is left has to be told. */
REQUIRES(host_streams_lock)
static int refuse_untimed(struct CUstream_st *stream)
{
	return error_set(-EBUSY, "stream %" PRIu64 " has work that is pending until a call completes it; "
			 "pieces: %" PRIu64, stream->id, stream->submitted - stream->completed);
}

REQUIRES(host_streams_lock)
static int finish_time(void)
{
	struct CUstream_st *stream;

	do {
		while (host_queue_step(UINT64_MAX))
			;
		stream = host_queue_busy(HOST_ANY_DEVICE);
		stream = stream ? host_queue_holder(stream) : NULL;
		if (stream && stream->running)
			host_queue_wait_for_work();
		else if (stream && stream->head->kind == ITEM_WORK)
			return refuse_untimed(stream);
	} while (stream);
	return 0;
}

int vpmm_host_time_finish(void)
{
	int cancel = cancel_hold(), ret = host_queue_not_in_work("let time pass");

	if (!ret) {
		host_acquire(&host_streams_lock);
		ret = finish_time();
		lock_release(&host_streams_lock);
	}
	cancel_release(cancel);
	return named("vpmm_host_time_finish", ret);
}

int vpmm_host_capture_begin(struct CUstream_st *stream)
{
	return named("vpmm_host_capture_begin", host_capture_begin(host_device_current(), stream));
}

int vpmm_host_capture_end(struct CUstream_st *stream, struct vpmm_host_graph **graph)
{
	if (!graph)
		return error_set(-EINVAL, "vpmm_host_capture_end: graph is NULL");
	return named("vpmm_host_capture_end", host_capture_end(host_device_current(), stream, graph));
}

int vpmm_host_graph_launch(struct vpmm_host_graph *graph, struct CUstream_st *stream)
{
	if (!graph)
		return error_set(-EINVAL, "vpmm_host_graph_launch: graph is NULL");
	return named("vpmm_host_graph_launch", host_graph_launch(graph, host_device_current(), stream));
}

int vpmm_host_graph_destroy(struct vpmm_host_graph *graph)
{
	if (!graph)
		return error_set(-EINVAL, "vpmm_host_graph_destroy: graph is NULL");
	host_graph_destroy(graph);
	return 0;
}
