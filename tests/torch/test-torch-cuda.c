// SPDX-License-Identifier: LGPL-2.1-or-later
/* libvpmm-torch.so beside a driver, the suite's own: which device is current, who accesses whose memory, and waits. */
#include <errno.h>
#include <limits.h>

#include "cuda/fake-cuda-inside.h"
#include "torch/torch-fixture.h"

#define COUNT 3

static const struct torch_pool_id mine = { .a = 1 };

static drv_context primary(int device)
{
	drv_context context;

	g_assert_cmpint(cuInit(0), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRetain(&context, device), ==, 0);
	return context;
}

static int device_of_block(const void *ptr)
{
	struct vpmm_allocation block = { .size = sizeof(block) };

	assert_ok(vpmm_lookup(ptr, &block));
	return block.device;
}

/* PyTorch allocates for a device that it has not made current. */
static void test_current(void)
{
	drv_context contexts[] = { NULL, primary(0), primary(1) }, now;
	char *a;

	for (size_t i = 0; i < G_N_ELEMENTS(contexts); i++) {
		for (int device = 0; device < COUNT; device++) {
			g_assert_cmpint(cuCtxSetCurrent(contexts[i]), ==, 0);
			a = torch_new(4 * MIB, device, NULL);
			g_assert_cmpint(device_of_block(a), ==, device);
			g_assert_cmpuint(torch_stats(device).requested, ==, 4 * MIB);
			torch.vpmm_torch_free(a, 4 * MIB, device, NULL);
			g_assert_cmpuint(torch_stats(device).requested, ==, 0);
			g_assert_cmpint(torch.vpmm_torch_trim(device, NULL), ==, 0);

			/* What is current is as before. */
			g_assert_cmpint(cuCtxGetCurrent(&now), ==, 0);
			g_assert_true(now == contexts[i]);
		}
	}
}

static void test_peers(void)
{
	char *blocks[COUNT];

	/* All devices are used by now. */
	for (int device = 0; device < COUNT; device++)
		blocks[device] = torch_new(MIB, device, NULL);
	for (int device = 0; device < COUNT; device++)
		for (int peer = 0; peer < COUNT; peer++)
			g_assert_cmpint(fake_cuda_check_access(peer, (uintptr_t)blocks[device], MIB), ==, 0);
	for (int device = 0; device < COUNT; device++)
		torch.vpmm_torch_free(blocks[device], MIB, device, NULL);
}

static drv_stream new_stream(void)
{
	drv_stream stream;

	g_assert_cmpint(cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING), ==, 0);
	return stream;
}

static void end_capture(drv_stream stream)
{
	drv_graph graph;

	g_assert_cmpint(cuStreamEndCapture(stream, &graph), ==, 0);
	g_assert_cmpint(cuGraphDestroy(graph), ==, 0);
}

static void test_waits(void)
{
	drv_stream stream, captured, other;
	uint64_t waits;
	char *a;

	/* A graph that has freed a block, and work that nobody knows to be of it. */
	g_assert_cmpint(cuCtxSetCurrent(primary(1)), ==, 0);
	stream = new_stream();
	captured = new_stream();
	other = new_stream();
	torch.vpmm_torch_begin(1, mine, NULL);
	g_assert_cmpint(cuStreamBeginCapture_v2(captured, DRV_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
	a = torch_new(4 * MIB, 1, captured);
	torch.vpmm_torch_free(a, 4 * MIB, 1, captured);
	end_capture(captured);
	torch.vpmm_torch_end(1, mine);
	g_assert_cmpuint(torch_counts(1).graphs, ==, 1);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuStreamQuery(stream), ==, DRV_ERROR_NOT_READY);

	/* Its pool is released from another device, while a stream is captured, which no wait may break. */
	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	waits = fake_cuda_calls("cuCtxSynchronize");
	torch.vpmm_torch_begin(1, (struct torch_pool_id){ .a = 2 }, NULL);
	g_assert_cmpint(cuStreamBeginCapture_v2(other, DRV_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
	torch.vpmm_torch_release(1, mine);
	g_assert_cmpuint(fake_cuda_calls("cuCtxSynchronize"), ==, waits);
	g_assert_cmpuint(torch_counts(1).graphs, ==, 1);
	end_capture(other);

	/* Then the host waits for the device of the graph, and the memory is free for all. */
	torch.vpmm_torch_end(1, (struct torch_pool_id){ .a = 2 });
	g_assert_cmpuint(fake_cuda_calls("cuCtxSynchronize"), ==, waits + 1);
	g_assert_cmpint(cuCtxSetCurrent(primary(1)), ==, 0);
	g_assert_cmpint(cuStreamQuery(stream), ==, 0);
	g_assert_cmpuint(torch_counts(1).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(1).held, ==, 0);
	torch.vpmm_torch_release(1, (struct torch_pool_id){ .a = 2 });
}

static void test_wait_fails(void)
{
	static const struct torch_pool_id id = { .a = 3 };
	drv_stream captured;
	char *a;

	/* As beside a capture that is not PyTorch's. The graph may be running still, so its memory stays. */
	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	captured = new_stream();
	torch.vpmm_torch_begin(0, id, NULL);
	g_assert_cmpint(cuStreamBeginCapture_v2(captured, DRV_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
	a = torch_new(4 * MIB, 0, captured);
	torch.vpmm_torch_free(a, 4 * MIB, 0, captured);
	end_capture(captured);
	torch.vpmm_torch_end(0, id);
	fake_cuda_fail("cuCtxSynchronize", 0, 1, DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	torch.vpmm_torch_release(0, id);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 1);
	g_assert_cmpuint(torch_stats(0).held, ==, 4 * MIB);

	/* The next wait works. */
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_counts(0).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(0).held, ==, 0);
}

static void test_not_current(void)
{
	const char *text;
	void *ptr = NULL;

	/* A device that cannot be made current has no memory, and that of another is no substitute. */
	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	fake_cuda_fail("cuCtxPushCurrent", 0, 1, DRV_ERROR_OUT_OF_MEMORY);
	text = torch_try(&ptr, MIB, 1, NULL);
	g_assert_nonnull(text);
	g_assert_true(g_str_has_prefix(text, "libvpmm-torch: 1048576 bytes on GPU 1: the device's primary context "));
	g_assert_null(ptr);
	g_assert_cmpuint(torch_stats(0).requested, ==, 0);
}

static void test_gone(void)
{
	struct vpmm_torch_counts before;
	char *a;

	/* The driver has shut down, and finalisers free what is left: nothing is said, and nothing is tried again. */
	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	a = torch_new(4 * MIB, 0, NULL);
	before = torch_counts(0);
#define X(name, version, args) fake_cuda_fail(#name, 0, UINT_MAX, DRV_ERROR_DEINITIALIZED);
	DRV_CALLS_REQUIRED(X)
	DRV_CALLS_OPTIONAL(X)
	DRV_CALLS_PROGRAMS(X)
#undef X
	torch.vpmm_torch_free(a, 4 * MIB, 0, NULL);
	torch.vpmm_torch_record_stream(a, (drv_stream)a);
	torch.vpmm_torch_reset();
	torch.vpmm_torch_release(0, mine);
	g_assert_cmpuint(torch_counts(0).failed, >, before.failed);
	g_assert_cmpuint(torch_counts(0).kept, ==, 0);
}

int main(int argc, char **argv)
{
	g_setenv("VPMM_BACKEND", "cuda", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_HOST_DEVICES", "3", TRUE);
	g_test_init(&argc, &argv, NULL);
	torch_open();
	torch.vpmm_torch_init(COUNT);
	g_test_add_func("/torch/cuda/current", test_current);
	g_test_add_func("/torch/cuda/peers", test_peers);
	g_test_add_func("/torch/cuda/waits", test_waits);
	g_test_add_func("/torch/cuda/wait-fails", test_wait_fails);
	g_test_add_func("/torch/cuda/not-current", test_not_current);
	g_test_add_func("/torch/cuda/gone", test_gone);
	return g_test_run();
}
