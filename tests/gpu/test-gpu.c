// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What needs a real GPU: the conformance suite on it, and the pool through the public API, with kernels at work.
 *
 * VPMM_TEST_PAGED runs the pools with pages for extents.
 *
 * VPMM_TEST_NO_ERRORS leaves out the tests in which the driver has to refuse something, as tools that watch the
 * driver's calls take a refusal for a mistake of the program.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "gpu/gpu-fixture.h"
#include "host/conformance.h"
#include "support/driver-calls.h"

/* The checks of the conformance suite that make the driver refuse something. */
static const char *const refusals[] = {
	"/gpu/conformance/reserve-much",
	"/gpu/conformance/create-too-much",
	"/gpu/conformance/map-bad",
	"/gpu/conformance/access-hole",
	"/gpu/conformance/small-too-much",
	"/gpu/conformance/elapsed-pending",
	"/gpu/conformance/import-bad",
	"/gpu/conformance/graph-watch-failed",
};

/* A kernel that touches what it must not is the end of the context, so nothing tells what is reachable. */
static const struct conformance_device device = {
	.strict = false,
	.open = driver_open_backend,
	.stream_create = driver_stream_create,
	.stream_destroy = driver_stream_destroy,
	.capture_begin = driver_capture_begin,
	.capture_spoil = driver_capture_spoil,
	.capture_end = driver_capture_end,
	.graph_launch = driver_graph_launch,
	.graph_destroy = driver_graph_destroy,
	.hold = gpu_hold,
	.finish = gpu_finish,
	.write = gpu_write,
	.read = gpu_read,
};

/* Works from a thread that has no context, which has none afterwards. */
static void *work_without_context(void *data)
{
	struct backend *be = data;
	drv_context context;
	uint64_t handle;
	int ordinal = -1;

	gpu_ok(cu.cuCtxGetCurrent(&context));
	g_assert_null(context);
	assert_ok(be->ops->current_device(&ordinal));
	g_assert_cmpint(ordinal, ==, 0);
	assert_ok(be->ops->enter(be));
	assert_ok(be->ops->create(be, PAGE, &handle));
	assert_ok(be->ops->release(be, handle));
	be->ops->leave(be);
	gpu_ok(cu.cuCtxGetCurrent(&context));
	g_assert_null(context);
	return NULL;
}

static void test_thread_without_context(void)
{
	struct backend *be;

	if (!gpu_ready())
		return;
	assert_ok(backend_cuda.open(0, &be));

	g_thread_join(g_thread_new("bare", work_without_context, be));

	be->ops->close(be);
}

static void test_info(void)
{
	struct backend_info info;
	struct backend *be;

	if (!gpu_ready())
		return;
	assert_ok(backend_cuda.open(0, &be));
	assert_ok(be->ops->enter(be));

	assert_ok(be->ops->info(be, &info));

	g_test_message("%s, driver %d.%d, %" PRIu64 " of %" PRIu64 " MiB free", info.device_name,
		       info.driver_version / 1000, info.driver_version % 1000 / 10, info.memory_free >> 20,
		       info.memory_total >> 20);
	g_assert_cmpint(info.driver_version, >=, 12000);
	g_assert_cmpuint(info.memory_free, ==, gpu_memory_free());
	be->ops->leave(be);
	be->ops->close(be);
}

/* The kernels that all other tests rely on: a wrong word is counted, once. */
static void test_kernels(void)
{
	drv_deviceptr at;
	drv_stream stream;
	uint64_t word = 0;

	if (!gpu_ready())
		return;
	stream = gpu_stream();
	gpu_ok(cu.cuMemAlloc(&at, PAGE));
	gpu_fill((void *)at, PAGE, 42, stream);
	gpu_check((void *)at, PAGE, 42, stream);
	g_assert_cmpuint(gpu_wrong(), ==, 0);

	gpu_ok(gpu_write(at + PAGE - sizeof(word), &word, sizeof(word)));
	gpu_check((void *)at, PAGE, 42, stream);
	g_assert_cmpuint(gpu_wrong(), ==, 1);
	gpu_check((void *)at, PAGE, 43, stream);
	g_assert_cmpuint(gpu_wrong(), ==, PAGE / sizeof(word));
	gpu_fill((void *)at, PAGE, 42, stream);
	gpu_ok(cu.cuMemsetD8Async(at + PAGE / 2, 3, PAGE / 2, stream));
	gpu_mix((void *)at, (void *)at, (void *)(at + PAGE / 2), PAGE / 2, 42 ^ 7, stream);
	gpu_check((void *)at, PAGE / 2, 0x0303030303030303 ^ 7, stream);
	g_assert_cmpuint(gpu_wrong(), ==, 0);

	assert_ok(gpu_hold(stream));
	g_assert_true(gpu_busy(stream));
	assert_ok(gpu_finish(stream));
	gpu_sync(stream);
	g_assert_false(gpu_busy(stream));
	gpu_ok(cu.cuMemFree(at));
	gpu_ok(cu.cuStreamDestroy(stream));
}

/* The arguments of the program, and more that leave out tests. */
static char **arguments(int argc, char **argv, int *count)
{
	GPtrArray *all = g_ptr_array_new();
	size_t i;

	for (i = 0; i < (size_t)argc; i++)
		g_ptr_array_add(all, argv[i]);
	for (i = 0; i < G_N_ELEMENTS(refusals); i++) {
		g_ptr_array_add(all, (char *)"-s");
		g_ptr_array_add(all, (char *)refusals[i]);
	}
	*count = (int)all->len;
	g_ptr_array_add(all, NULL);
	return (char **)g_ptr_array_free(all, FALSE);
}

int main(int argc, char **argv)
{
	const bool errors = !g_getenv("VPMM_TEST_NO_ERRORS");
	const char *why;
	char **all = argv;
	int ret;

	if (argc == 2 && !strcmp(argv[1], "--take-half"))
		return gpu_take_half();
	if (argc == 3 && !strcmp(argv[1], "--answer"))
		return gpu_answer(atoi(argv[2]));
	if (!errors)
		all = arguments(argc, argv, &argc);
	g_test_init(&argc, &all, NULL);
	why = gpu_missing();
	if (why)
		conformance_add_skipped("/gpu/conformance", why);
	else
		conformance_add("/gpu/conformance", &device);
	g_test_add_func("/gpu/info", test_info);
	g_test_add_func("/gpu/kernels", test_kernels);
	g_test_add_func("/gpu/thread-without-context", test_thread_without_context);
	gpu_peers_tests();
	gpu_pool_tests();
	gpu_bounds_tests(errors);
	gpu_export_tests();
	gpu_capture_tests();
	gpu_graph_tests(errors);
	gpu_stream_tests();
	gpu_life_tests(errors);
	gpu_pause_tests();
	if (errors)
		gpu_full_tests();
	ret = g_test_run();
	gpu_close();
	if (!errors)
		g_free(all);
	return ret;
}
