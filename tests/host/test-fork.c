// SPDX-License-Identifier: LGPL-2.1-or-later
/* What becomes of the library when a process forks. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "calls/pool.h"
#include "calls/tags.h"
#include "host/queue.h"
#include "shared/shared.h"
#include "support/life-fixture.h"
#include "util/assume.h"
#include "util/tag.h"
#include "vpmm-shared.h"

/* A child that hangs is a failure; nothing else depends on how long this is. */
#define HANGS_SECONDS 120

/* Beside a thread that makes a call, so that some come while it has the lock that the call takes. */
#define FORKS 40

/* What the process has when it forks. */
static vpmm_tag tag;
static void *range;
static int ends[2];

/* A child's calls that all_fail() lacks, with the block as @ptr. */
#define OTHER_CALLS(pool, ptr) \
	vpmm_realloc(pool, &(ptr), 3 * PAGE, NULL), \
	vpmm_malloc_growable(pool, &(ptr), PAGE, 2 * PAGE, NULL), \
	vpmm_malloc_aligned(pool, &(ptr), PAGE, PAGE, NULL), \
	vpmm_malloc_flags(pool, &(ptr), PAGE, NULL, VPMM_IDLE), \
	vpmm_malloc_flags(pool, &(ptr), PAGE, NULL, VPMM_SHAREABLE), \
	vpmm_send(pool, ptr, ends[0]), \
	vpmm_lend(pool, ptr, ends[0]), \
	vpmm_lend_key(pool, ptr, &(uint64_t [3]){ 0 }[0], &(size_t){ 0 }), \
	vpmm_receive(pool, &(ptr), NULL, ends[1]), \
	vpmm_capture_group(pool, 1, 1), \
	vpmm_pool_set_limit(pool, 0), \
	vpmm_pool_reset_peaks(pool), \
	vpmm_pool_save_plan(pool), \
	vpmm_tag_stats(pool, tag, &(struct vpmm_tag_stats){ .size = sizeof(struct vpmm_tag_stats) }), \
	vpmm_tag_limit(pool, tag, 0), \
	vpmm_pause_prepare(pool, tag), \
	vpmm_pause(pool, tag, 0), \
	vpmm_resume(pool, tag, NULL), \
	vpmm_lookup(ptr, &(struct vpmm_allocation){ .size = sizeof(struct vpmm_allocation) }), \
	vpmm_shared_alloc(pool, &(ptr), PAGE, 0), \
	vpmm_shared_free(pool, range, NULL), \
	vpmm_migrate(pool, range, PAGE, VPMM_DEVICE, NULL, NULL, NULL), \
	vpmm_locate(pool, range, PAGE, NULL), \
	vpmm_fault(pool, range, PAGE, VPMM_DEVICE, 0), \
	vpmm_advise(pool, range, PAGE, VPMM_ADVISE_PREFER_HOST), \
	vpmm_pin(pool, range, PAGE), \
	vpmm_unpin(pool, range, PAGE), \
	vpmm_shared_stats(pool, &(struct vpmm_shared_stats){ .size = sizeof(struct vpmm_shared_stats) }), \
	vpmm_mirror_register(pool, &(struct vpmm_mirror *){ NULL }, &mirror_ops, NULL)

static void be_told(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	(void)mirror;
	(void)data;
	(void)action;
	(void)start;
	(void)end;
}

/* Returns 0, or the number of the call that does not fail as it should. */
static int others_fail(struct vpmm_pool *pool, void *live)
{
	const struct vpmm_mirror_ops mirror_ops = { .size = sizeof(mirror_ops), .update = be_told };
	const int results[] = { OTHER_CALLS(pool, live) };

	for (int i = 0; i < (int)G_N_ELEMENTS(results); i++)
		if (results[i] != -EBUSY)
			return i + 1;
	return 0;
}

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
	if (vpmm_pool_abandon(pool) != -EBUSY || vpmm_pool_abandon(NULL) != -EBUSY)
		return 42;
	vpmm_pool_destroy(pool);
	for (int tagged = 0; tag && tagged < 2; tagged++) {
		if (tagged)
			vpmm_tag_set(tag);
		failed = others_fail(pool, live);
		if (failed)
			return 50 + failed;
		failed = others_fail(NULL, live);
		if (failed)
			return 100 + failed;
	}
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

/* The name that comes last takes longest to find. */
static int open_last_tag(void)
{
	vpmm_tag last;
	char name[64];
	int err = 0;

	for (vpmm_tag i = MIN(tag_count() + 1, 199); i < 200 && !err; i++) {
		g_snprintf(name, sizeof(name), "a name that begins like all others, number %u", i);
		err = vpmm_tag_open(name, 0, &last);
	}
	return err;
}

/* A child of a process that is making a pool, as it seems, cannot make one. */
static int make_no_pool(void)
{
	struct vpmm_opts nowhere = { FIXTURE_PACKED, .device = &(const int){ 77 } };
	struct vpmm_pool *pool;
	int err = vpmm_pool_create(&pool, &nowhere);

	return err == -ENODEV || err == -EBUSY ? 0 : 1;
}

static int read_options(void)
{
	return vpmm_opts_from_env(&(struct vpmm_opts){ .size = sizeof(struct vpmm_opts) });
}

static int look_up(void)
{
	return vpmm_lookup(&tag, &(struct vpmm_allocation){ .size = sizeof(struct vpmm_allocation) });
}

/* Of the thread, so that a child's work is not that of its parent's other thread. */
#define OWN VPMM_HOST_STREAM_PER_THREAD

static int create_stream(void)
{
	struct CUstream_st *stream;
	int err = vpmm_host_stream_create(&stream);

	return err ? err : vpmm_host_stream_destroy(stream);
}

static void do_nothing(void *data)
{
	(void)data;
}

static int launch(void)
{
	int err = vpmm_host_stream_launch(OWN, do_nothing, NULL);

	return err ? err : vpmm_host_stream_complete(OWN, 1);
}

static int submit(void)
{
	int err = vpmm_host_stream_submit(OWN);

	return err ? err : vpmm_host_stream_complete(OWN, 1);
}

static int finish_timed(void)
{
	int err = vpmm_host_stream_submit_for(OWN, VPMM_HOST_COMPUTE, 1);

	return err ? err : vpmm_host_time_finish();
}

static int pass_timed(void)
{
	int err = vpmm_host_stream_submit_for(OWN, VPMM_HOST_COMPUTE, 1);

	return err ? err : vpmm_host_time_pass(1);
}

static int capture(void)
{
	struct vpmm_host_graph *graph = NULL;
	int err = vpmm_host_capture_begin(OWN);

	if (!err)
		err = vpmm_host_capture_end(OWN, &graph);
	if (!err)
		err = vpmm_host_graph_launch(graph, OWN);
	return err ? err : vpmm_host_graph_destroy(graph);
}

/* The calls that no pool is needed for, and what they return without one. */
#define CALLS_WITHOUT_POOL(X) \
	X(0, open_last_tag()) \
	X(0, make_no_pool()) \
	X(0, read_options()) \
	X(0, vpmm_pause_guard(NULL, NULL)) \
	X(0, vpmm_pool_abandon(NULL)) \
	X(-EINVAL, look_up()) \
	X(-EINVAL, vpmm_free(NULL, &tag, NULL)) \
	X(-EINVAL, vpmm_use(NULL, &tag, NULL)) \
	X(-EINVAL, vpmm_realloc(NULL, &(void *){ &tag }, 1, NULL)) \
	X(-EINVAL, vpmm_send(NULL, &tag, 0)) \
	X(-EINVAL, vpmm_lend(NULL, &tag, 0)) \
	X(-EINVAL, vpmm_shared_free(NULL, &tag, NULL)) \
	X(-EINVAL, vpmm_migrate(NULL, &tag, 1, VPMM_DEVICE, NULL, NULL, NULL)) \
	X(-EINVAL, vpmm_locate(NULL, &tag, 1, NULL)) \
	X(-EINVAL, vpmm_fault(NULL, &tag, 1, VPMM_DEVICE, 0)) \
	X(-EINVAL, vpmm_advise(NULL, &tag, 1, VPMM_ADVISE_NONE)) \
	X(-EINVAL, vpmm_pin(NULL, &tag, 1)) \
	X(-EINVAL, vpmm_unpin(NULL, &tag, 1)) \
	X(0, (int)(uintptr_t)vpmm_host_view(&tag)) \
	X(0, vpmm_host_set_device(0)) \
	X(0, vpmm_host_reset()) \
	X(-EACCES, vpmm_host_check_access(0, &tag, 1)) \
	X(0, create_stream()) \
	X(0, launch()) \
	X(0, submit()) \
	X(0, finish_timed()) \
	X(0, pass_timed()) \
	X(0, capture()) \
	X(0, vpmm_host_stream_wait(OWN, NULL)) \
	X(0, vpmm_host_stream_pending(OWN, &(unsigned int){ 0 })) \
	X(1, vpmm_host_time() < UINT64_MAX)

/* The number of the call in the list above that another thread makes, over and over. */
struct caller {
	int call;
	gint stop;
};

static bool returns_as_it_should(int call)
{
#define IS_THIS(result, does) || (i++ == call && (does) == (result))
	int i = 0;

	return false CALLS_WITHOUT_POOL(IS_THIS);
#undef IS_THIS
}

static void *call_on(void *data)
{
	struct caller *caller = data;

	while (!g_atomic_int_get(&caller->stop))
		g_assert_true(returns_as_it_should(caller->call));
	return NULL;
}

/* Such a child goes on as its parent would, so it makes the same call. */
static void fork_while_called(void)
{
#define NAME(result, does) #does,
	static const char *const names[] = { CALLS_WITHOUT_POOL(NAME) };
#undef NAME

	for (int call = 0; call < (int)G_N_ELEMENTS(names); call++) {
		struct caller caller = { .call = call };
		GThread *thread;

		/* ThreadSanitizer's pthread_once() makes a child wait for the parent's thread; glibc's does not. */
		if (SANITIZED_THREADS)
			g_assert_true(returns_as_it_should(call));
		thread = g_thread_new("caller", call_on, &caller);
		for (int i = 0; i < FORKS; i++) {
			pid_t child = fork();

			if (!child) {
				alarm(HANGS_SECONDS);
				_exit(!returns_as_it_should(call));
			}
			g_assert_cmpstr(wait_for(child) ? names[call] : "", ==, "");
		}
		g_atomic_int_set(&caller.stop, 1);
		g_thread_join(thread);
	}
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

static void *complete_one(void *stream)
{
	assert_ok(vpmm_host_stream_complete(stream, 1));
	return NULL;
}

/* Until so many threads complete work of a stream: one does, and the others wait for that. */
static void await_completers(struct CUstream_st *stream, unsigned int count)
{
	unsigned int now = 0;

	while (now != count) {
		lock_acquire(&host_streams_lock);
		now = stream->refs - 1;
		lock_release(&host_streams_lock);
	}
}

static void await_another(void *stream)
{
	await_completers(stream, 2);
}

/* One of two threads waits for the other, more than once. */
static void complete_in_turn(struct CUstream_st *stream)
{
	GThread *other;

	for (int i = 0; i < 3; i++) {
		assert_ok(vpmm_host_stream_launch(stream, await_another, stream));
		assert_ok(vpmm_host_stream_submit(stream));
		other = g_thread_new("work", complete_one, stream);
		complete_one(stream);
		g_thread_join(other);
	}
}

/* Returns its exit status. */
static int work_in_child(struct CUstream_st *stream)
{
	struct CUstream_st *made;
	unsigned int pending;

	alarm(HANGS_SECONDS);
	if (vpmm_host_stream_pending(stream, &pending) || pending != 2)
		return 1;
	if (vpmm_host_stream_complete(stream, 2) || vpmm_host_stream_destroy(stream))
		return 2;
	/* ThreadSanitizer has no threads in children of processes with threads. */
	if (SANITIZED_THREADS)
		return 0;
	assert_ok(vpmm_host_stream_create(&made));
	complete_in_turn(made);
	return vpmm_host_stream_destroy(made) ? 3 : 0;
}

/* One thread is in the function of a piece of work, another waits for it. The child has the work but no thread. */
static void fork_while_working(void)
{
	struct gate gate = { .process = getpid() };
	struct CUstream_st *stream;
	GThread *threads[2];
	char byte = 0;
	pid_t child;

	g_assert_cmpint(pipe(gate.reached), ==, 0);
	g_assert_cmpint(pipe(gate.go), ==, 0);
	assert_ok(vpmm_host_stream_create(&stream));
	assert_ok(vpmm_host_stream_launch(stream, pass_gate, &gate));
	assert_ok(vpmm_host_stream_submit(stream));
	for (int i = 0; i < 2; i++)
		threads[i] = g_thread_new("work", complete_one, stream);
	g_assert_cmpint(read(gate.reached[0], &byte, 1), ==, 1);
	await_completers(stream, 2);

	child = fork();
	if (!child)
		_exit(work_in_child(stream));
	g_assert_cmpint(wait_for(child), ==, 0);

	g_assert_cmpint(write(gate.go[1], &byte, 1), ==, 1);
	for (int i = 0; i < 2; i++)
		g_thread_join(threads[i]);
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void *launch_and_end(void *gate)
{
	assert_ok(vpmm_host_stream_launch(OWN, pass_gate, gate));
	return NULL;
}

/* The thread is at its end, so its stream has no handle: a call of the child that lets work go on begins it again. */
static void fork_while_ending(void)
{
	struct gate gate = { .process = getpid() };
	GThread *thread;
	char byte = 0;
	pid_t child;

	g_assert_cmpint(pipe(gate.reached), ==, 0);
	g_assert_cmpint(pipe(gate.go), ==, 0);
	thread = g_thread_new("end", launch_and_end, &gate);
	g_assert_cmpint(read(gate.reached[0], &byte, 1), ==, 1);

	child = fork();
	if (!child) {
		alarm(HANGS_SECONDS);
		_exit(create_stream() || vpmm_host_time_finish());
	}
	g_assert_cmpint(wait_for(child), ==, 0);

	g_assert_cmpint(write(gate.go[1], &byte, 1), ==, 1);
	g_thread_join(thread);
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
	g_assert_cmpint(pthread_mutex_trylock(&f.pool->core.lock.mutex), ==, EBUSY);

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

/* Threads that do not exist in the child had every lock that a test can take. */
static void test_fork_while_all_locked(void)
{
	struct fixture f;
	struct tags *tags;
	pid_t child;
	void *live;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_tag_open("fork", VPMM_TAG_PAUSABLE, &tag));
	vpmm_tag_set(tag);
	live = fixture_malloc(&f, 1, NULL);
	vpmm_tag_set(0);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ==, 0);
	if (vpmm_shared_alloc(f.pool, &range, PAGE, 0))
		range = live;
	tags = pool_tags(f.pool);
	lock_acquire(&api_defaults.lock);
	lock_acquire(&f.pool->making);
	lock_acquire(&f.pool->core.lock);
	brief_acquire(&f.pool->core.account.lock);
	lock_acquire(&tags->lock);
	lock_acquire(&shared_lock);
	child = fork_child(f.pool, live);
	lock_release(&shared_lock);
	lock_release(&tags->lock);
	brief_release(&f.pool->core.account.lock);
	lock_release(&f.pool->core.lock);
	lock_release(&f.pool->making);
	lock_release(&api_defaults.lock);
	g_assert_cmpint(wait_for(child), ==, 0);
	if (range != live)
		assert_ok(vpmm_shared_free(f.pool, range, NULL));
	range = NULL;
	fixture_free(&f, live, NULL);
	fixture_close(&f);
	close(ends[0]);
	close(ends[1]);
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

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/fork/calls", test_fork);
	g_test_add_func("/fork/grandchild", test_fork_grandchild);
	g_test_add_func("/fork/while-locked", test_fork_while_locked);
	add_alone("/fork/while-all-locked", test_fork_while_all_locked);
	add_alone("/fork/before-use", fork_before_use);
	add_alone("/fork/after-failure", fork_after_failure);
	add_alone("/fork/while-called", fork_while_called);
	add_alone("/fork/while-working", fork_while_working);
	add_alone("/fork/while-ending", fork_while_ending);
	add_alone("/fork/while-made", fork_while_made);
	add_alone("/fork/while-not-made", fork_while_not_made);
	return g_test_run();
}
