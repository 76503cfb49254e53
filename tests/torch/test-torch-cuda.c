// SPDX-License-Identifier: LGPL-2.1-or-later
/* libvpmm-torch.so beside a driver, the suite's own: which device is current, who accesses whose memory, and waits. */
#include <errno.h>
#include <limits.h>

#include "cuda/fake-cuda-inside.h"
#include "torch/torch-fixture.h"
#include "vpmm/torch_class.h"

#define COUNT 3
#define DEVICES_NONE 64

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

/* A device is current, and a graph in a pool of it has allocated and freed a block. */
static void capture_freed(int device, struct torch_pool_id id)
{
	drv_stream captured;
	char *a;

	g_assert_cmpint(cuCtxSetCurrent(primary(device)), ==, 0);
	captured = new_stream();
	torch.vpmm_torch_begin(device, id, NULL);
	g_assert_cmpint(cuStreamBeginCapture_v2(captured, DRV_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
	a = torch_new(4 * MIB, device, captured);
	torch.vpmm_torch_free(a, 4 * MIB, device, captured);
	end_capture(captured);
	torch.vpmm_torch_end(device, id);
}

static void test_waits(void)
{
	drv_stream stream, other;
	uint64_t waits;

	/* A graph that has freed a block, and work that nobody knows to be of it. */
	capture_freed(1, mine);
	stream = new_stream();
	other = new_stream();
	g_assert_cmpuint(torch_counts(1).graphs, ==, 1);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuStreamQuery(stream), ==, DRV_ERROR_NOT_READY);

	/* Its pool is released from another device, while a stream is captured, which no wait may break. */
	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	waits = fake_cuda_calls("cuMemFreeHost");
	torch.vpmm_torch_begin(1, (struct torch_pool_id){ .a = 2 }, NULL);
	g_assert_cmpint(cuStreamBeginCapture_v2(other, DRV_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
	torch.vpmm_torch_release(1, mine);
	g_assert_cmpuint(fake_cuda_calls("cuMemFreeHost"), ==, waits);
	g_assert_cmpuint(torch_counts(1).graphs, ==, 1);
	end_capture(other);

	/* Then the host waits for the device of the graph, and the memory is free for all. */
	torch.vpmm_torch_end(1, (struct torch_pool_id){ .a = 2 });
	g_assert_cmpuint(fake_cuda_calls("cuMemFreeHost"), ==, waits + 1);
	g_assert_cmpint(cuCtxSetCurrent(primary(1)), ==, 0);
	g_assert_cmpint(cuStreamQuery(stream), ==, 0);
	g_assert_cmpuint(torch_counts(1).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(1).held, ==, 0);
	torch.vpmm_torch_release(1, (struct torch_pool_id){ .a = 2 });
}

static void test_wait_fails(void)
{
	static const struct torch_pool_id id = { .a = 3 };

	/* Work of before has failed, say. The graph may be running still, so its memory stays. */
	capture_freed(0, id);
	fake_cuda_fail("cuMemFreeHost", 0, 1, DRV_ERROR_LAUNCH_FAILED);
	torch.vpmm_torch_release(0, id);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 1);
	g_assert_cmpuint(torch_stats(0).held, ==, 4 * MIB);

	/* The next wait works. */
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_counts(0).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(0).held, ==, 0);
}

/* As the host has no memory for one more of the driver's structures. */
static void let_enter(bool let)
{
	fake_cuda_fail("cuCtxPushCurrent", 0, let ? 0 : UINT_MAX, DRV_ERROR_OUT_OF_MEMORY);
}

static uint64_t limit_of_current(void)
{
	struct vpmm_info info = { .size = sizeof(info) };

	assert_ok(vpmm_pool_info(NULL, &info));
	return info.limit;
}

static void test_not_current(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	const char *text;
	void *ptr = NULL;
	char *a;

	/* A device that cannot be made current has no memory, and that of another is no substitute. */
	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	a = torch_new(MIB, 0, NULL);
	torch.vpmm_torch_free(a, MIB, 0, NULL);
	let_enter(false);
	text = torch_try(&ptr, MIB, 1, NULL);
	g_assert_nonnull(text);
	g_assert_true(g_str_has_prefix(text, "libvpmm-torch: 1048576 bytes on GPU 1: the device's primary context "));
	g_assert_null(ptr);

	/* What is asked of it is neither answered by the other one nor done to that. */
	text = torch_try_fraction(0.5, 1);
	g_assert_nonnull(text);
	g_assert_true(g_str_has_prefix(text, "libvpmm-torch: memory fraction of GPU 1: the device's primary context "));
	g_assert_cmpuint(torch_counts(1).limit, ==, 0);
	g_assert_cmpuint(limit_of_current(), ==, UINT64_MAX);
	g_assert_cmpint(torch.vpmm_torch_trim(1, NULL), ==, -ENXIO);
	g_assert_cmpint(torch.vpmm_torch_reset_peaks(1), ==, -ENXIO);
	g_assert_cmpint(torch.vpmm_torch_stats(1, &stats), ==, -ENXIO);
	g_assert_cmpint(torch.vpmm_torch_dump(1, stderr), ==, -ENXIO);
	g_assert_cmpuint(torch_stats(0).mapped, >, 0);
	g_assert_cmpint(torch.vpmm_torch_trim(DEVICES_NONE, NULL), ==, -EINVAL);
	let_enter(true);
	g_assert_cmpuint(torch_stats(0).requested, ==, 0);
}

static void test_graph_of_not_current(void)
{
	static const struct torch_pool_id id = { .a = 4 };

	/* A graph of device 1 is released while device 0 is current, and 1 cannot be. */
	capture_freed(1, id);
	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	let_enter(false);
	torch.vpmm_torch_release(1, id);

	/* It is not taken for one of the other device, and is retired once its own can be current. */
	g_assert_cmpuint(torch_counts(1).graphs, ==, 1);
	let_enter(true);
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_counts(1).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(1).held, ==, 0);
}

static void test_beside_foreign_capture(void)
{
	static const struct torch_pool_id id = { .a = 5 };
	drv_stream other;

	/* A graph is released while a capture is running of which PyTorch has told nothing. */
	capture_freed(0, id);
	other = new_stream();
	g_assert_cmpint(cuStreamBeginCapture_v2(other, DRV_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
	torch.vpmm_torch_release(0, id);

	/* The capture lives, and the graph is retired by then or later. */
	end_capture(other);
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_counts(0).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(0).held, ==, 0);
}

/* Begins, captures and releases graphs, as torch.cuda.graph() does. */
static gpointer capture_often(gpointer data)
{
	struct torch_pool_id id = { .b = GPOINTER_TO_SIZE(data) };
	drv_stream stream;
	char *a;

	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	stream = new_stream();
	for (id.a = 1; id.a <= 3000; id.a++) {
		torch.vpmm_torch_begin(0, id, NULL);
		g_assert_cmpint(cuStreamBeginCapture_v2(stream, DRV_STREAM_CAPTURE_MODE_RELAXED), ==, 0);
		a = torch.vpmm_torch_alloc(MIB, 0, stream);
		torch.vpmm_torch_free(a, MIB, 0, stream);
		end_capture(stream);
		torch.vpmm_torch_end(0, id);
		torch.vpmm_torch_release(0, id);
	}
	return NULL;
}

static void test_captures_of_threads(void)
{
	GThread *thread[2];

	/* One thread releases graphs, and so waits for the device, while another captures; every capture lives. */
	for (size_t i = 0; i < G_N_ELEMENTS(thread); i++)
		thread[i] = g_thread_new("captures", capture_often, GSIZE_TO_POINTER(i + 1));
	for (size_t i = 0; i < G_N_ELEMENTS(thread); i++)
		g_thread_join(thread[i]);
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_counts(0).graphs, ==, 0);
}

static void *record_stream(int device, struct CUstream_st *stream)
{
	(void)device;
	return stream;
}

static int has_passed(int device, void *event)
{
	(void)device;
	return !cuStreamQuery(event);
}

static void forget(int device, void *event)
{
	(void)device;
	(void)event;
}

/* Memory that the class's pool has freed is given back behind the streams that use it, before a request fails. */
static void test_pressed(void)
{
	static const struct torch_hooks hooks = { record_stream, has_passed, forget, NULL };
	const struct torch_class *table = torch.vpmm_torch_class();
	const struct torch_id id = { 0, 1 };
	struct vpmm_info info = { .size = sizeof(info) };
	struct torch_piece block, other;
	struct torch_pool *pool;
	drv_stream stream;

	g_assert_cmpint(cuCtxSetCurrent(primary(0)), ==, 0);
	stream = new_stream();
	table->init(COUNT, 1, &hooks);
	assert_ok(vpmm_pool_info(NULL, &info));
	pool = table->begin(0, id, 0);
	assert_ok(table->alloc(&block, 0, info.memory_total / 8 * 5, 0, NULL, pool));
	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	table->use((void *)(uintptr_t)block.addr, stream);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	assert_ok(table->release((void *)(uintptr_t)block.addr, &block));
	g_assert_cmpint(table->alloc(&other, 0, info.memory_total / 8 * 5, 0, NULL, NULL), ==, -ENOMEM);
	g_assert_cmpint(cuStreamQuery(stream), ==, DRV_ERROR_NOT_READY);
	assert_ok(table->alloc_pressed(&other, 0, info.memory_total / 8 * 5, 0, NULL, NULL));
	assert_ok(table->release((void *)(uintptr_t)other.addr, &other));
	table->trim(0, (struct torch_id){ 0 });
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
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
	g_test_add_func("/torch/cuda/graph-of-not-current", test_graph_of_not_current);
	g_test_add_func("/torch/cuda/beside-foreign-capture", test_beside_foreign_capture);
	g_test_add_func("/torch/cuda/captures-of-threads", test_captures_of_threads);
	g_test_add_func("/torch/cuda/pressed", test_pressed);
	g_test_add_func("/torch/cuda/gone", test_gone);
	return g_test_run();
}
