// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_PLAN: what a pool has learned is there for the next process, and what a setting does not allow is not taken. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "host/plan-fixture.h"
#include "support/fault.h"

/* Whether pools get the addresses that they ask for; ThreadSanitizer has them elsewhere. */
static bool is_placed;

/* What another process tells: the addresses of its last pass, and what its first pass took. */
struct told {
	uint64_t sum;
	uint64_t remapped;
	uint64_t creates;
	uint64_t mapped;
	bool placed;
};

static void act_pool(int passes, struct told *told)
{
	struct vpmm_stats before, after;
	struct fixture f;

	fixture_open(&f, plan_opts(file));
	told->placed = strstr(f.log->str, "mappings") != NULL;
	before = fixture_stats(&f);
	told->mapped = before.mapped;
	told->sum = run_pass(f.pool, f.streams[0], 1);
	after = fixture_stats(&f);
	told->remapped = after.remapped - before.remapped;
	told->creates = after.creates - before.creates;
	while (--passes)
		told->sum = run_pass(f.pool, f.streams[0], 1);
	fixture_close(&f);
}

/* The default pool is never destroyed. */
static void act_default(int passes, struct told *told)
{
	struct CUstream_st *stream;

	g_setenv("VPMM_PLAN", file, TRUE);
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	assert_ok(vpmm_host_stream_create(&stream));
	while (passes--)
		told->sum = run_pass(NULL, stream, 1);
	assert_ok(vpmm_host_stream_destroy(stream));
}

typedef void act_fn(int passes, struct told *told);

static int start(act_fn *act, int passes, pid_t *pid)
{
	int ends[2];

	g_assert_cmpint(pipe2(ends, O_CLOEXEC), ==, 0);
	*pid = fork();
	if (!*pid) {
		struct told told = { 0 };

		act(passes, &told);
		if (write(ends[1], &told, sizeof(told)) != sizeof(told))
			_exit(1);
		exit(0);
	}
	close(ends[1]);
	return ends[0];
}

static struct told finish(int fd, pid_t pid)
{
	struct told told = { 0 };
	int status;

	g_assert_cmpint(read(fd, &told, sizeof(told)), ==, sizeof(told));
	close(fd);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	return told;
}

/* This process has to be one that has not used the library, as its children could not use it. */
static struct told in_process(act_fn *act, int passes)
{
	pid_t pid;
	int fd = start(act, passes, &pid);

	return finish(fd, pid);
}

/* The first pass of a process that has a plan is as the last of that which wrote it; and so is that of the next. */
static void test_processes(void)
{
	struct told first, second, third;

	g_remove(file);
	first = in_process(act_pool, 3);
	g_assert_cmpuint(first.mapped, ==, 0);
	g_assert_cmpuint(first.remapped, >, 0);
	second = in_process(act_pool, 1);
	third = in_process(act_pool, 1);
	g_assert_cmpuint(second.mapped, >, 0);
	is_placed = second.placed && third.placed;
	if (!is_placed) {
		g_test_skip("the addresses are not free here");
		return;
	}
	g_assert_cmpuint(second.sum, ==, first.sum);
	g_assert_cmpuint(third.sum, ==, first.sum);
	g_assert_cmpuint(second.remapped, ==, 0);
	/* Slabs, which a plan does not have. */
	g_assert_cmpuint(second.creates, <=, 1);
	g_assert_cmpuint(third.mapped, ==, second.mapped);
}

/* Processes that begin and end at the same time leave a whole file, and nothing beside it. */
static void test_at_once(void)
{
	struct told told;
	pid_t pids[4];
	int fds[4];
	GDir *dir;

	g_remove(file);
	in_process(act_pool, 2);
	for (int i = 0; i < 4; i++)
		fds[i] = start(act_pool, 1 + i % 2, &pids[i]);
	for (int i = 0; i < 4; i++)
		finish(fds[i], pids[i]);
	told = in_process(act_pool, 1);
	g_assert_cmpuint(told.mapped, >, 0);
	dir = g_dir_open(folder, 0, NULL);
	g_assert_cmpstr(g_dir_read_name(dir), ==, "plan");
	g_assert_null(g_dir_read_name(dir));
	g_dir_close(dir);
}

static void test_exit(void)
{
	struct told first, second;

	g_remove(file);
	first = in_process(act_default, 3);
	g_assert_true(g_file_test(file, G_FILE_TEST_IS_REGULAR));
	second = in_process(act_default, 1);
	if (is_placed)
		g_assert_cmpuint(second.sum, ==, first.sum);
}

/* What a setting does not allow is not taken, and the program has what it would have without a plan. */
static void test_limits(void)
{
	char *text = written(2);
	static const char *const words[] = { "limit", "VPMM_KEEP", "VPMM_PAGES", "extent", "pages of", "device memory" };

	for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
		struct vpmm_opts opts = plan_opts(file);
		struct fixture f;

		put(text, -1);
		opts.limit = i == 0 ? 8 * PAGE : 0;
		opts.keep = i == 1 ? 8 * PAGE : 0;
		opts.pages = i == 2 ? 200 : 0;
		opts.extent_max = i == 3 ? 2 * PAGE : 0;
		opts.page_size = i == 4 ? 2 * PAGE : 0;
		if (i == 5)
			g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
		fixture_open(&f, opts);
		if (!strstr(f.log->str, words[i]) && i != 3)
			g_error("\"%s\" does not say \"%s\"", f.log->str, words[i]);
		if (i != 3)
			g_assert_cmpuint(fixture_stats(&f).mapped, ==, opts.pages * PAGE);
		fixture_free(&f, fixture_malloc(&f, 6, f.streams[0]), f.streams[0]);
		fixture_close(&f);
		g_unsetenv("VPMM_HOST_CAPACITY");
	}
	g_free(text);
}

/* Where the addresses are not free, the memory is there all the same. */
static void test_taken(void)
{
	char *text = written(2), *after, *second = g_strconcat(file, ".2", NULL);
	struct fixture f, other;
	struct vpmm_stats stats;

	fixture_open(&other, plan_opts(file));
	fixture_open(&f, plan_opts(file));
	/* The second pool of a process has a file of its own. */
	g_assert_nonnull(strstr(f.log->str, "plan.2 yet"));
	fixture_close_beside(&f);
	fixture_close(&other);

	put(text, -1);
	fixture_open(&other, plan_opts(NULL));
	other.pool->core.regions.begin = 0;
	fixture_close(&other);
	fixture_open(&other, plan_opts(file));
	g_assert_true(g_file_get_contents(file, &after, NULL, NULL));
	g_assert_true(g_file_set_contents(second, after, -1, NULL));
	fixture_open(&f, plan_opts(file));
	stats = fixture_stats(&f);
	g_assert_nonnull(strstr(f.log->str, "are not free"));
	g_assert_cmpuint(stats.mapped, ==, fixture_stats(&other).mapped);
	g_assert_cmpuint(stats.free, ==, stats.mapped);
	run_pass(f.pool, f.streams[0], 1);
	fixture_close_beside(&f);
	g_remove(second);
	fixture_close(&other);
	g_free(second);
	g_free(after);
	g_free(text);
}

#define POOLS 3

/* Where the pools of a process begin whose files have these names. */
static void read_begins(const char *const *names, uint64_t *begins)
{
	struct fixture f[POOLS];

	for (size_t i = 0; i < POOLS; i++) {
		fixture_open(&f[i], plan_opts(names[i]));
		begins[i] = ((const struct chunk *)f[i].pool->core.regions.chunks->pdata[0])->addr;
	}
	for (size_t i = POOLS; --i;)
		fixture_close_beside(&f[i]);
	fixture_close(&f[0]);
}

/* Whether the library chose such an address, and could have it: those that the kernel chooses are not as round. */
static bool is_chosen(uint64_t begin)
{
	return !(begin % ((uint64_t)1 << 40));
}

/*
 * Each pool of a process has addresses that are free in every process, whether or not its file has a name of its own.
 */
static void test_names(void)
{
	char *second = g_strconcat(file, "-of-another", NULL), *third = g_strconcat(file, "-of-a-third", NULL);
	uint64_t begins[POOLS], others[POOLS];

	g_remove(file);
	read_begins((const char *const[]){ file, file, file }, begins);
	read_begins((const char *const[]){ file, second, third }, others);
	for (size_t i = 0; i < POOLS; i++) {
		if (is_chosen(begins[i]))
			g_assert_cmpuint(others[i], ==, begins[i]);
		else
			g_test_skip("the addresses are not free here");
	}
	g_free(second);
	g_free(third);
}

/* A pool that has the addresses of its plan leaves those that it would have had without to the next. */
static void test_other_order(void)
{
	char *second = g_strconcat(file, "-of-another", NULL), *third = g_strconcat(file, "-of-a-third", NULL);
	uint64_t begins[POOLS], others[POOLS];
	struct fixture f, other;

	g_remove(file);
	read_begins((const char *const[]){ file, second, third }, begins);
	fixture_open(&f, plan_opts(file));
	fixture_open(&other, plan_opts(second));
	run_pass(other.pool, other.streams[0], 1);
	fixture_close_beside(&other);
	fixture_close(&f);
	read_begins((const char *const[]){ second, file, third }, others);
	if (!is_chosen(begins[0]) || !is_chosen(begins[1]) || !is_chosen(begins[2])) {
		g_test_skip("the addresses are not free here");
	} else {
		g_assert_cmpuint(others[0], ==, begins[1]);
		g_assert_cmpuint(others[1], ==, begins[0]);
		g_assert_cmpuint(others[2], ==, begins[2]);
	}
	g_remove(second);
	g_free(second);
	g_free(third);
}

/* A program that requests something else is served, from the same memory. */
static void test_differs(void)
{
	char *text = written(2);
	struct fixture f;

	fixture_open(&f, plan_opts(file));
	for (uint32_t seed = 2; seed < 6; seed++)
		run_pass(f.pool, f.streams[seed % 2], seed);
	fixture_close(&f);
	g_free(text);
}

/* With pages alone, there are no old mappings and no decisions; pools with one file have the same addresses. */
static void test_paged(void)
{
	struct vpmm_opts opts = { FIXTURE_OPTS, .plan = file };
	uint64_t sums[3], mapped = 0;
	struct fixture driver;
	char *text = NULL;

	g_remove(file);
	for (int i = 0; i < 3; i++) {
		struct fixture f;

		fixture_open(&f, opts);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, mapped);
		assert_ok(vpmm_pool_check(f.pool));
		sums[i] = run_pass_from(f.pool, f.streams[0], 1, PAGE);
		mapped = i ? mapped : fixture_stats(&f).mapped;
		fixture_close(&f);
		if (!i)
			g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
		put(text, -1);
	}
	g_free(text);
	if (is_placed)
		g_assert_cmpuint(sums[2], ==, sums[1]);
	g_remove(file);
	opts.page_size = SIZE_MAX;
	opts.extent_max = 0;
	fixture_open(&driver, opts);
	run_pass(driver.pool, driver.streams[0], 1);
	fixture_close(&driver);
	g_assert_false(g_file_test(file, G_FILE_TEST_EXISTS));
}

/* On request, with blocks that are live; a pool that serves nothing leaves the file as it is. */
static void test_request(void)
{
	struct fixture f;
	char *text, *after;

	g_remove(file);
	fixture_open(&f, plan_opts(NULL));
	assert_error(vpmm_pool_save_plan(f.pool), EINVAL, "VPMM_PLAN");
	fixture_close(&f);
	fixture_open(&f, plan_opts(file));
	fixture_close(&f);
	g_assert_false(g_file_test(file, G_FILE_TEST_EXISTS));
	fixture_open(&f, plan_opts(file));
	fixture_malloc(&f, 3, f.streams[0]);
	fixture_malloc(&f, 5, f.streams[1]);
	assert_ok(vpmm_pool_save_plan(f.pool));
	g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
	fixture_close(&f);
	put(text, -1);
	fixture_open(&f, plan_opts(file));
	g_assert_cmpuint(fixture_stats(&f).free, ==, 8 * PAGE);
	fixture_close(&f);
	g_assert_true(g_file_get_contents(file, &after, NULL, NULL));
	g_assert_cmpstr(after, ==, text);
	g_free(after);
	g_free(text);
}

/* A plan that cannot be written costs a line at the start, and nothing that is there is harmed. */
static void test_unwritable(void)
{
	char *nowhere = g_build_filename(folder, "none", "plan", NULL), *pipe = g_build_filename(folder, "pipe", NULL);
	char *other = g_build_filename(folder, "other", NULL), *text;
	const char *const names[] = { nowhere, pipe, "/dev/null", folder, other };
	struct stat st;

	g_assert_cmpint(mkfifo(pipe, 0600), ==, 0);
	g_assert_true(g_file_set_contents(other, "vpmm and others", -1, NULL));
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		struct fixture f;

		fixture_open(&f, plan_opts(names[i]));
		g_assert_nonnull(strstr(f.log->str, "(VPMM_PLAN) cannot be written"));
		fixture_malloc(&f, 3, f.streams[0]);
		g_assert_cmpint(vpmm_pool_save_plan(f.pool), <, 0);
		g_assert_nonnull(strstr(vpmm_last_error(), names[i]));
		f.pool->core.log.level = VPMM_LOG_NONE;
		fixture_close(&f);
	}
	g_assert_true(!stat("/dev/null", &st) && S_ISCHR(st.st_mode));
	g_assert_true(!stat(pipe, &st) && S_ISFIFO(st.st_mode));
	g_assert_true(g_file_get_contents(other, &text, NULL, NULL));
	g_assert_cmpstr(text, ==, "vpmm and others");
	g_free(text);
	g_remove(other);
	g_free(other);
	g_remove(pipe);
	g_free(pipe);
	g_free(nowhere);
}

/* Who could read a plan can read the next one, and nobody else. */
static void test_permissions(void)
{
	char *text = written(1);
	struct fixture f;
	struct stat st;

	g_assert_cmpint(chmod(file, 0604), ==, 0);
	fixture_open(&f, plan_opts(file));
	fixture_malloc(&f, 3, f.streams[0]);
	assert_ok(vpmm_pool_save_plan(f.pool));
	fixture_close(&f);
	g_assert_cmpint(stat(file, &st), ==, 0);
	g_assert_cmpint(st.st_mode & 0777, ==, 0604);
	g_remove(file);
	g_free(text);
}

/* A link to a file stays one, also if the file is still to come. */
static void test_link(void)
{
	char *text = written(1), *link = g_build_filename(folder, "link", NULL);
	char *second = g_build_filename(folder, "second", NULL);
	struct fixture f;

	g_assert_cmpint(symlink("plan", link), ==, 0);
	g_assert_cmpint(symlink(link, second), ==, 0);
	for (unsigned int i = 0; i < 2; i++) {
		fixture_open(&f, plan_opts(second));
		g_assert_true((fixture_stats(&f).mapped > 0) == (i == 0));
		fixture_malloc(&f, 3, f.streams[0]);
		if (i == 0)
			g_remove(file);
		assert_ok(vpmm_pool_save_plan(f.pool));
		fixture_close(&f);
		g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
		g_assert_true(g_file_test(second, G_FILE_TEST_IS_SYMLINK));
		g_assert_true(g_file_test(file, G_FILE_TEST_IS_REGULAR));
		g_remove(file);
	}
	g_remove(second);
	g_remove(link);
	g_free(second);
	g_free(link);
	g_free(text);
}

/* A file can have the longest name that there is: what is written beside it has a name of its own. */
static void test_longest_name(void)
{
	char name[NAME_MAX + 1], *longest;
	struct fixture f;

	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	longest = g_build_filename(folder, name, NULL);
	fixture_open(&f, plan_opts(longest));
	fixture_malloc(&f, 3, f.streams[0]);
	assert_ok(vpmm_pool_save_plan(f.pool));
	fixture_close(&f);
	g_assert_true(g_file_test(longest, G_FILE_TEST_IS_REGULAR));
	g_remove(longest);
	g_free(longest);
}

/* A pool on the fault backend of which the nth call of an operation fails; whether there was such a call. */
static bool opens_in_spite(enum backend_op op, unsigned int skip)
{
	struct vpmm_opts opts = plan_opts(file);
	struct settings settings;
	struct backend *host, *be;
	struct vpmm_pool *pool;
	uint64_t calls;

	opts.log_level = VPMM_LOG_NONE;
	assert_ok(settings_from_opts(&settings, &opts));
	assert_ok(backend_open("host", NULL, &host));
	assert_ok(backend_fault_wrap(host, &be));
	assert_ok(be->ops->enter(be));
	backend_fault_arm(be, op, skip, 1, -ENOMEM);
	assert_ok(pool_new(&pool, be, &settings));
	calls = backend_fault_calls(be, op);
	backend_fault_arm(be, op, 0, 0, 0);
	lock_acquire(&pool->core.lock);
	g_assert_cmpuint(pool->core.extents.held, ==, pool->core.extents.bytes);
	/* Reserving addresses elsewhere is no failure of the plan. */
	if (calls > skip && op != BACKEND_OP_reserve_at)
		g_assert_cmpuint(pool->core.extents.bytes, ==, 0);
	lock_release(&pool->core.lock);
	assert_ok(vpmm_pool_check(pool));
	pool_delete(pool, POOL_END_WAIT);
	be->ops->leave(be);
	be->ops->close(be);
	fixture_assert_nothing_left();
	return calls > skip;
}

/* With fewer mappings than the plan has, a pool begins with what VPMM_PAGES asks for, or with nothing. */
static void test_few_mappings(void)
{
	char *text = written(2);
	unsigned int unused = 0;

	for (size_t pages = 0; pages <= 8; pages += 8) {
		for (unsigned int most = 40; most < 200; most += 3) {
			struct vpmm_opts opts = plan_opts(file);
			char number[16];
			struct fixture f;
			bool used;

			put(text, -1);
			opts.pages = pages;
			g_snprintf(number, sizeof(number), "%u", most);
			g_setenv("VPMM_HOST_MAPPINGS", number, TRUE);
			fixture_open(&f, opts);
			used = !strstr(f.log->str, "is not used");
			unused += !used;
			if (!used)
				g_assert_cmpuint(fixture_stats(&f).mapped, ==, pages * PAGE);
			fixture_free(&f, fixture_malloc(&f, 6, f.streams[0]), f.streams[0]);
			fixture_close(&f);
		}
	}
	g_unsetenv("VPMM_HOST_MAPPINGS");
	g_assert_cmpuint(unused, >, 0);
	g_free(text);
}

static void test_faults(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_reserve_at, BACKEND_OP_create, BACKEND_OP_map,
					       BACKEND_OP_access };
	char *text = written(1);

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		unsigned int skip = 0;

		while (opens_in_spite(ops[i], skip))
			skip += 1 + skip / 8;
		g_assert_cmpuint(skip, >, 0);
	}
	g_free(text);
}

int main(int argc, char **argv)
{
	int result;

	g_test_init(&argc, &argv, NULL);
	plan_begin();
	/* First what takes processes, which this one has to be able to fork. */
	g_test_add_func("/plan/processes", test_processes);
	g_test_add_func("/plan/at-once", test_at_once);
	g_test_add_func("/plan/exit", test_exit);
	g_test_add_func("/plan/limits", test_limits);
	g_test_add_func("/plan/taken", test_taken);
	g_test_add_func("/plan/names", test_names);
	g_test_add_func("/plan/other-order", test_other_order);
	g_test_add_func("/plan/differs", test_differs);
	g_test_add_func("/plan/paged", test_paged);
	g_test_add_func("/plan/request", test_request);
	g_test_add_func("/plan/unwritable", test_unwritable);
	g_test_add_func("/plan/permissions", test_permissions);
	g_test_add_func("/plan/link", test_link);
	g_test_add_func("/plan/longest-name", test_longest_name);
	g_test_add_func("/plan/few-mappings", test_few_mappings);
	g_test_add_func("/plan/faults", test_faults);
	result = g_test_run();
	plan_end();
	return result;
}
