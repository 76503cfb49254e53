// SPDX-License-Identifier: LGPL-2.1-or-later
/* A pool whose streams keep what they free, on the cuda backend: which calls of the driver are left. */
#include <errno.h>

#include "calls/pool.h"
#include "cuda/cuda-fixture.h"

static struct vpmm_pool *open_cached(void)
{
	struct vpmm_opts opts = { FIXTURE_OPTS };
	struct vpmm_pool *pool;

	opts.backend = "cuda";
	assert_ok(vpmm_pool_create(&pool, &opts));
	pool->core.settings.cache = true;
	pool->core.direct = true;
	return pool;
}

static void pairs(struct vpmm_pool *pool, int count, struct CUstream_st *stream)
{
	void *ptr;

	for (int i = 0; i < count; i++) {
		assert_ok(vpmm_malloc(pool, &ptr, PAGE, stream));
		assert_ok(vpmm_free(pool, ptr, stream));
	}
}

/* Each call of a pair finds out which stream it is for, in which context, and that is all. */
static void test_calls(void)
{
	static const char *const names[] = {
		"cuCtxGetId", "cuStreamGetId", "cuStreamIsCapturing", "cuCtxPushCurrent", "cuCtxPopCurrent",
		"cuCtxGetCurrent", "cuCtxGetDevice", "cuEventCreate", "cuEventRecord", "cuEventQuery",
		"cuStreamWaitEvent", "cuMemMap", "cuMemGetInfo", "cuStreamGetCaptureInfo", "cuThreadExchangeStreamCaptureMode",
	};
	/* Of the first three, on each stream; the others are not called. */
	struct {
		struct CUstream_st *handle;
		uint64_t calls[3];
	} cases[] = {
		/* A context has one legacy default stream, so its id is known. */
		{ NULL, { 2, 0, 2 } }, { DRV_STREAM_LEGACY, { 2, 0, 2 } }, { DRV_STREAM_PER_THREAD, { 2, 2, 2 } },
		/* A stream that was created is the same in every context, so nobody has to ask which is current. */
		{ NULL, { 0, 2, 2 } },
	};
	uint64_t before[G_N_ELEMENTS(names)];
	struct vpmm_pool *pool;
	drv_stream stream;

	enter_primary(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	cases[G_N_ELEMENTS(cases) - 1].handle = stream;
	pool = open_cached();
	for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
		pairs(pool, 2 * CACHE_NERVOUS, cases[c].handle);
		for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
			before[i] = fake.calls(names[i]);
		pairs(pool, 1, cases[c].handle);
		for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
			g_assert_cmpuint(fake.calls(names[i]) - before[i], ==,
					 i < G_N_ELEMENTS(cases[c].calls) ? cases[c].calls[i] : 0);
	}
	vpmm_pool_destroy(pool);
	assert_ok(cu.cuStreamDestroy(stream));
	leave_primary(0);
}

/* Whatever context the thread is in, the events of a stream are made in the stream's own. */
static void test_foreign_context(void)
{
	drv_context foreign;
	struct vpmm_pool *pool;
	drv_stream stream;
	void *ptr;

	enter_primary(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	pool = open_cached();
	assert_ok(vpmm_malloc(pool, &ptr, 1000 * PAGE, stream));
	g_assert_cmpint(fake.context_create(&foreign, 0), ==, DRV_SUCCESS);
	assert_ok(cu.cuCtxPushCurrent(foreign));
	assert_ok(vpmm_free(pool, ptr, stream));
	assert_ok(cu.cuCtxPopCurrent(&foreign));
	fake.context_destroy(foreign);
	assert_ok(vpmm_pool_check(pool));
	vpmm_pool_destroy(pool);
	assert_ok(cu.cuStreamDestroy(stream));
	leave_primary(0);
}

/* The default stream is that of the pool's context, even where the thread's is another. */
static void test_foreign_default_stream(void)
{
	drv_context foreign;
	struct vpmm_pool *pool;
	uint64_t pushes;

	enter_primary(0);
	pool = open_cached();
	pairs(pool, 1, NULL);
	g_assert_cmpint(fake.context_create(&foreign, 0), ==, DRV_SUCCESS);
	assert_ok(cu.cuCtxPushCurrent(foreign));
	pushes = fake.calls("cuCtxPushCurrent");
	pairs(pool, 1, NULL);
	g_assert_cmpuint(fake.calls("cuCtxPushCurrent") - pushes, ==, 2);
	assert_ok(cu.cuCtxPopCurrent(&foreign));
	fake.context_destroy(foreign);
	assert_ok(vpmm_pool_check(pool));
	vpmm_pool_destroy(pool);
	leave_primary(0);
}

/* A stream under capture gets memory for the graph, harms nothing, and goes on as before afterwards. */
static void test_capture(void)
{
	struct vpmm_pool *pool;
	void *a, *b, *c;
	drv_stream stream;
	drv_graph graph;
	uint64_t id = 0;

	enter_primary(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	pool = open_cached();
	pairs(pool, 1, stream);
	assert_ok(vpmm_malloc(pool, &a, 2 * PAGE, stream));
	assert_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_ok(vpmm_capture_id(pool, stream, &id));
	assert_ok(vpmm_malloc(pool, &b, PAGE, stream));
	assert_ok(vpmm_free(pool, b, stream));
	assert_ok(vpmm_malloc(pool, &c, PAGE, stream));
	g_assert_true(b == c);
	assert_ok(vpmm_free(pool, a, stream));
	assert_error(vpmm_free(pool, &b, stream), EINVAL, "vpmm_free");
	assert_ok(cu.cuStreamEndCapture(stream, &graph));

	assert_error(vpmm_free(pool, a, stream), EINVAL, "vpmm_free");
	assert_ok(vpmm_malloc(pool, &b, 2 * PAGE, stream));
	g_assert_true(a != b);
	assert_ok(vpmm_graph_retire(pool, id, stream));
	assert_ok(cu.cuGraphDestroy(graph));
	assert_ok(vpmm_free(pool, c, stream));
	assert_ok(vpmm_malloc(pool, &b, 2 * PAGE, stream));
	g_assert_true(a == b);
	assert_ok(vpmm_pool_check(pool));
	vpmm_pool_destroy(pool);
	assert_ok(cu.cuStreamDestroy(stream));
	leave_primary(0);
}

static uint64_t live_now(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(NULL, &stats));
	return stats.live;
}

/* The cache of the current device's pool is asked first, and does not have it. */
static void free_of_another_device(void)
{
	drv_context first, second, popped;
	void *ptr, *other;

	assert_ok(cu.cuInit(0));
	assert_ok(cu.cuDevicePrimaryCtxRetain(&first, 0));
	assert_ok(cu.cuDevicePrimaryCtxRetain(&second, 1));
	assert_ok(cu.cuCtxPushCurrent(first));
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	assert_ok(cu.cuCtxPushCurrent(second));
	assert_ok(vpmm_malloc(NULL, &other, PAGE, NULL));

	assert_ok(vpmm_free(NULL, ptr, NULL));

	g_assert_cmpuint(live_now(), ==, PAGE);
	assert_error(vpmm_free(NULL, ptr, NULL), EINVAL, "no allocation");
	assert_ok(cu.cuCtxPopCurrent(&popped));
	g_assert_true(popped == second);
	g_assert_cmpuint(live_now(), ==, 0);
}

/* Default pools live as long as the process. */
static void test_free_of_another_device(void)
{
	if (!use_fake())
		return;
	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
		g_test_trap_assert_passed();
		return;
	}
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	free_of_another_device();
}

/*
 * The tag of a block that is not of the default pool. A tag that was set once is looked for in all pools from then on.
 */
static void test_free_of_tagged_alone(void)
{
	struct vpmm_tag_stats stats = { .size = sizeof(stats) };
	struct vpmm_pool *pool;
	void *ptr, *other;
	vpmm_tag tag;

	if (!use_fake())
		return;
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	assert_ok(cu.cuInit(0));
	enter_primary(0);
	assert_ok(vpmm_malloc(NULL, &other, PAGE, NULL));
	pool = open_cached();
	assert_ok(vpmm_tag_open("tagged", 0, &tag));
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));

	assert_ok(vpmm_free(NULL, ptr, NULL));

	assert_ok(vpmm_tag_stats(pool, tag, &stats));
	g_assert_cmpuint(stats.live, ==, 0);
	vpmm_pool_destroy(pool);
}

static void test_free_of_tagged(void)
{
	if (!use_fake())
		return;
	g_test_trap_subprocess("/cuda/cache/free-of-tagged/subprocess", 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
	g_test_trap_assert_passed();
}

void cuda_cache_tests(void)
{
	cuda_add("/cuda/cache/calls", test_calls);
	cuda_add("/cuda/cache/foreign-context", test_foreign_context);
	cuda_add("/cuda/cache/foreign-default-stream", test_foreign_default_stream);
	g_test_add_func("/cuda/cache/free-of-another-device", test_free_of_another_device);
	g_test_add_func("/cuda/cache/free-of-tagged", test_free_of_tagged);
	g_test_add_func("/cuda/cache/free-of-tagged/subprocess", test_free_of_tagged_alone);
	cuda_add("/cuda/cache/capture", test_capture);
}
