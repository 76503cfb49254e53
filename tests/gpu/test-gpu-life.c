// SPDX-License-Identifier: LGPL-2.1-or-later
/* Processes that end, fork, or lose their context while a pool has memory and streams have work. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu-bench.h"

/* What is held on a stream gives up after 20 seconds. */
#define CHILD_TIME (60 * G_USEC_PER_SEC)

/* Runs the test once more as a process of its own, which has to end well. */
static void run_child(void)
{
	gint64 start;

	if (!gpu_ready())
		return;
	start = g_get_monotonic_time();
	g_test_trap_subprocess(NULL, CHILD_TIME, G_TEST_SUBPROCESS_INHERIT_STDERR);
	g_assert_false(g_test_trap_reached_timeout());
	g_test_trap_assert_passed();
	g_test_message("it took %.1f s", (double)(g_get_monotonic_time() - start) / G_USEC_PER_SEC);
}

/* A pool with something allocated, something freed, and work on each stream that goes on for long. */
static void busy_bench(struct bench *b)
{
	struct slot slot;
	int i;

	g_assert_true(open_bench(b, (struct vpmm_opts){ 0 }));
	for (i = 0; i < STREAMS; i++) {
		slot = take(b->f.pool, 8 * PAGE, b->s[i]);
		slot = take(b->f.pool, 3000, b->s[i]);
		assert_ok(gpu_hold(b->s[i]));
		give(b->f.pool, &slot);
		slot = take(b->f.pool, PAGE, b->s[i]);
	}
}

static void test_exit(void)
{
	struct bench b;

	if (!g_test_subprocess()) {
		run_child();
		return;
	}
	busy_bench(&b);
	exit(EXIT_SUCCESS);
}

/* Destroyed when the driver may have shut down already. */
static struct vpmm_pool *late;

static void __attribute__((destructor)) destroy_late(void)
{
	vpmm_pool_destroy(late);
}

static void test_destroyed_late(void)
{
	struct bench b;
	int i;

	if (!g_test_subprocess()) {
		run_child();
		return;
	}
	busy_bench(&b);
	for (i = 0; i < STREAMS; i++)
		assert_ok(gpu_finish(b.s[i]));
	late = b.f.pool;
	exit(EXIT_SUCCESS);
}

/* The context goes, and all streams with it: calls fail and say so, and the pool gives its memory back. */
static void test_context_reset(void)
{
	struct slot kept, freed;
	drv_context context;
	void *ptr = NULL;
	struct bench b;
	size_t before;

	if (!g_test_subprocess()) {
		run_child();
		return;
	}
	g_assert_true(open_bench(&b, (struct vpmm_opts){ 0 }));
	kept = take(b.f.pool, 2048 * MIB, b.s[0]);
	freed = take(b.f.pool, 4 * PAGE, b.s[1]);
	give(b.f.pool, &freed);
	freed = take(b.f.pool, 3000, b.s[2]);
	give(b.f.pool, &freed);
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuDevicePrimaryCtxReset(0));

	assert_error(vpmm_malloc(b.f.pool, &ptr, 512 * MIB, NULL), ESTALE, "");
	gpu_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
	gpu_ok(cu.cuCtxSetCurrent(context));
	assert_error(vpmm_malloc(b.f.pool, &ptr, 512 * MIB, NULL), ESTALE, "was reset");
	assert_error(vpmm_free(b.f.pool, kept.ptr, NULL), ESTALE, "was reset");
	assert_error(vpmm_pool_check(b.f.pool), ESTALE, "was reset");
	g_assert_null(ptr);
	before = gpu_memory_free();
	vpmm_pool_destroy(b.f.pool);
	g_assert_cmpuint(gpu_memory_free(), >=, before + 2048 * MIB);
	exit(EXIT_SUCCESS);
}

/* What is in use of the default pool when the device is reset: caches, and frees that have events. */
static void use_default(void)
{
	drv_stream stream = gpu_stream();
	void *ptr;

	assert_ok(vpmm_malloc(NULL, &ptr, 4096 * MIB, NULL));
	for (int i = 1; i < 20; i++) {
		struct CUstream_st *handle = i % 2 ? stream : NULL;

		assert_ok(vpmm_malloc(NULL, &ptr, (size_t)i * PAGE, handle));
		gpu_ok(cu.cuMemsetD8Async((drv_deviceptr)ptr, 1, (size_t)i * PAGE, handle));
		assert_ok(vpmm_free(NULL, ptr, handle));
	}
	gpu_ok(cu.cuCtxSynchronize());
}

/* A program resets its device, again and again, and goes on with the default pool: with or without a call before. */
static void test_default_after_reset(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	size_t first = 0, now;
	unsigned char byte;
	drv_context context;
	void *ptr;

	if (!g_test_subprocess()) {
		run_child();
		return;
	}
	g_assert_null(gpu_missing());
	g_setenv("VPMM_BACKEND", "cuda", TRUE);
	for (int i = 0; i < 6; i++) {
		use_default();
		gpu_ok(cu.cuDevicePrimaryCtxReset(0));
		if (i % 2) {
			gpu_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
			gpu_ok(cu.cuCtxSetCurrent(context));
		}

		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));

		gpu_ok(cu.cuMemsetD8Async((drv_deviceptr)ptr, 7, PAGE, NULL));
		gpu_ok(cu.cuMemcpyDtoH(&byte, (drv_deviceptr)ptr, 1));
		g_assert_cmpuint(byte, ==, 7);
		assert_ok(vpmm_pool_stats(NULL, &stats));
		g_assert_cmpuint(stats.mallocs, ==, 1);
		now = gpu_memory_free();
		first = first ? first : now;
		g_assert_cmpuint(now + 1024 * MIB, >, first);
		assert_ok(vpmm_free(NULL, ptr, NULL));
		assert_ok(vpmm_pool_check(NULL));
	}
	assert_ok(vpmm_pool_abandon(NULL));
	exit(EXIT_SUCCESS);
}

/* A kernel has gone wrong: that is what calls say from then on, and not that there is no memory. */
static void test_sticky_error(void)
{
	struct slot kept;
	void *ptr = NULL;
	struct bench b;
	int err;

	if (!g_test_subprocess()) {
		run_child();
		return;
	}
	g_assert_true(open_bench(&b, (struct vpmm_opts){ 0 }));
	kept = take(b.f.pool, 8 * PAGE, b.s[0]);
	gpu_fill(NULL, PAGE, 1, b.s[1]);
	g_assert_cmpint(cu.cuCtxSynchronize(), !=, DRV_SUCCESS);

	err = vpmm_malloc(b.f.pool, &ptr, 512 * MIB, b.s[2]);
	g_printerr("# malloc after a kernel's error: %d, %s\n", err, vpmm_last_error());
	g_assert_cmpint(err, ==, -EIO);
	g_assert_null(ptr);
	g_assert_nonnull(kept.ptr);
	assert_ok(vpmm_pool_check(b.f.pool));
	vpmm_pool_destroy(b.f.pool);
	exit(EXIT_SUCCESS);
}

/* What fails in a child that was forked without a new program; the number says which call did not. */
static int forked(struct bench *b, const struct slot *slot)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	uint64_t id;
	void *ptr;

	if (vpmm_malloc(b->f.pool, &ptr, PAGE, b->s[0]) != -EBUSY)
		return 1;
	if (vpmm_free(b->f.pool, slot->ptr, b->s[0]) != -EBUSY)
		return 2;
	if (vpmm_use(b->f.pool, slot->ptr, b->s[1]) != -EBUSY)
		return 3;
	if (vpmm_stream_retire(b->f.pool, b->s[0]) != -EBUSY)
		return 4;
	if (vpmm_capture_id(b->f.pool, b->s[0], &id) != -EBUSY)
		return 5;
	if (vpmm_graph_retire(b->f.pool, 1, b->s[0]) != -EBUSY)
		return 6;
	if (vpmm_pool_stats(b->f.pool, &stats) != -EBUSY)
		return 7;
	vpmm_pool_destroy(b->f.pool);
	return 0;
}

/* The parent's pool, memory and work are untouched by what a child tries. */
static void test_fork(void)
{
	struct slot slot;
	struct bench b;
	int status = -1;
	pid_t pid;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	slot = take(b.f.pool, 8 * PAGE, b.s[0]);
	pid = fork();
	g_assert_cmpint(pid, >=, 0);
	if (!pid)
		_exit(forked(&b, &slot));
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	give(b.f.pool, &slot);
	slot = take(b.f.pool, 64 * PAGE, b.s[1]);
	give(b.f.pool, &slot);
	close_bench(&b);
}

void gpu_life_tests(bool errors)
{
	g_test_add_func("/gpu/life/default-after-reset", test_default_after_reset);
	/* Processes of their own, which end while work is pending, are not for a checker to wait for. */
	if (!errors)
		return;
	g_test_add_func("/gpu/life/exit", test_exit);
	g_test_add_func("/gpu/life/destroyed-late", test_destroyed_late);
	g_test_add_func("/gpu/life/fork", test_fork);
	g_test_add_func("/gpu/life/context-reset", test_context_reset);
	g_test_add_func("/gpu/life/sticky-error", test_sticky_error);
}
