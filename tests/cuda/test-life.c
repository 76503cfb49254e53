// SPDX-License-Identifier: LGPL-2.1-or-later
/* What becomes of the library when a process forks, ends, or loses its device. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls/pool.h"
#include "cuda/cuda-fixture.h"

/* A child that hangs is a failure; nothing else depends on how long this is. */
#define HANGS_SECONDS 120

#define THREADS 4

/* Every call on a pool that returns an error, with arguments that are good. */

static int call_malloc(struct vpmm_pool *pool, void *live)
{
	void *ptr = live;
	int err = vpmm_malloc(pool, &ptr, PAGE, NULL);

	return err && ptr != live ? 1 : err;
}

static int call_malloc_small(struct vpmm_pool *pool, void *live)
{
	void *ptr = live;

	return vpmm_malloc(pool, &ptr, 100, NULL);
}

static int call_free(struct vpmm_pool *pool, void *live)
{
	return vpmm_free(pool, live, NULL);
}

static int call_stats(struct vpmm_pool *pool, void *live)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	(void)live;
	return vpmm_pool_stats(pool, &stats);
}

static int call_info(struct vpmm_pool *pool, void *live)
{
	struct vpmm_info info = { .size = sizeof(info) };

	(void)live;
	return vpmm_pool_info(pool, &info);
}

static int call_dump(struct vpmm_pool *pool, void *live)
{
	FILE *out = fopen("/dev/null", "w");
	int err = vpmm_pool_dump(pool, out);

	(void)live;
	fclose(out);
	return err;
}

static int call_check(struct vpmm_pool *pool, void *live)
{
	(void)live;
	return vpmm_pool_check(pool);
}

static int call_malloc_flags(struct vpmm_pool *pool, void *live)
{
	void *ptr = live;
	int err = vpmm_malloc_flags(pool, &ptr, PAGE, NULL, VPMM_ZERO);

	return err && ptr != live ? 1 : err;
}

static int call_use(struct vpmm_pool *pool, void *live)
{
	return vpmm_use(pool, live, NULL);
}

static int call_stream_retire(struct vpmm_pool *pool, void *live)
{
	(void)live;
	return vpmm_stream_retire(pool, NULL);
}

static int call_capture_id(struct vpmm_pool *pool, void *live)
{
	uint64_t id = 1;
	int err = vpmm_capture_id(pool, NULL, &id);

	(void)live;
	return err && id != 1 ? 1 : err;
}

static int call_graph_retire(struct vpmm_pool *pool, void *live)
{
	(void)live;
	return vpmm_graph_retire(pool, 1, NULL);
}

static int call_trim(struct vpmm_pool *pool, void *live)
{
	size_t released = 1;
	int err = vpmm_pool_trim(pool, 0, &released);

	(void)live;
	return err && released != 1 ? 1 : err;
}

static int call_query(struct vpmm_pool *pool, void *live)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast), .way = -1 };
	int err = vpmm_pool_query(pool, PAGE, NULL, &forecast);

	(void)live;
	return err && forecast.way != -1 ? 1 : err;
}

static const struct {
	const char *name;
	int (*call)(struct vpmm_pool *pool, void *live);
} calls[] = {
	{ "vpmm_malloc", call_malloc }, { "vpmm_malloc", call_malloc_small }, { "vpmm_free", call_free },
	{ "vpmm_pool_stats", call_stats }, { "vpmm_pool_info", call_info }, { "vpmm_pool_dump", call_dump },
	{ "vpmm_pool_check", call_check }, { "vpmm_malloc", call_malloc_flags }, { "vpmm_use", call_use },
	{ "vpmm_stream_retire", call_stream_retire }, { "vpmm_capture_id", call_capture_id },
	{ "vpmm_graph_retire", call_graph_retire }, { "vpmm_pool_trim", call_trim }, { "vpmm_pool_query", call_query },
};

/* Returns the number of the first call that does not fail as expected, from 1; 0: all do. */
static int all_fail(struct vpmm_pool *pool, void *live, int err)
{
	for (int i = 0; i < (int)G_N_ELEMENTS(calls); i++) {
		if (calls[i].call(pool, live) != err || !strstr(vpmm_last_error(), calls[i].name))
			return i + 1;
	}
	return 0;
}

/* fork */

/* All that a child may try. Returns its exit status. */
static int be_a_child(struct vpmm_pool *pool, void *live)
{
	struct vpmm_pool *made = NULL;
	int failed;

	alarm(HANGS_SECONDS);
	failed = all_fail(pool, live, -EBUSY);
	if (failed)
		return failed;
	failed = all_fail(NULL, live, -EBUSY);
	if (failed)
		return 20 + failed;
	if (vpmm_pool_create(&made, &(struct vpmm_opts){ FIXTURE_PACKED }) != -EBUSY || made)
		return 40;
	if (vpmm_pool_create(&made, NULL) != -EBUSY || made)
		return 41;
	vpmm_pool_destroy(pool);
	return 0;
}

static int wait_for(pid_t child)
{
	int status;

	g_assert_cmpint(child, >, 0);
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static pid_t fork_child(struct vpmm_pool *pool, void *live)
{
	pid_t child = fork();

	if (!child)
		_exit(be_a_child(pool, live));
	return child;
}

static void test_fork(void)
{
	struct fixture f;
	char *live, *cached;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	live = fixture_malloc(&f, 1, NULL);
	memset(live, 0x5a, PAGE);
	cached = fixture_malloc(&f, 1, NULL);
	fixture_free(&f, cached, NULL);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));

	g_assert_cmpint(wait_for(fork_child(f.pool, live)), ==, 0);

	for (size_t i = 0; i < PAGE; i++)
		g_assert_cmpint(live[i], ==, 0x5a);
	g_assert_cmpuint(fixture_stats(&f).live, ==, PAGE);
	g_assert_true(fixture_malloc(&f, 1, NULL) == cached);
	fixture_free(&f, live, NULL);
	fixture_close(&f);
}

static void test_fork_grandchild(void)
{
	struct fixture f;
	void *live;
	pid_t child;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	live = fixture_malloc(&f, 1, NULL);

	child = fork();
	if (!child)
		_exit(wait_for(fork_child(f.pool, live)));
	g_assert_cmpint(wait_for(child), ==, 0);

	fixture_close(&f);
}

/* A child of a process that has only loaded the library is as good as its parent. */
static void fork_before_use(void)
{
	struct vpmm_pool *pool;
	pid_t child = fork();
	void *ptr;

	if (!child) {
		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
		assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
		vpmm_pool_destroy(pool);
		_exit(0);
	}
	g_assert_cmpint(wait_for(child), ==, 0);
	assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* And so is one whose parent could not make a pool: it may fall back on another device. */
static void fork_after_failure(void)
{
	struct vpmm_opts nowhere = { FIXTURE_PACKED, .device = &(const int){ 77 } };
	struct vpmm_pool *pool;

	assert_error(vpmm_pool_create(&pool, &nowhere), ENODEV, "vpmm_pool_create: there is no host device 77");
	nowhere = (struct vpmm_opts){ FIXTURE_PACKED, .page_size = PAGE + 1 };
	assert_error(vpmm_pool_create(&pool, &nowhere), EINVAL, "vpmm_pool_create: page_size");
	fork_before_use();
}

/* Where a thread is held up that writes: in one direction it says that it is there, by the other it may go on. */
struct gate {
	int reached[2];
	int go[2];
	bool passed;
	pid_t process;			/* in others nobody is held up, not even who flushes all files at the end */
	struct fixture *f;
};

static ssize_t gate_write(void *cookie, const char *bytes, size_t size)
{
	struct gate *gate = cookie;
	char byte = 0;

	(void)bytes;
	if (!gate->passed && gate->process == getpid()) {
		g_assert_cmpint(write(gate->reached[1], &byte, 1), ==, 1);
		g_assert_cmpint(read(gate->go[0], &byte, 1), ==, 1);
	}
	gate->passed = true;
	return (ssize_t)size;
}

static void pass_gate(void *gate)
{
	gate_write(gate, NULL, 0);
}

/* All that the pool may hold is free behind work that is held up, so the call waits for that, under the lock. */
static void *malloc_behind(void *data)
{
	struct fixture *f = ((struct gate *)data)->f;
	void *ptr;

	assert_ok(vpmm_malloc(f->pool, &ptr, PAGE, f->streams[0]));
	assert_ok(vpmm_free(f->pool, ptr, f->streams[0]));
	return NULL;
}

/* Another thread is in the middle of a call, with the lock of the pool, and does not exist in the child. */
static void test_fork_while_locked(void)
{
	struct gate gate = { .process = getpid() };
	GThread *thread;
	struct fixture f;
	void *live, *freed;
	char byte = 0;

	g_assert_cmpint(pipe(gate.reached), ==, 0);
	g_assert_cmpint(pipe(gate.go), ==, 0);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 2 * PAGE, .reuse = VPMM_REUSE_BLOCK });
	live = fixture_malloc(&f, 1, NULL);
	freed = fixture_malloc(&f, 1, f.streams[1]);
	assert_ok(vpmm_host_stream_launch(f.streams[1], pass_gate, &gate));
	fixture_free(&f, freed, f.streams[1]);
	gate.f = &f;
	thread = g_thread_new("malloc", malloc_behind, &gate);
	g_assert_cmpint(read(gate.reached[0], &byte, 1), ==, 1);
	g_assert_cmpint(pthread_mutex_trylock(&f.pool->core.lock), ==, EBUSY);

	g_assert_cmpint(wait_for(fork_child(f.pool, live)), ==, 0);

	g_assert_cmpint(write(gate.go[1], &byte, 1), ==, 1);
	g_thread_join(thread);
	fixture_free(&f, live, NULL);
	fixture_close(&f);
	for (int i = 0; i < 2; i++) {
		close(gate.reached[i]);
		close(gate.go[i]);
	}
}

static void *make_default_pool(void *data)
{
	void *ptr;

	(void)data;
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	assert_ok(vpmm_free(NULL, ptr, NULL));
	return NULL;
}

static void *fail_to_make_default_pool(void *data)
{
	(void)data;
	assert_error(vpmm_malloc(NULL, &data, PAGE, NULL), EINVAL, "vpmm_malloc: VPMM_HOST_CAPACITY");
	return NULL;
}

/* Another thread is making the default pool, or failing to, and is held up where it says so. */
static void fork_while(GThreadFunc call, const char *level)
{
	struct gate gate = { .process = getpid() };
	FILE *usual = stderr, *gated;
	GThread *thread;
	char byte = 0;

	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_LOG", level, TRUE);
	g_assert_cmpint(pipe(gate.reached), ==, 0);
	g_assert_cmpint(pipe(gate.go), ==, 0);
	gated = fopencookie(&gate, "w", (cookie_io_functions_t){ .write = gate_write });
	setvbuf(gated, NULL, _IONBF, 0);
	stderr = gated;
	thread = g_thread_new("first", call, NULL);
	g_assert_cmpint(read(gate.reached[0], &byte, 1), ==, 1);
	/* What fails here has to say so, and the thread holds the other's lock. */
	stderr = usual;

	g_assert_cmpint(wait_for(fork_child(NULL, &gate)), ==, 0);

	g_assert_cmpint(write(gate.go[1], &byte, 1), ==, 1);
	g_thread_join(thread);
	fclose(gated);
}

static void fork_while_made(void)
{
	fork_while(make_default_pool, "info");
}

static void fork_while_not_made(void)
{
	g_setenv("VPMM_HOST_CAPACITY", "1M", TRUE);
	fork_while(fail_to_make_default_pool, "error");
}

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
	drv_context context;

	assert_ok(cu.cuInit(0));
	assert_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
	assert_ok(cu.cuCtxPushCurrent(context));
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

static void alone(gconstpointer data)
{
	const char *name = data;
	char *path = g_strconcat(name, "/subprocess", NULL);

	g_test_trap_subprocess(path, 0, 0);
	g_test_trap_assert_passed();
	g_free(path);
}

/* Each in a process of its own. */
static void add_alone(const char *name, void (*test)(void))
{
	char *path = g_strconcat(name, "/subprocess", NULL);

	g_test_add_func(path, test);
	g_test_add_data_func(name, name, alone);
	g_free(path);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/life/fork/calls", test_fork);
	g_test_add_func("/life/fork/grandchild", test_fork_grandchild);
	g_test_add_func("/life/fork/while-locked", test_fork_while_locked);
	add_alone("/life/fork/before-use", fork_before_use);
	add_alone("/life/fork/after-failure", fork_after_failure);
	add_alone("/life/fork/while-made", fork_while_made);
	add_alone("/life/fork/while-not-made", fork_while_not_made);
	add_alone("/life/exit/plain", exit_plainly);
	add_alone("/life/exit/handler", exit_with_handler);
	add_alone("/life/exit/threads", exit_with_threads);
	add_alone("/life/exit/from-thread", exit_from_thread);
	add_alone("/life/exit/cuda", exit_with_cuda);
	add_alone("/life/lost/driver", lose_driver);
	add_alone("/life/creation", fail_creation);
	return g_test_run();
}
