// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_BUDGET: who may join, how much each pool may take, and who gives back. Of processes: test-budget-process. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "host/budget-fixture.h"
#include "support/fault.h"
#include "vpmm-shared.h"

static void test_sum(void)
{
	struct fixture a, b;
	void *ptr, *other;

	fixture_open(&a, BUDGET_OPTS());
	fixture_open(&b, BUDGET_OPTS());
	ptr = fixture_malloc(&a, 25, a.streams[0]);
	assert_error(budget_malloc(&b, &other, 16), ENOMEM, "budget: 32 MiB needed, but of the 80 MiB of test");
	g_assert_nonnull(strstr(vpmm_last_error(), "has 50 MiB, of which 0 MiB were free"));
	g_assert_nonnull(strstr(vpmm_last_error(), "\ntry this: have the other pools of the budget free some of "));
	other = fixture_malloc(&b, 15, b.streams[0]);
	fixture_free(&a, ptr, a.streams[0]);
	/* A has nothing any more that it could free. */
	assert_ok(vpmm_pool_trim(a.pool, 0, NULL));
	assert_error(budget_malloc(&b, &ptr, 26), ENOMEM, "\ntry this: let all processes begin with a larger budget ");
	fixture_free(&b, other, b.streams[0]);
	budget_close_both(&a, &b);
}

/* A has freed it, and does nothing. */
static void test_idle(void)
{
	struct fixture a, b;
	void *ptr;

	fixture_open(&a, BUDGET_OPTS(.budget_wait = 20000));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	ptr = fixture_malloc(&a, 10, a.streams[0]);
	fixture_free(&a, fixture_malloc(&a, 30, a.streams[0]), a.streams[0]);
	g_assert_cmpuint(fixture_stats(&a).mapped, ==, 40 * PAGE);
	g_assert_cmpuint(fixture_stats(&b).budget_left, ==, 0);
	fixture_free(&b, fixture_malloc(&b, 30, b.streams[0]), b.streams[0]);
	/* And back again. */
	fixture_free(&a, fixture_malloc(&a, 30, a.streams[0]), a.streams[0]);
	fixture_free(&a, ptr, a.streams[0]);
	assert_ok(vpmm_pool_check(a.pool));
	assert_ok(vpmm_pool_check(b.pool));
	budget_close_both(&a, &b);
}

/* Others give for pages of shared ranges, too, and as much as is missing; and ranges give what they had. */
static void test_ranges(void)
{
	struct fixture a, b;
	void *at;

	if (!fixture_can_map_twice())
		return;
	fixture_open(&a, BUDGET_OPTS(.budget_wait = 20000));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	fixture_free(&a, fixture_malloc(&a, 40, a.streams[0]), a.streams[0]);
	assert_ok(vpmm_stream_retire(a.pool, a.streams[0]));
	assert_ok(vpmm_shared_alloc(b.pool, &at, 20 * PAGE, 0));
	g_assert_cmpint(vpmm_fault(b.pool, at, 20 * PAGE, VPMM_DEVICE, 0), ==, 20);
	assert_ok(vpmm_pool_check(b.pool));
	assert_ok(vpmm_shared_free(b.pool, at, NULL));
	fixture_malloc(&a, 40, a.streams[0]);
	budget_close_both(&a, &b);
}

/* The idlest gives first, and no more than is missing. */
static void test_idlest(void)
{
	struct fixture f[3];
	void *ptr;

	for (int i = 0; i < 3; i++) {
		fixture_open(&f[i], BUDGET_OPTS(.budget_wait = 20000));
		if (i < 2)
			fixture_free(&f[i], fixture_malloc(&f[i], 20, f[i].streams[0]), f[i].streams[0]);
	}
	g_usleep(1100000);
	/* A call on the slow path: it is not idle. */
	fixture_stats(&f[0]);
	ptr = fixture_malloc(&f[2], 15, f[2].streams[0]);
	g_assert_cmpuint(fixture_stats(&f[0]).mapped, ==, 20 * PAGE);
	fixture_free(&f[2], ptr, f[2].streams[0]);
	for (int i = 0; i < 3; i++)
		i < 2 ? fixture_close_beside(&f[i]) : fixture_close(&f[i]);
}

/* Without a thread, a call of the program answers. */
static void test_no_thread(void)
{
	struct fixture a, b;
	struct budget_asker asker = { .f = &b };
	GThread *thread;

	fixture_open(&a, BUDGET_OPTS(.budget_thread = VPMM_BUDGET_THREAD_OFF));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	fixture_free(&a, fixture_malloc(&a, 40, a.streams[0]), a.streams[0]);
	thread = g_thread_new("b", budget_ask_much, &asker);
	while (fixture_stats(&a).mapped == 40 * PAGE)
		g_usleep(100);
	g_thread_join(thread);
	budget_close_both(&a, &b);
}

static void call_stats(struct fixture *f)
{
	fixture_stats(f);
}

static void call_shared(struct fixture *f)
{
	void *shared;

	assert_ok(vpmm_shared_alloc(f->pool, &shared, PAGE, 0));
	assert_ok(vpmm_shared_free(f->pool, shared, f->streams[0]));
}

static bool use_shared(struct fixture *f, size_t pages)
{
	void *shared;

	if (vpmm_shared_alloc(f->pool, &shared, pages * PAGE, 0))
		return false;
	memset(shared, 1, pages * PAGE);
	g_assert_cmpint(vpmm_migrate(f->pool, shared, pages * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL), >=, 0);
	assert_ok(vpmm_shared_free(f->pool, shared, f->streams[0]));
	return true;
}

/* So it does for memory that a shared range had. */
static void check_no_thread(void (*call)(struct fixture *f))
{
	struct fixture a, b;
	struct budget_asker asker = { .f = &b };
	GThread *thread;

	fixture_open(&a, BUDGET_OPTS(.budget_thread = VPMM_BUDGET_THREAD_OFF));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	if (use_shared(&a, 30)) {
		thread = g_thread_new("b", budget_ask_much, &asker);
		while (!g_atomic_int_get(&asker.has_had))
			call(&a);
		g_thread_join(thread);
	}
	budget_close_both(&a, &b);
}

static void test_no_thread_shared(void)
{
	check_no_thread(call_stats);
	check_no_thread(call_shared);
}

static void test_no_wait(void)
{
	struct fixture a, b;
	void *ptr;

	fixture_open(&a, BUDGET_OPTS(.budget_thread = VPMM_BUDGET_THREAD_OFF));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = VPMM_BUDGET_WAIT_NONE));
	fixture_free(&a, fixture_malloc(&a, 40, a.streams[0]), a.streams[0]);
	assert_error(budget_malloc(&b, &ptr, 1), ENOMEM, "budget: ");
	budget_close_both(&a, &b);
}

/* A gives memory that work is pending on only once that has ended, however often it is asked before. */
static void *end_work_later(void *data)
{
	struct fixture *a = data;

	g_usleep(200000);
	fixture_complete(a->streams[0]);
	return NULL;
}

static void check_later(int thread_of_library)
{
	GThread *work, *thread;
	struct fixture a, b;
	struct budget_asker asker = { .f = &b };

	fixture_open(&a, BUDGET_OPTS(.budget_thread = thread_of_library));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	fixture_free_at_work(&a, fixture_malloc(&a, 30, a.streams[0]), a.streams[0]);
	work = g_thread_new("work", end_work_later, &a);
	thread = g_thread_new("b", budget_ask_much, &asker);
	while (thread_of_library == VPMM_BUDGET_THREAD_OFF && fixture_stats(&a).mapped == 30 * PAGE)
		g_usleep(100);
	g_thread_join(thread);
	g_thread_join(work);
	budget_close_both(&a, &b);
}

static void test_later(void)
{
	check_later(VPMM_BUDGET_THREAD_ON);
	check_later(VPMM_BUDGET_THREAD_OFF);
}

/* What a pool is sure of is its own, whether it has it or not; and it need not give that back. */
static void test_floor(void)
{
	struct fixture a, b;
	gint64 began = g_get_monotonic_time();
	struct vpmm_pool *pool;
	void *ptr, *other;

	fixture_open(&a, BUDGET_OPTS(.budget_floor = 10 * PAGE));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 60000));
	/* Nobody has anything to give, so there is nothing to wait for. */
	assert_error(budget_malloc(&b, &other, 31), ENOMEM, "budget: ");
	other = fixture_malloc(&b, 30, b.streams[0]);
	fixture_free(&a, fixture_malloc(&a, 10, a.streams[0]), a.streams[0]);
	assert_error(budget_malloc(&b, &ptr, 1), ENOMEM, "budget: ");
	g_assert_cmpint(g_get_monotonic_time() - began, <, 60 * G_USEC_PER_SEC);
	g_assert_cmpuint(fixture_stats(&a).mapped, ==, 10 * PAGE);
	assert_error(vpmm_pool_create(&pool, &BUDGET_OPTS(.budget_floor = 31 * PAGE)), EINVAL,
		     "VPMM_BUDGET_FLOOR is 65011712, but");
	fixture_free(&b, other, b.streams[0]);
	budget_close_both(&a, &b);
}

static void test_sizes(void)
{
	struct vpmm_info info = { .size = sizeof(info) };
	struct fixture a, b;
	struct vpmm_pool *pool;

	fixture_open(&a, BUDGET_OPTS());
	assert_error(vpmm_pool_create(&pool, &BUDGET_NAMED("test:90M")), EINVAL,
		     "VPMM_BUDGET: test: size is 94371840, but other pools have it with 83886080 bytes");
	fixture_open(&b, BUDGET_NAMED("test"));
	assert_ok(vpmm_pool_info(b.pool, &info));
	g_assert_cmpstr(info.budget, ==, "test:83886080");
	g_assert_cmpuint(fixture_stats(&b).budget_size, ==, 40 * PAGE);
	budget_close_both(&a, &b);
	/* An old size does not stick. */
	fixture_open(&a, BUDGET_NAMED("test:90M"));
	g_assert_cmpuint(fixture_stats(&a).budget_size, ==, 45 * PAGE);
	fixture_close(&a);
	/* By itself, all of the device. */
	fixture_open(&a, BUDGET_NAMED("test"));
	assert_ok(vpmm_pool_info(a.pool, &info));
	g_assert_cmpuint(fixture_stats(&a).budget_size, ==, info.memory_total);
	fixture_close(&a);
}

static void test_names(void)
{
	static const struct { const char *text, *why; } bad[] = {
		{ "", "expected NAME" }, { ":1G", "expected NAME" }, { "a b:1G", "expected NAME" },
		{ ".hidden", "expected NAME" }, { "..", "expected NAME" }, { "../a", "absolute" }, { "a/b", "absolute" },
		{ "/a/", "absolute" }, { "a:", "bytes" }, { "a:0", "bytes" }, { "a:1X", "bytes" }, { "a:-1", "bytes" },
		{ "a:99999999999999999999", "64 bits" }, { "a\nb", "expected NAME" }, { "a%s%n", "expected NAME" },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "more than 64" },
	};
	struct vpmm_opts opts = { .size = sizeof(opts) };
	struct vpmm_pool *pool;

	for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
		assert_error(vpmm_pool_create(&pool, &BUDGET_NAMED(bad[i].text)), EINVAL, bad[i].why);
		g_assert_nonnull(strstr(vpmm_last_error(), "vpmm_opts.budget is"));
		g_setenv("VPMM_BUDGET", bad[i].text, TRUE);
		/* An empty variable is none. */
		if (*bad[i].text)
			assert_error(vpmm_opts_from_env(&opts), EINVAL, bad[i].why);
		g_unsetenv("VPMM_BUDGET");
	}
	assert_error(vpmm_pool_create(&pool, &BUDGET_OPTS(.budget_weight = -1)), EINVAL, "budget_weight is -1: expected a number");
	assert_error(vpmm_pool_create(&pool, &BUDGET_OPTS(.budget_wait = -2)), EINVAL, "budget_wait is -2: expected a number");
	assert_error(vpmm_pool_create(&pool, &BUDGET_OPTS(.budget_thread = 2)), EINVAL, "budget_thread is 2");
}

/* A file or a folder that is not as it should be is refused by name, and not touched. */

static void spoil_mode(const char *path, const char *folder)
{
	(void)folder;
	g_chmod(path, 0644);
}

static void spoil_folder(const char *path, const char *folder)
{
	(void)path;
	g_chmod(folder, 0777);
}

static void spoil_link(const char *path, const char *folder)
{
	char *other = g_build_filename(folder, "other", NULL);

	g_rename(path, other);
	g_assert_cmpint(symlink(other, path), ==, 0);
	g_free(other);
}

static void spoil_names(const char *path, const char *folder)
{
	char *other = g_build_filename(folder, "other", NULL);

	g_assert_cmpint(link(path, other), ==, 0);
	g_free(other);
}

static void spoil_size(const char *path, const char *folder)
{
	(void)folder;
	g_assert_cmpint(truncate(path, 100), ==, 0);
}

static void spoil_magic(const char *path, const char *folder)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	(void)folder;
	g_assert_cmpint(pwrite(fd, "other", 5, 0), ==, 5);
	close(fd);
}

static void spoil_kind(const char *path, const char *folder)
{
	(void)folder;
	g_remove(path);
	g_assert_cmpint(mkfifo(path, 0600), ==, 0);
}

static void spoil_owner(const char *path, const char *folder)
{
	(void)folder;
	g_assert_cmpint(chown(path, 12345, 12345), ==, 0);
}

static void spoil_folder_owner(const char *path, const char *folder)
{
	(void)path;
	g_assert_cmpint(chown(folder, 12345, 12345), ==, 0);
}

static void test_files(void)
{
	static const struct {
		void (*spoil)(const char *path, const char *folder);
		const char *why;
		bool root;
	} spoilt[] = {
		{ spoil_mode, "others can open it, as its mode is 0644: expected 0600" },
		{ spoil_folder, "others can write there, as its mode is 0777" },
		{ spoil_link, "is a symbolic link" },
		{ spoil_names, "has 2 names" },
		{ spoil_size, "has 100 bytes" },
		{ spoil_magic, "does not begin as a file of a budget does" },
		{ spoil_kind, "is no regular file" },
		{ spoil_owner, "belongs to user 12345", true },
		{ spoil_folder_owner, "belongs to user 12345", true },
	};
	const char *runtime = g_getenv("XDG_RUNTIME_DIR");
	char *keep = g_strdup(runtime);
	struct vpmm_pool *pool;
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(spoilt); i++) {
		char *path, *folder;

		if (spoilt[i].root && geteuid())
			continue;
		budget_folder();
		fixture_open(&f, BUDGET_OPTS());
		fixture_close(&f);
		path = budget_path("test", budget_uuid);
		folder = g_path_get_dirname(path);
		spoilt[i].spoil(path, folder);
		assert_error(vpmm_pool_create(&pool, &BUDGET_OPTS()), EINVAL, spoilt[i].why);
		g_assert_nonnull(strstr(vpmm_last_error(), "VPMM_BUDGET: /"));
		fixture_assert_nothing_left();
		budget_remove_folder();
		g_free(path);
		g_free(folder);
	}
	g_setenv("XDG_RUNTIME_DIR", keep, TRUE);
	g_free(keep);
}

/* A process is killed while it makes the file; the next one completes the file. */
static void test_unfinished(void)
{
	const off_t sizes[] = { 0, sizeof(struct budget_file) };
	char *keep = g_strdup(g_getenv("XDG_RUNTIME_DIR"));
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		char *path;

		budget_folder();
		fixture_open(&f, BUDGET_OPTS());
		fixture_close(&f);
		path = budget_path("test", budget_uuid);
		g_assert_true(!truncate(path, 0) && !truncate(path, sizes[i]));
		fixture_open(&f, BUDGET_OPTS());
		g_assert_cmpuint(fixture_stats(&f).budget_size, ==, BUDGET_PAGES * PAGE);
		fixture_free(&f, fixture_malloc(&f, BUDGET_PAGES, f.streams[0]), f.streams[0]);
		fixture_close(&f);
		budget_remove_folder();
		g_free(path);
	}
	g_setenv("XDG_RUNTIME_DIR", keep, TRUE);
	g_free(keep);
}

/* A folder that can be written by nobody; and a path. */
static void test_path(void)
{
	char *folder = g_dir_make_tmp("vpmm-path-XXXXXX", NULL), *name = g_strdup_printf("%s/mine:80M", folder), *file;
	struct vpmm_pool *pool;
	struct fixture f;

	fixture_open(&f, BUDGET_NAMED(name));
	fixture_free(&f, fixture_malloc(&f, 40, f.streams[0]), f.streams[0]);
	fixture_close(&f);
	file = g_strdup_printf("%s/mine.686f7374206465766963652030000000", folder);
	g_assert_cmpint(g_remove(file), ==, 0);
	g_assert_cmpint(g_rmdir(folder), ==, 0);
	/* A mistyped folder would be another budget. */
	assert_error(vpmm_pool_create(&pool, &BUDGET_NAMED(name)), ENOENT, "cannot be opened: No such file");
	g_assert_false(g_file_test(folder, G_FILE_TEST_EXISTS));
	g_free(folder);
	g_free(name);
	g_free(file);
}

/* Whatever takes memory counts; what was given back does not. */
static void test_kinds(void)
{
	struct vpmm_stats stats;
	struct budget_file *file;
	void *shareable, *small, *grown, *shared;
	struct fixture f;

	fixture_open(&f, BUDGET_OPTS(.export_as = VPMM_EXPORT_FD, .small = VPMM_SMALL_DRIVER, .pages = 3));
	file = budget_map("test");
	g_assert_cmpuint(budget_sum(file), ==, 3 * PAGE);
	assert_ok(vpmm_malloc_flags(f.pool, &shareable, 2 * PAGE, f.streams[0], VPMM_SHAREABLE));
	assert_ok(vpmm_malloc(f.pool, &small, 1000, f.streams[0]));
	assert_ok(vpmm_malloc_growable(f.pool, &grown, PAGE, 4 * PAGE, f.streams[0]));
	assert_ok(vpmm_realloc(f.pool, &grown, 4 * PAGE, f.streams[0]));
	shared = NULL;
	if (!vpmm_shared_alloc(f.pool, &shared, 2 * PAGE, 0))
		assert_ok(vpmm_migrate(f.pool, shared, 2 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL));
	stats = fixture_stats(&f);
	g_assert_cmpuint(budget_sum(file), ==, stats.mapped + stats.shareable + stats.small_live + stats.shared);
	g_assert_cmpuint(budget_sum(file), >=, 7 * PAGE + 1000);
	assert_ok(vpmm_free(f.pool, shareable, f.streams[0]));
	assert_ok(vpmm_free(f.pool, small, f.streams[0]));
	assert_ok(vpmm_free(f.pool, grown, f.streams[0]));
	if (shared)
		assert_ok(vpmm_shared_free(f.pool, shared, f.streams[0]));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	/* The trim itself has told, and not the next call. */
	g_assert_cmpuint(budget_sum(file), ==, 0);
	stats = fixture_stats(&f);
	g_assert_cmpuint(budget_sum(file), ==, stats.mapped + stats.shareable + stats.small_live + stats.shared);
	fixture_close(&f);
	g_assert_cmpuint(budget_sum(file), ==, 0);
	budget_unmap(file);
}

/* A block whose clear has failed is freed: what it took is the others' again. */
static void test_failed_clear(void)
{
	struct fixture f;
	void *ptr = NULL;

	for (unsigned int passes = 0; passes < 4; passes++) {
		fixture_open_faulty(&f, BUDGET_OPTS(.export_as = VPMM_EXPORT_FD));
		backend_fault_arm(f.pool->core.backend, BACKEND_OP_stream_capture, passes, 1, -EIO);
		if (!vpmm_malloc_flags(f.pool, &ptr, 2 * PAGE, f.streams[0], VPMM_SHAREABLE | VPMM_ZERO))
			fixture_free(&f, ptr, f.streams[0]);
		assert_ok(vpmm_pool_check(f.pool));
		backend_fault_arm(f.pool->core.backend, BACKEND_OP_stream_capture, 0, 0, 0);
		fixture_close(&f);
	}
}

/* What others write is refused or believed, and does no other harm. */
static void test_hostile(void)
{
	struct budget_file *file;
	struct fixture f;
	void *ptr;

	fixture_open(&f, BUDGET_OPTS(.budget_wait = 1));
	file = budget_map("test");
	for (int round = 0; round < 200; round++) {
		unsigned char *bytes = (unsigned char *)file->slots;
		size_t length = sizeof(file->slots);

		for (size_t i = sizeof(*file->slots); i < length; i++)
			bytes[i] = g_test_rand_bit() ? (unsigned char)g_test_rand_int() : 0xff;
		atomic_store(&file->used, (uint32_t)g_test_rand_int());
		atomic_store(&file->died, g_test_rand_bit() ? UINT64_MAX : 0);
		/* Nobody has the locks of those slots, so they are found dead. */
		if (!budget_malloc(&f, &ptr, (size_t)g_test_rand_int_range(1, 40)))
			assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
		fixture_stats(&f);
		assert_ok(vpmm_pool_check(f.pool));
	}
	atomic_store(&file->size, UINT64_MAX);
	fixture_free(&f, fixture_malloc(&f, 60, f.streams[0]), f.streams[0]);
	atomic_store(&file->size, 0);
	assert_error(budget_malloc(&f, &ptr, 70), ENOMEM, "");
	budget_unmap(file);
	fixture_close(&f);
}

/* Threads of a process take, give and ask at once: for ThreadSanitizer, too. */
static void *churn(void *data)
{
	struct fixture *f = data;

	for (int i = 0; i < 100; i++) {
		void *ptr;

		if (!budget_malloc(f, &ptr, 1 + (size_t)i * 7 % 24))
			assert_ok(vpmm_free(f->pool, ptr, f->streams[0]));
	}
	return NULL;
}

/* What was read twice was so at one time, as a pool that gives back notes the time. */
static void assert_within(const struct budget_file *file)
{
	uint64_t taken[4], last[4], sum = 0;

	for (int i = 0; i < 4; i++) {
		last[i] = atomic_load(&file->slots[i].last);
		taken[i] = atomic_load(&file->slots[i].taken);
		sum += taken[i];
	}
	for (int i = 0; i < 4; i++) {
		if (atomic_load(&file->slots[i].taken) != taken[i] || atomic_load(&file->slots[i].last) != last[i])
			return;
	}
	g_assert_cmpuint(sum, <=, 40 * PAGE);
}

static void test_threads(void)
{
	GThread *threads[3];
	struct budget_file *file;
	struct fixture f[3];

	for (int i = 0; i < 3; i++)
		fixture_open(&f[i], BUDGET_OPTS(.budget_wait = 1000, .budget_weight = i + 1));
	file = budget_map("test");
	for (int i = 0; i < 3; i++)
		threads[i] = g_thread_new("churn", churn, &f[i]);
	for (int i = 0; i < 1000; i++) {
		assert_within(file);
		g_usleep(20);
	}
	for (int i = 0; i < 3; i++)
		g_thread_join(threads[i]);
	for (int i = 0; i < 3; i++) {
		assert_ok(vpmm_pool_check(f[i].pool));
		i < 2 ? fixture_close_beside(&f[i]) : fixture_close(&f[i]);
	}
	g_assert_cmpuint(budget_sum(file), ==, 0);
	budget_unmap(file);
}

/*
 * A thread has one token for each block that it allocates, and there are as many as the budget has room for. So what a
 * pool lacks is always free elsewhere, and the others ask for it at the same time.
 */
#define TOKENS 4
#define TAKERS 4

struct tokens {
	sem_t free;
	struct fixture f[TAKERS];
};

struct taker {
	struct tokens *tokens;
	struct fixture *f;
};

static void *take_turns(void *data)
{
	struct taker *taker = data;
	uint32_t seed = (uint32_t)(taker->f - taker->tokens->f);
	void *blocks[TOKENS] = { NULL };
	unsigned int count = 0;
	bool token;

	for (int i = 0; i < 1000; i++) {
		seed = seed * 1664525 + 1013904223;
		if (count)
			token = seed >> 31 && !sem_trywait(&taker->tokens->free);
		else
			token = !sem_wait(&taker->tokens->free);
		if (token) {
			assert_ok(budget_malloc(taker->f, &blocks[count++], BUDGET_PAGES / TOKENS));
		} else {
			assert_ok(vpmm_free(taker->f->pool, blocks[--count], taker->f->streams[0]));
			sem_post(&taker->tokens->free);
		}
		if (!(seed >> 8 & 3))
			g_usleep(seed >> 10 & 255);
	}
	for (; count; count--) {
		assert_ok(vpmm_free(taker->f->pool, blocks[count - 1], taker->f->streams[0]));
		sem_post(&taker->tokens->free);
	}
	return NULL;
}

static void test_tokens(void)
{
	struct taker takers[TAKERS];
	pthread_t threads[TAKERS];
	struct tokens tokens;

	g_assert_cmpint(sem_init(&tokens.free, 0, TOKENS), ==, 0);
	for (int i = 0; i < TAKERS; i++) {
		fixture_open(&tokens.f[i], BUDGET_OPTS(.budget_wait = 60000));
		takers[i] = (struct taker){ &tokens, &tokens.f[i] };
	}
	for (int i = 0; i < TAKERS; i++)
		g_assert_cmpint(pthread_create(&threads[i], NULL, take_turns, &takers[i]), ==, 0);
	for (int i = 0; i < TAKERS; i++)
		g_assert_cmpint(pthread_join(threads[i], NULL), ==, 0);
	for (int i = 0; i < TAKERS; i++)
		i < TAKERS - 1 ? fixture_close_beside(&tokens.f[i]) : fixture_close(&tokens.f[i]);
	sem_destroy(&tokens.free);
}

/* Each device has its own. */
static void test_devices(void)
{
	const int second = 1;
	struct fixture a, b;
	void *ptr, *other;

	fixture_open(&a, BUDGET_OPTS());
	fixture_open(&b, BUDGET_OPTS(.device = &second));
	ptr = fixture_malloc(&a, 40, a.streams[0]);
	assert_ok(vpmm_malloc(b.pool, &other, 40 * PAGE, NULL));
	assert_ok(vpmm_free(b.pool, other, NULL));
	fixture_free(&a, ptr, a.streams[0]);
	budget_close_both(&a, &b);
}

int main(int argc, char **argv)
{
	int result;

	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	g_test_init(&argc, &argv, NULL);
	budget_folder();
	g_test_add_func("/budget/names", test_names);
	g_test_add_func("/budget/files", test_files);
	g_test_add_func("/budget/unfinished", test_unfinished);
	g_test_add_func("/budget/path", test_path);
	g_test_add_func("/budget/sum", test_sum);
	g_test_add_func("/budget/idle", test_idle);
	g_test_add_func("/budget/ranges", test_ranges);
	g_test_add_func("/budget/idlest", test_idlest);
	g_test_add_func("/budget/no-thread", test_no_thread);
	g_test_add_func("/budget/no-thread-shared", test_no_thread_shared);
	g_test_add_func("/budget/no-wait", test_no_wait);
	g_test_add_func("/budget/later", test_later);
	g_test_add_func("/budget/floor", test_floor);
	g_test_add_func("/budget/sizes", test_sizes);
	g_test_add_func("/budget/kinds", test_kinds);
	g_test_add_func("/budget/failed-clear", test_failed_clear);
	g_test_add_func("/budget/hostile", test_hostile);
	g_test_add_func("/budget/threads", test_threads);
	g_test_add_func("/budget/tokens", test_tokens);
	g_test_add_func("/budget/devices", test_devices);
	result = g_test_run();
	budget_remove_folder();
	return result;
}
