// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_TRACE: what is in the file however a process ends, and that each process has its own. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/record-fixture.h"
#include "support/fixture.h"
#include "support/life-fixture.h"
#include "support/rlimit.h"
#include "trace/recorder.h"

/* A child that hangs is a failure; nothing else depends on how long this is. */
#define HANGS_SECONDS 120

static int wait_for(pid_t child)
{
	int status;

	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	return status;
}

/* Runs before the first pool is created, so that exit() calls @late after what the library may have registered. */
static struct vpmm_pool *late_pool;

static void call_late(void)
{
	void *ptr;

	assert_ok(vpmm_malloc(late_pool, &ptr, PAGE, NULL));
}

/* A process that never destroys its pool, and allocates once more while it exits. */
static void test_exit(void)
{
	char *name = new_name(".gz");
	struct trace *trace;
	pid_t child = fork();
	void *ptr;

	if (!child) {
		atexit(call_late);
		assert_ok(vpmm_pool_create(&late_pool, &(struct vpmm_opts){ RECORDED(name) }));
		assert_ok(vpmm_malloc(late_pool, &ptr, PAGE, NULL));
		exit(0);
	}
	g_assert_cmpint(wait_for(child), ==, 0);
	trace = load(name);

	g_assert_cmpuint(trace->allocs, ==, 2);
	trace_free(trace);
	remove_name(name);
}

struct crash {
	const char *suffix;
	bool calling;	/* until the end, or a hundred calls and none after them */
	int signal;
};

static const struct crash crashes[] = {
	{ "", false, SIGKILL },
	{ ".gz", false, SIGKILL },
	{ "", false, SIGABRT },
	{ ".gz", false, SIGABRT },
	{ "", true, SIGKILL },
	{ ".gz", true, SIGKILL },
};

static void call_until_killed(const char *name, bool calling)
{
	void *ptr;

	rlimit_set(RLIMIT_CORE, 0);
	assert_ok(vpmm_pool_create(&late_pool, &(struct vpmm_opts){ RECORDED(name) }));
	for (int i = 0; i < 100; i++)
		assert_ok(vpmm_malloc(late_pool, &ptr, 512, NULL));
	while (calling) {
		assert_ok(vpmm_free(late_pool, ptr, NULL));
		assert_ok(vpmm_malloc(late_pool, &ptr, 512, NULL));
		g_usleep(1000);
	}
	for (;;)
		pause();
}

/* How many records can be read, and how far their clock is. */
static size_t count_records(const char *name, uint64_t *us)
{
	struct trace *trace;
	size_t count;

	if (trace_load(name, NULL, NULL, &trace))
		return 0;
	count = trace->n_ops;
	*us = count ? trace->ops[count - 1].us : 0;
	trace_free(trace);
	return count;
}

/* The records of calls are soon in the file, without another call, and each is whole however the process is ended. */
static void test_crash(void)
{
	char *names[G_N_ELEMENTS(crashes)];
	pid_t children[G_N_ELEMENTS(crashes)];

	for (guint i = 0; i < G_N_ELEMENTS(crashes); i++) {
		names[i] = new_name(crashes[i].suffix);
		children[i] = fork();
		if (!children[i])
			call_until_killed(names[i], crashes[i].calling);
	}
	for (guint i = 0; i < G_N_ELEMENTS(crashes); i++) {
		bool calling = crashes[i].calling;
		size_t count = 0, left;
		uint64_t us = 0;

		while (count < 100 || (calling && us < G_USEC_PER_SEC)) {
			g_usleep(10000);
			count = count_records(names[i], &us);
			g_assert_true(calling || count <= 100);
		}
		g_assert_cmpint(kill(children[i], crashes[i].signal), ==, 0);
		g_assert_true(WIFSIGNALED(wait_for(children[i])));
		left = count_records(names[i], &us);
		g_assert_cmpuint(left, >=, count);
		remove_name(names[i]);
	}
}

static void refused_in_child(struct vpmm_pool *pool)
{
	void *ptr;

	if (vpmm_malloc(pool, &ptr, PAGE, NULL) != -EBUSY)
		_exit(1);
}

static pid_t clone_bare(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void hang_at_exit(struct vpmm_pool *pool)
{
	(void)pool;
	recorder_stalled_ms = UINT_MAX;
	alarm(HANGS_SECONDS);
}

/* How a child is made, and what it does before it ends by exit(). */
static const struct way {
	const char *name;
	pid_t (*begin)(void);
	void (*do_first)(struct vpmm_pool *pool);
} ways[] = {
	{ "fork", fork, refused_in_child },
	/* No handler of fork() runs, and no thread writes: the exit must not wait for one. */
	{ "clone", clone_bare, hang_at_exit },
};

/* A child leaves its parent's file alone, however it begins and ends, and cannot have it as another process either. */
static void test_child(gconstpointer data)
{
	const struct way *way = data;
	char *name = new_name("");
	struct trace *trace;
	struct fixture f;
	pid_t child;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, NULL));
	child = way->begin();
	if (!child) {
		way->do_first(f.pool);
		exit(0);
	}
	g_assert_cmpint(wait_for(child), ==, 0);
	assert_ok(vpmm_free(f.pool, ptr, NULL));
	fixture_close(&f);
	trace = load(name);

	g_assert_cmpuint(trace->n_ops, ==, 2);
	trace_free(trace);
	remove_name(name);
}

/* Another process writes the file: it is refused, and stays whole. */
static void test_other_process(void)
{
	char *name = new_name(""), byte = 0;
	int ready[2], done[2];
	struct vpmm_pool *pool;
	pid_t child;
	void *ptr;

	g_assert_cmpint(pipe(ready), ==, 0);
	g_assert_cmpint(pipe(done), ==, 0);
	child = fork();
	if (!child) {
		close(done[1]);
		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }));
		assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
		if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
			_exit(1);
		vpmm_pool_destroy(pool);
		_exit(0);
	}
	g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
	assert_error(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }), EINVAL, "another process writes it");
	g_assert_cmpint(write(done[1], &byte, 1), ==, 1);
	g_assert_cmpint(wait_for(child), ==, 0);
	trace_free(load(name));
	remove_name(name);
}

/* What a process records in the file of its own that %p makes of a name. */
static void record_own(const char *pattern, int calls)
{
	struct vpmm_pool *pool;
	void *ptr;

	assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(pattern) }));
	for (int i = 0; i < calls; i++)
		assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	vpmm_pool_destroy(pool);
}

static void assert_own(const char *directory, pid_t process, size_t calls)
{
	char *name = g_strdup_printf("%s/%ld.trace", directory, (long)process);
	struct trace *trace = load(name);

	g_assert_cmpuint(trace->n_ops, ==, calls);
	g_assert_null(trace->next);
	trace_free(trace);
	remove_name(name);
}

#define OWN_CALLS "VPMM_TEST_OWN_CALLS"

/* The link is read, as valgrind answers that with the name of this program, but would be executed itself. */
static void execute_own(void)
{
	char *program = g_file_read_link("/proc/self/exe", NULL);

	execl(program, "test-record-life", (char *)NULL);
	g_free(program);
}

/* Forked before either has a pool, and one more that executes this program once more: three files. */
static void test_two_files(void)
{
	char *directory = g_dir_make_tmp("vpmm-record-XXXXXX", NULL);
	char *pattern = g_strdup_printf("%s/%%p.trace", directory);
	pid_t forked, executed;

	forked = fork();
	if (!forked) {
		record_own(pattern, 2);
		_exit(0);
	}
	executed = fork();
	if (!executed) {
		g_setenv(OWN_CALLS, pattern, TRUE);
		execute_own();
		_exit(1);
	}
	record_own(pattern, 1);
	g_assert_cmpint(wait_for(forked), ==, 0);
	g_assert_cmpint(wait_for(executed), ==, 0);

	assert_own(directory, getpid(), 1);
	assert_own(directory, forked, 2);
	assert_own(directory, executed, 3);
	g_assert_cmpint(g_rmdir(directory), ==, 0);
	g_free(pattern);
	g_free(directory);
}

/* A parent that records goes on with its own file, while a child executes a program that has one as well. */
static void test_execute_beside(void)
{
	char *directory = g_dir_make_tmp("vpmm-record-XXXXXX", NULL);
	char *pattern = g_strdup_printf("%s/%%p.trace", directory);
	struct fixture f;
	pid_t child;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(pattern) });
	assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, NULL));
	child = fork();
	if (!child) {
		g_setenv(OWN_CALLS, pattern, TRUE);
		execute_own();
		_exit(1);
	}
	g_assert_cmpint(wait_for(child), ==, 0);
	assert_ok(vpmm_free(f.pool, ptr, NULL));
	fixture_close(&f);

	assert_own(directory, getpid(), 2);
	assert_own(directory, child, 3);
	g_assert_cmpint(g_rmdir(directory), ==, 0);
	g_free(pattern);
	g_free(directory);
}

int main(int argc, char **argv)
{
	if (g_getenv(OWN_CALLS)) {
		record_own(g_getenv(OWN_CALLS), 3);
		return 0;
	}
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/record-life/child", ways, test_child);
	add_alone("/record-life/exit", test_exit);
	add_alone("/record-life/crash", test_crash);
	add_alone("/record-life/other-process", test_other_process);
	add_alone("/record-life/two-files", test_two_files);
	add_alone("/record-life/execute-beside", test_execute_beside);
	return g_test_run();
}
