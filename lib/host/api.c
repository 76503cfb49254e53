// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls of vpmm-host.h. */
#include <errno.h>

#include "host/backend.h"
#include "host/device.h"
#include "host/graphs.h"
#include "host/streams.h"
#include "util/cancel.h"
#include "util/error.h"
#include "vpmm-host.h"

int vpmm_host_set_device(int device)
{
	int count, ret;

	ret = host_device_count(&count);
	if (ret)
		return error_add(ret, "vpmm_host_set_device");
	if (device < 0 || device >= count)
		return error_set(-EINVAL, "vpmm_host_set_device: there is no device %d, VPMM_HOST_DEVICES makes it %d",
				 device, count);
	host_device_set_current(device);
	return 0;
}

int vpmm_host_reset(void)
{
	int cancel = cancel_hold(), ret = backend_host_reset(host_device_current());

	cancel_release(cancel);
	return ret ? error_add(ret, "vpmm_host_reset") : 0;
}

int vpmm_host_check_access(int device, const void *addr, size_t size)
{
	int count, cancel, ret;

	ret = host_device_count(&count);
	if (ret)
		return error_add(ret, "vpmm_host_check_access");
	if (device < 0 || device >= count)
		return error_set(-EINVAL,
				 "vpmm_host_check_access: there is no device %d, VPMM_HOST_DEVICES makes it %d",
				 device, count);
	if (!size)
		return error_set(-EINVAL, "vpmm_host_check_access: size is 0");
	cancel = cancel_hold();
	ret = backend_host_check_access(device, (uintptr_t)addr, size);
	cancel_release(cancel);
	return ret ? error_add(ret, "vpmm_host_check_access") : 0;
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
	return ret ? error_add(ret, "vpmm_host_stream_destroy") : 0;
}

int vpmm_host_stream_submit(struct CUstream_st *stream)
{
	int ret = host_stream_submit(host_device_current(), stream, NULL, NULL);

	return ret ? error_add(ret, "vpmm_host_stream_submit") : 0;
}

int vpmm_host_stream_launch(struct CUstream_st *stream, vpmm_host_fn fn, void *data)
{
	int ret;

	if (!fn)
		return error_set(-EINVAL, "vpmm_host_stream_launch: fn is NULL");
	ret = host_stream_submit(host_device_current(), stream, fn, data);
	return ret ? error_add(ret, "vpmm_host_stream_launch") : 0;
}

int vpmm_host_stream_wait(struct CUstream_st *stream, struct CUstream_st *other)
{
	int ret = host_stream_follow(host_device_current(), stream, other);

	return ret ? error_add(ret, "vpmm_host_stream_wait") : 0;
}

int vpmm_host_stream_complete(struct CUstream_st *stream, unsigned int n)
{
	int cancel = cancel_hold(), ret = host_stream_complete(host_device_current(), stream, n);

	cancel_release(cancel);
	return ret ? error_add(ret, "vpmm_host_stream_complete") : 0;
}

int vpmm_host_stream_pending(struct CUstream_st *stream, unsigned int *n)
{
	int ret;

	if (!n)
		return error_set(-EINVAL, "vpmm_host_stream_pending: n is NULL");
	ret = host_stream_pending(host_device_current(), stream, n);
	return ret ? error_add(ret, "vpmm_host_stream_pending") : 0;
}

int vpmm_host_stream_submit_for(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns)
{
	int ret = host_stream_submit_for(host_device_current(), stream, engine, ns);

	return ret ? error_add(ret, "vpmm_host_stream_submit_for") : 0;
}

uint64_t vpmm_host_time(void)
{
	return host_time();
}

int vpmm_host_time_pass(uint64_t ns)
{
	int cancel = cancel_hold(), ret = host_time_pass(ns);

	cancel_release(cancel);
	return ret ? error_add(ret, "vpmm_host_time_pass") : 0;
}

int vpmm_host_time_finish(void)
{
	int cancel = cancel_hold(), ret = host_time_finish();

	cancel_release(cancel);
	return ret ? error_add(ret, "vpmm_host_time_finish") : 0;
}

int vpmm_host_capture_begin(struct CUstream_st *stream)
{
	int ret = host_capture_begin(host_device_current(), stream);

	return ret ? error_add(ret, "vpmm_host_capture_begin") : 0;
}

int vpmm_host_capture_end(struct CUstream_st *stream, struct vpmm_host_graph **graph)
{
	int ret;

	if (!graph)
		return error_set(-EINVAL, "vpmm_host_capture_end: graph is NULL");
	ret = host_capture_end(host_device_current(), stream, graph);
	return ret ? error_add(ret, "vpmm_host_capture_end") : 0;
}

int vpmm_host_graph_launch(struct vpmm_host_graph *graph, struct CUstream_st *stream)
{
	int ret;

	if (!graph)
		return error_set(-EINVAL, "vpmm_host_graph_launch: graph is NULL");
	ret = host_graph_launch(graph, host_device_current(), stream);
	return ret ? error_add(ret, "vpmm_host_graph_launch") : 0;
}

int vpmm_host_graph_destroy(struct vpmm_host_graph *graph)
{
	if (!graph)
		return error_set(-EINVAL, "vpmm_host_graph_destroy: graph is NULL");
	host_graph_destroy(graph);
	return 0;
}
