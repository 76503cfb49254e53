// SPDX-License-Identifier: LGPL-2.1-or-later
/* The cuda backend where there is no GPU: devices, threads, and what every backend has to do. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cuda/cuda-fixture.h"
#include "host/backend.h"
#include "host/conformance.h"
#include "support/driver-calls.h"

#define THREADS 8
#define ROUNDS 50
#define MAPPINGS 256

/* The conformance suite's view of the driver. */

static int conformance_open(struct backend **be)
{
	int err;

	g_setenv("VPMM_HOST_MAPPINGS", G_STRINGIFY(MAPPINGS), TRUE);
	err = backend_cuda.open(0, be);
	g_unsetenv("VPMM_HOST_MAPPINGS");
	return err;
}

static bool conformance_left(void)
{
	struct host_left left, none = { 0 };

	fake.left(&left);
	return memcmp(&left, &none, sizeof(left)) != 0;
}

static int stream_hold(struct CUstream_st *stream)
{
	return fake.submit(stream);
}

static int stream_finish(struct CUstream_st *stream)
{
	return fake.complete(stream, UINT_MAX);
}

static int memory_write(uint64_t va, const void *bytes, size_t size)
{
	memcpy((void *)va, bytes, size);
	return 0;
}

static int memory_read(uint64_t va, void *bytes, size_t size)
{
	memcpy(bytes, (const void *)va, size);
	return 0;
}

static bool memory_reachable(uint64_t va)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)va, 1 };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 &&
	       process_vm_writev(getpid(), &here, 1, &there, 1, 0) == 1;
}

static const struct conformance_device device = {
	/* The guard of an unmap is not for the driver to know. */
	.strict = false,
	.mappings = MAPPINGS,
	.open = conformance_open,
	.left = conformance_left,
	.stream_create = driver_stream_create,
	.stream_destroy = driver_stream_destroy,
	.capture_begin = driver_capture_begin,
	.capture_spoil = driver_capture_spoil,
	.capture_end = driver_capture_end,
	.graph_launch = driver_graph_launch,
	.graph_destroy = driver_graph_destroy,
	.hold = stream_hold,
	.finish = stream_finish,
	.write = memory_write,
	.read = memory_read,
	.reachable = memory_reachable,
};

/* Devices */

static void test_devices(void)
{
	struct backend *be[DEVICES];
	struct backend_info info;
	uint64_t handle;
	int i;

	for (i = 0; i < DEVICES; i++)
		assert_ok(backend_cuda.open(i, &be[i]));
	assert_ok(be[1]->ops->enter(be[1]));
	assert_ok(be[1]->ops->create(be[1], 3 * PAGE, &handle));

	for (i = 0; i < DEVICES; i++) {
		char *name = g_strdup_printf("Fake device %d", i);

		assert_ok(be[i]->ops->enter(be[i]));
		assert_ok(be[i]->ops->info(be[i], &info));
		be[i]->ops->leave(be[i]);
		g_assert_cmpstr(info.name, ==, "cuda");
		g_assert_cmpstr(info.device_name, ==, name);
		g_assert_cmpint(info.device, ==, i);
		g_assert_cmpint(info.driver_version, ==, 12040);
		g_assert_cmpuint(info.granularity, ==, PAGE);
		g_assert_cmpuint(info.mapping_limit, ==, 0);
		g_assert_cmpuint(info.memory_total - info.memory_free, ==, i == 1 ? 3 * PAGE : 0);
		g_free(name);
	}

	assert_ok(be[1]->ops->release(be[1], handle));
	be[1]->ops->leave(be[1]);
	for (i = 0; i < DEVICES; i++)
		be[i]->ops->close(be[i]);
}

static void test_no_such_device(void)
{
	struct backend *be = NULL;

	assert_error(backend_cuda.open(DEVICES, &be), ENODEV, "no CUDA device 3: the driver has 3");
	assert_error(backend_cuda.open(-1, &be), ENODEV, "no CUDA device -1");
	/* There are others, so a GPU is not what is missing. */
	assert_error(backend_open("cuda", &(int){ DEVICES }, &be), ENODEV, "no CUDA device 3");
	g_assert_null(strchr(vpmm_last_error(), '\n'));
	g_assert_null(be);
}

static void test_no_vmm(void)
{
	struct backend *be = NULL;

	fake.attribute(DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
	fake.attribute(DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0);

	assert_error(backend_cuda.open(0, &be), ENOTSUP, "device 0 has no virtual memory management, and no memory pools");

	fake.attribute(DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
	fake.attribute(DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1);
}

static void keep_line(void *data, int level, const char *message)
{
	(void)level;
	g_string_append(data, message);
}

/* The driver's allocator serves then, as slowly as it does, and the log says so in a line. */
static void test_mapless(void)
{
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_opts opts = { .size = sizeof(opts), .log_level = VPMM_LOG_WARNING, .log = keep_line, .pages = 3 };
	struct vpmm_pool *pool;
	GString *line;
	void *ptr;

	line = g_string_new(NULL);
	fake.attribute(DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
	opts.log_data = line;

	assert_ok(vpmm_pool_create(&pool, &opts));

	g_assert_cmpstr(line->str, ==, "cuda device 0 has no virtual memory management: its driver's allocator "
			"serves every request");
	assert_ok(vpmm_pool_info(pool, &info));
	g_assert_cmpuint(info.page_size, ==, SIZE_MAX);
	assert_ok(vpmm_malloc(pool, &ptr, 3 * PAGE, NULL));
	assert_ok(vpmm_realloc(pool, &ptr, 5 * PAGE, NULL));
	assert_ok(vpmm_pool_check(pool));
	assert_ok(vpmm_free(pool, ptr, NULL));
	assert_error(vpmm_malloc_growable(pool, &ptr, PAGE, 4 * PAGE, NULL), ENOTSUP, "");
	vpmm_pool_destroy(pool);
	g_string_free(line, TRUE);
	fake.attribute(DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1);
}

static void test_no_memory_pools(void)
{
	struct backend *be;

	fake.attribute(DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0);
	be = open_entered(0);

	assert_no_small(be);

	leave_close(be);
	fake.attribute(DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
}

/* The memory pool keeps what it has, whatever the program made of the device's default one. */
static void test_memory_pool_keeps(void)
{
	uint64_t va, held, peak;
	struct backend *be;

	be = open_entered(0);
	assert_ok(be->ops->small_alloc(be, 1000, NULL, &va));
	assert_ok(be->ops->small_free(be, va, NULL));

	assert_ok(be->ops->small_held(be, &held, &peak));

	g_assert_cmpuint(held, >=, 1000);
	g_assert_cmpuint(peak, >=, held);
	leave_close(be);
}

/* Whatever call an open fails at, it leaves nothing behind, and works the next time. */
static void test_open_fails(void)
{
	static const char *const steps[] = {
		"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuCtxGetCurrent",
		"cuDevicePrimaryCtxRetain", "cuCtxGetId", "cuCtxPushCurrent", "cuMemPoolCreate", "cuMemPoolSetAttribute",
	};
	struct backend *be = NULL;
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(steps); i++) {
		fake.fail(steps[i], 0, 1, DRV_ERROR_ECC_UNCORRECTABLE);

		assert_error(backend_cuda.open(0, &be), EIO, steps[i]);
		g_assert_null(be);
		assert_nothing_left();
	}
	assert_ok(backend_cuda.open(0, &be));
	be->ops->close(be);
}

/* Threads */

static void *work(void *data)
{
	struct backend *be = data;
	uint64_t va, handle, id;
	struct backend_event *event;
	drv_stream stream;
	int i, complete;

	for (i = 0; i < ROUNDS; i++) {
		assert_ok(be->ops->enter(be));
		assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
		assert_ok(be->ops->stream_id(be, stream, &id));
		assert_ok(be->ops->reserve(be, PAGE, PAGE, &va));
		assert_ok(be->ops->create(be, PAGE, &handle));
		assert_ok(be->ops->map(be, va, PAGE, handle));
		assert_ok(be->ops->access(be, va, PAGE));
		*(volatile uint64_t *)va = id;
		assert_ok(be->ops->event_create(be, &event));
		assert_ok(fake.submit(stream));
		assert_ok(be->ops->event_record(be, event, stream));
		assert_ok(be->ops->event_query(be, event, &complete));
		g_assert_cmpint(complete, ==, 0);
		assert_ok(be->ops->event_sync(be, event));
		g_assert_cmpuint(*(volatile uint64_t *)va, ==, id);
		assert_ok(be->ops->unmap(be, va, PAGE, event));
		be->ops->event_destroy(be, event);
		assert_ok(be->ops->release(be, handle));
		assert_ok(be->ops->unreserve(be, va, PAGE));
		assert_ok(cu.cuStreamDestroy(stream));
		be->ops->leave(be);
		g_assert_cmpuint(fake.depth(), ==, 0);
	}
	return NULL;
}

static void test_threads(void)
{
	GThread *threads[THREADS];
	struct backend *be[2];
	int i;

	assert_ok(backend_cuda.open(0, &be[0]));
	assert_ok(backend_cuda.open(1, &be[1]));
	for (i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("work", work, be[i % 2]);
	for (i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);

	be[0]->ops->close(be[0]);
	be[1]->ops->close(be[1]);
}

/* The whole library on this driver, by what a program does: no option names the backend. */
static void test_pool(void)
{
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_opts opts = { .size = sizeof(opts), .va_size = (size_t)1 << 30 };
	struct vpmm_pool *pool;
	drv_stream stream;
	void *page, *small;

	enter_primary(2);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	assert_ok(vpmm_pool_create(&pool, &opts));

	assert_ok(vpmm_pool_info(pool, &info));
	g_assert_cmpstr(info.backend, ==, "cuda");
	g_assert_cmpint(info.device, ==, 2);
	assert_ok(vpmm_malloc(pool, &page, 3 * PAGE, stream));
	assert_ok(vpmm_malloc(pool, &small, 1000, stream));
	memset(page, 1, 3 * PAGE);
	memset(small, 2, 1000);
	assert_ok(vpmm_free(pool, small, stream));
	assert_ok(vpmm_free(pool, page, stream));
	assert_ok(vpmm_pool_check(pool));

	vpmm_pool_destroy(pool);
	assert_ok(cu.cuStreamDestroy(stream));
	leave_primary(2);
}

/* Events are used again, and who waits for what an event stood for before still waits for that. */
static void test_event_used_again(void)
{
	struct CUstream_st *first, *second, *waiter;
	struct backend_event *event, *again;
	struct backend *be;
	uint64_t before;
	int complete;

	be = open_entered(0);
	assert_ok(cu.cuStreamCreate(&first, DRV_STREAM_NON_BLOCKING));
	assert_ok(cu.cuStreamCreate(&second, DRV_STREAM_NON_BLOCKING));
	assert_ok(cu.cuStreamCreate(&waiter, DRV_STREAM_NON_BLOCKING));
	before = fake.calls("cuEventCreate");
	assert_ok(be->ops->event_create(be, &event));
	assert_ok(fake.submit(first));
	assert_ok(be->ops->event_record(be, event, first));
	assert_ok(be->ops->stream_wait(be, waiter, event));
	be->ops->event_destroy(be, event);

	assert_ok(be->ops->event_create(be, &again));
	assert_ok(be->ops->event_record(be, again, second));
	g_assert_cmpuint(fake.calls("cuEventCreate") - before, ==, 1);
	assert_ok(be->ops->event_query(be, again, &complete));
	g_assert_true(complete);
	assert_ok(fake.submit(waiter));
	g_assert_cmpint(fake.complete(waiter, 1), ==, -EBUSY);
	assert_ok(fake.complete(first, 1));
	assert_ok(fake.complete(waiter, 1));

	be->ops->event_destroy(be, again);
	assert_ok(cu.cuStreamDestroy(first));
	assert_ok(cu.cuStreamDestroy(second));
	assert_ok(cu.cuStreamDestroy(waiter));
	leave_close(be);
}

/* An event that keeps time costs more to record, so it is used again only where that is asked for. */
static void test_event_used_again_for_its_kind(void)
{
	struct backend_event *plain, *timed, *first;
	struct backend *be;
	uint64_t before;

	be = open_entered(0);
	before = fake.calls("cuEventCreate");
	assert_ok(be->ops->event_create_timed(be, &timed));
	first = timed;
	be->ops->event_destroy(be, timed);
	assert_ok(be->ops->event_create(be, &plain));
	assert_ok(be->ops->event_create_timed(be, &timed));
	g_assert_cmpuint(fake.calls("cuEventCreate") - before, ==, 2);
	g_assert_true(timed == first);

	be->ops->event_destroy(be, plain);
	be->ops->event_destroy(be, timed);
	leave_close(be);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_HOST_DEVICES", G_STRINGIFY(DEVICES), TRUE);
	/* A process that a test of another driver starts has no use for this one. */
	if (g_test_subprocess() || use_fake())
		conformance_add("/cuda/conformance", &device);
	else
		conformance_add_skipped("/cuda/conformance", "the suite's own libcuda.so.1 is not built");
	cuda_add("/cuda/device/several", test_devices);
	cuda_add("/cuda/device/none-such", test_no_such_device);
	cuda_add("/cuda/device/no-vmm", test_no_vmm);
	cuda_add("/cuda/device/mapless", test_mapless);
	cuda_add("/cuda/device/no-memory-pools", test_no_memory_pools);
	cuda_add("/cuda/device/memory-pool-keeps", test_memory_pool_keeps);
	cuda_add("/cuda/device/open-fails", test_open_fails);
	cuda_add("/cuda/threads", test_threads);
	cuda_add("/cuda/pool", test_pool);
	cuda_add("/cuda/event-used-again", test_event_used_again);
	cuda_add("/cuda/event-used-again-for-its-kind", test_event_used_again_for_its_kind);
	cuda_cache_tests();
	cuda_capture_tests();
	cuda_context_tests();
	cuda_driver_tests();
	cuda_error_tests();
	cuda_peers_tests();
	cuda_reset_tests();
	return g_test_run();
}
