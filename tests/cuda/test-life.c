// SPDX-License-Identifier: LGPL-2.1-or-later
/* What becomes of the library when a process ends or loses its device, and when a pool cannot be made. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "calls/pool.h"
#include "cuda/cuda-fixture.h"
#include "support/life-fixture.h"

#define THREADS 4

/* exit */

/* In static memory, as what a program that ends has not destroyed is no leak. */
static struct {
	struct vpmm_pool *pool;
	struct CUstream_st *stream;
	void *live;
	void *more;
} e;

/* Live memory, memory that a stream still works on, and a default pool. */
static void prepare_exit(void)
{
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	assert_ok(vpmm_pool_create(&e.pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
	assert_ok(vpmm_host_stream_create(&e.stream));
	assert_ok(vpmm_malloc(e.pool, &e.live, 3 * PAGE, e.stream));
	assert_ok(vpmm_malloc(e.pool, &e.more, 100, e.stream));
	assert_ok(vpmm_host_stream_submit(e.stream));
	assert_ok(vpmm_free(e.pool, e.more, e.stream));
	assert_ok(vpmm_malloc(NULL, &e.more, PAGE, NULL));
	assert_ok(vpmm_malloc(NULL, &e.more, 100, VPMM_HOST_STREAM_PER_THREAD));
}

static void exit_plainly(void)
{
	prepare_exit();
	exit(0);
}

static void use_at_exit(void)
{
	struct vpmm_pool *late;
	void *ptr;

	assert_ok(vpmm_malloc(e.pool, &ptr, 5 * PAGE, NULL));
	assert_ok(vpmm_free(e.pool, e.live, e.stream));
	assert_ok(vpmm_free(NULL, e.more, NULL));
	assert_ok(vpmm_pool_check(e.pool));
	assert_ok(vpmm_pool_create(&late, &(struct vpmm_opts){ FIXTURE_PACKED }));
	assert_ok(vpmm_malloc(late, &ptr, PAGE, NULL));
	vpmm_pool_destroy(late);
	vpmm_pool_destroy(e.pool);
}

static void exit_with_handler(void)
{
	g_assert_cmpint(atexit(use_at_exit), ==, 0);
	prepare_exit();
	exit(0);
}

static _Atomic int turns;

static void *work_for_ever(void *data)
{
	void *ptr;

	(void)data;
	while (true) {
		assert_ok(vpmm_malloc(e.pool, &ptr, PAGE, VPMM_HOST_STREAM_PER_THREAD));
		assert_ok(vpmm_free(e.pool, ptr, NULL));
		assert_ok(vpmm_malloc(NULL, &ptr, 1000, e.stream));
		assert_ok(vpmm_free(NULL, ptr, e.stream));
		turns++;
	}
	return NULL;
}

/* Some threads are in the library, and stay there, while another ends the process. */
static void exit_with_threads(void)
{
	prepare_exit();
	for (int i = 0; i < THREADS; i++)
		g_thread_unref(g_thread_new("worker", work_for_ever, NULL));
	while (turns < 100 * THREADS)
		g_thread_yield();
	exit(0);
}

static void *end_process(void *data)
{
	(void)data;
	exit(0);
	return NULL;
}

static void exit_from_thread(void)
{
	prepare_exit();
	g_thread_join(g_thread_new("last", end_process, NULL));
}

static void use_cuda_at_exit(void)
{
	void *ptr;

	assert_ok(vpmm_malloc(e.pool, &ptr, PAGE, NULL));
	assert_ok(vpmm_free(e.pool, e.live, e.stream));
	vpmm_pool_destroy(e.pool);
}

static struct vpmm_opts cuda_opts(void)
{
	return (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "cuda", .va_size = (size_t)1 << 30,
				   .small = VPMM_SMALL_DRIVER };
}

/* Live memory of the driver, some that a stream still works on, and an allocation of the driver's own. */
static void prepare_cuda(void)
{
	struct vpmm_opts opts = cuda_opts();

	assert_ok(cu.cuInit(0));
	enter_primary(0);
	assert_ok(vpmm_pool_create(&e.pool, &opts));
	assert_ok(cu.cuStreamCreate(&e.stream, DRV_STREAM_NON_BLOCKING));
	assert_ok(vpmm_malloc(e.pool, &e.live, 3 * PAGE, e.stream));
	assert_ok(vpmm_malloc(e.pool, &e.more, 2 * PAGE, e.stream));
	assert_ok(fake.submit(e.stream));
	assert_ok(vpmm_free(e.pool, e.more, e.stream));
	assert_ok(vpmm_malloc(e.pool, &e.more, 100, NULL));
}

static void exit_with_cuda(void)
{
	if (!use_fake())
		return;
	g_assert_cmpint(atexit(use_cuda_at_exit), ==, 0);
	prepare_cuda();
	exit(0);
}

/* The context is gone */

static void fail_driver(unsigned int times)
{
#define X(name, version, args) fake.fail(#name, 0, times, DRV_ERROR_DEINITIALIZED);
	DRV_CALLS_REQUIRED(X)
	DRV_CALLS_OPTIONAL(X)
#undef X
}

/* Whatever is called, the driver says that it has shut down; then so does the pool, and it can be destroyed. */
static void lose_driver(void)
{
	struct vpmm_opts opts = cuda_opts();
	struct vpmm_pool *other = NULL;

	if (!use_fake())
		return;
	prepare_cuda();
	fail_driver(UINT_MAX);

	g_assert_cmpint(all_fail(e.pool, e.live, -EIO), ==, 0);
	g_assert_nonnull(strstr(vpmm_last_error(), "CUDA_ERROR_DEINITIALIZED"));
	assert_error(vpmm_pool_create(&other, &opts), EIO, "CUDA_ERROR_DEINITIALIZED");
	g_assert_null(other);
	vpmm_pool_destroy(e.pool);
	fail_driver(0);
	assert_ok(cu.cuMemFreeAsync((drv_deviceptr)e.more, NULL));
	fake.drop_pools();
}

/* Creation */

/* The n-th call of one of the driver's fails while a pool is made as the environment says. Whether there was one. */
static bool creation_fails(const char *name, unsigned int skip)
{
	uint64_t before = fake.calls(name);
	struct vpmm_pool *pool = NULL;
	bool hit;
	int err;

	fake.fail(name, skip, 1, DRV_ERROR_UNKNOWN);
	err = vpmm_pool_create(&pool, NULL);
	hit = fake.calls(name) > before + skip;
	fake.fail(name, 0, 0, DRV_SUCCESS);
	if (!err) {
		vpmm_pool_destroy(pool);
	} else {
		g_assert_true(hit);
		g_assert_cmpint(err, ==, -EIO);
		g_assert_nonnull(strstr(vpmm_last_error(), name));
		g_assert_null(pool);
	}
	assert_nothing_left();
	return hit;
}

static void fail_creation(void)
{
	static const char *const names[] = {
#define X(name, version, args) #name,
		DRV_CALLS_REQUIRED(X)
		DRV_CALLS_OPTIONAL(X)
#undef X
	};
	unsigned int hits = 0;

	if (!use_fake())
		return;
	g_setenv("VPMM_BACKEND", "cuda", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_PAGES", "20", TRUE);
	g_setenv("VPMM_EXTENT_MAX", "4M", TRUE);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		/* That leaving a context fails is not foreseen: there is no way back. */
		if (!strcmp(names[i], "cuCtxPopCurrent"))
			continue;
		for (unsigned int skip = 0; creation_fails(names[i], skip); skip++)
			hits++;
	}
	g_test_message("%u calls failed", hits);
	g_assert_cmpuint(hits, >, G_N_ELEMENTS(names) / 2);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	add_alone("/life/exit/plain", exit_plainly);
	add_alone("/life/exit/handler", exit_with_handler);
	add_alone("/life/exit/threads", exit_with_threads);
	add_alone("/life/exit/from-thread", exit_from_thread);
	add_alone("/life/exit/cuda", exit_with_cuda);
	add_alone("/life/lost/driver", lose_driver);
	add_alone("/life/creation", fail_creation);
	return g_test_run();
}
