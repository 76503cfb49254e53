// SPDX-License-Identifier: LGPL-2.1-or-later
/* The host backend, alone and with the fault backend around it, against the conformance suite. */
#include "host/conformance.h"
#include "host/host-bench.h"
#include "support/fault.h"
#include "support/host-calls.h"

#define MAPPINGS 64

static int host_open(struct backend **be)
{
	set("80G", "2", G_STRINGIFY(MAPPINGS));
	return ops->open(0, be);
}

static int fault_open(struct backend **be)
{
	struct backend *inner;
	int ret = host_open(&inner);

	if (ret)
		return ret;
	ret = backend_fault_wrap(inner, be);
	if (ret)
		ops->close(inner);
	return ret;
}

static int host_finish(struct CUstream_st *stream)
{
	return vpmm_host_stream_complete(stream, UINT_MAX);
}

static int host_write(uint64_t va, const void *bytes, size_t size)
{
	memcpy((void *)(uintptr_t)va, bytes, size);
	return 0;
}

static int host_read(uint64_t va, void *bytes, size_t size)
{
	memcpy(bytes, (void *)(uintptr_t)va, size);
	return 0;
}

static const struct conformance_device host = {
	.strict = true,
	.mappings = MAPPINGS,
	.open = host_open,
	.left = host_left,
	.stream_create = vpmm_host_stream_create,
	.stream_destroy = vpmm_host_stream_destroy,
	.capture_begin = vpmm_host_capture_begin,
	.capture_spoil = host_capture_spoil_any,
	.capture_end = host_capture_end_graph,
	.graph_launch = host_graph_launch_any,
	.graph_destroy = host_graph_destroy_any,
	.hold = vpmm_host_stream_submit,
	.finish = host_finish,
	.write = host_write,
	.read = host_read,
	.reachable = host_reachable,
};

static struct conformance_device fault;

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	conformance_add("/backend/host", &host);
	fault = host;
	fault.open = fault_open;
	conformance_add("/backend/fault-around-host", &fault);
	return g_test_run();
}
