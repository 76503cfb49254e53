// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the process has or may have: standard descriptors, descriptors at all, sizes of files, address space. */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "calls/pool.h"
#include "support/fixture.h"
#include "support/folder.h"
#include "support/rlimit.h"
#include "util/assume.h"
#include "vpmm-shared.h"

#define MOST_DESCRIPTORS 1024

/* Which descriptors are open. */
struct descriptors {
	bool open[MOST_DESCRIPTORS];
};

static void descriptors_read(struct descriptors *found)
{
	*found = (struct descriptors){ 0 };
	for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
		found->open[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* Closes the standard descriptors from @first on, and puts them aside. */
static void standard_close(int saved[3], int first)
{
	for (int fd = first; fd <= STDERR_FILENO; fd++) {
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		g_assert_cmpint(saved[fd], >, STDERR_FILENO);
		close(fd);
	}
}

static void standard_restore(const int saved[3], int first)
{
	for (int fd = first; fd <= STDERR_FILENO; fd++) {
		g_assert_cmpint(dup2(saved[fd], fd), ==, fd);
		close(saved[fd]);
	}
}

static void check_standard_descriptors(int first, const char *touch)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .pages = 2, .top = VPMM_TOP_ON };
	struct vpmm_pool *pool = NULL;
	void *ptr = NULL, *range = NULL;
	struct descriptors after;
	int saved[3], err;

	g_setenv("VPMM_SHARED_TOUCH", touch, TRUE);
	standard_close(saved, first);
	err = vpmm_pool_create(&pool, &opts);
	if (!err)
		err = vpmm_malloc(pool, &ptr, PAGE, NULL);
	if (!err)
		err = vpmm_shared_alloc(pool, &range, PAGE, 0);
	/* The kernel may not allow this way. */
	if (err == -ENOTSUP)
		err = 0;
	descriptors_read(&after);
	standard_restore(saved, first);
	g_unsetenv("VPMM_SHARED_TOUCH");

	assert_ok(err);
	for (int fd = first; fd <= STDERR_FILENO; fd++)
		g_assert_false(after.open[fd]);
	assert_ok(vpmm_shared_free(pool, range, NULL));
	assert_ok(vpmm_free(pool, ptr, NULL));
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/*
 * In a program started without some of them, neither a pool of either kind of memory nor a shared range takes a
 * standard descriptor. The first pool makes what vpmm-top reads.
 */
static void test_standard_descriptors(void)
{
	for (int first = STDIN_FILENO; first <= STDERR_FILENO; first++) {
		check_standard_descriptors(first, "signal");
		check_standard_descriptors(first, "user");
	}
}

/* What is logged to a closed standard error is nowhere to be found, least of all in memory. */
static void test_log_is_not_memory(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .log_level = VPMM_LOG_DEBUG };
	struct vpmm_pool *pool = NULL, *other = NULL;
	unsigned char *block = NULL;
	int saved[3], err;

	standard_close(saved, STDERR_FILENO);
	err = vpmm_pool_create(&pool, &opts);
	if (!err)
		err = vpmm_malloc(pool, (void **)&block, PAGE, NULL);
	if (!err)
		memset(block, 0xa5, PAGE);
	if (!err)
		err = vpmm_pool_create(&other, &opts);
	standard_restore(saved, STDERR_FILENO);

	assert_ok(err);
	for (size_t i = 0; i < PAGE; i++)
		g_assert_cmpint(block[i], ==, 0xa5);
	pool->core.log.level = other->core.log.level = VPMM_LOG_NONE;
	vpmm_pool_destroy(other);
	assert_ok(vpmm_free(pool, block, NULL));
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* A program that a pool's program executes has nothing of the pool. */
static void test_close_on_exec(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .pages = 1 };
	struct descriptors before, after;
	struct vpmm_pool *pool = NULL;
	int saved[3], err;

	standard_close(saved, STDOUT_FILENO);
	descriptors_read(&before);
	err = vpmm_pool_create(&pool, &opts);
	descriptors_read(&after);
	standard_restore(saved, STDOUT_FILENO);

	assert_ok(err);
	for (int fd = 0; fd < MOST_DESCRIPTORS; fd++) {
		if (after.open[fd] && !before.open[fd])
			g_assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* Nor does a file that is open for a moment: what another thread prints would go to it. */
static void test_files(void)
{
	char *folder = g_dir_make_tmp("vpmm-resources-XXXXXX", NULL), *name = g_build_filename(folder, "plan", NULL);
	struct vpmm_pool *pool;
	int saved[3], err;
	rlim_t files;
	void *ptr;

	assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED, .plan = name }));
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	assert_ok(vpmm_free(pool, ptr, NULL));
	standard_close(saved, STDOUT_FILENO);
	files = rlimit_set(RLIMIT_NOFILE, STDERR_FILENO + 1);
	err = vpmm_pool_save_plan(pool);
	rlimit_set(RLIMIT_NOFILE, files);
	standard_restore(saved, STDOUT_FILENO);
	g_assert_cmpint(err, <, 0);
	/* And it leaves nothing beside the name. */
	g_assert_cmpint(g_rmdir(folder), ==, 0);
	g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
	vpmm_pool_destroy(pool);
	g_assert_cmpint(g_remove(name), ==, 0);
	g_assert_cmpint(g_rmdir(folder), ==, 0);
	fixture_assert_nothing_left();
	g_free(folder);
	g_free(name);
}

/* With no number above standard error to be had, there is no pool, and no descriptor either. */
static void test_only_standard_descriptors(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED };
	struct descriptors before, after;
	struct vpmm_pool *pool = NULL;
	int saved[3], err;
	rlim_t files;

	standard_close(saved, STDOUT_FILENO);
	descriptors_read(&before);
	files = rlimit_set(RLIMIT_NOFILE, STDERR_FILENO + 1);
	err = vpmm_pool_create(&pool, &opts);
	rlimit_set(RLIMIT_NOFILE, files);
	descriptors_read(&after);
	standard_restore(saved, STDOUT_FILENO);

	g_assert_cmpint(err, ==, -ENOMEM);
	g_assert_null(pool);
	g_assert_nonnull(strstr(vpmm_last_error(), "memfd_create"));
	g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
	fixture_assert_nothing_left();
}

static int count_asked(void *data, struct vpmm_pool *pool, size_t size)
{
	(void)pool;
	(void)size;
	++*(int *)data;
	return 0;
}

/* Makes a range while the process may open so many descriptors more. */
static int make_range(struct vpmm_pool *pool, int more, void **range)
{
	int free[8], err;
	rlim_t files;

	/* Those that are the lowest. */
	for (int i = 0; i <= more; i++)
		free[i] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	files = rlimit_set(RLIMIT_NOFILE, (rlim_t)free[more]);
	for (int i = 0; i <= more; i++)
		close(free[i]);
	err = vpmm_shared_alloc(pool, range, PAGE, 0);
	rlimit_set(RLIMIT_NOFILE, files);
	return err;
}

/* For want of descriptors a range cannot be made now, which is no reason to ask the program for memory. */
static void test_no_descriptors_for_touches(gconstpointer touch)
{
	int asked = 0, err = -EMFILE;
	struct descriptors before, after;
	void *range = NULL;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pressure = count_asked, .pressure_data = &asked });
	descriptors_read(&before);
	g_setenv("VPMM_SHARED_TOUCH", touch, TRUE);
	for (int more = 0; more < 7 && err == -EMFILE; more++) {
		err = make_range(f.pool, more, &range);
		if (err == -EMFILE) {
			g_assert_nonnull(strstr(vpmm_last_error(), "Too many open files"));
			descriptors_read(&after);
			g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
		}
		g_assert_true(err == -EMFILE || more);
	}
	g_unsetenv("VPMM_SHARED_TOUCH");
	if (err == -ENOTSUP)
		g_test_skip("the kernel does not allow it");
	else
		assert_ok(err);
	g_assert_cmpint(asked, ==, 0);
	assert_ok(vpmm_shared_free(f.pool, range, NULL));
	fixture_close(&f);
}

/* Under a limit of file sizes the pool has what fits; beyond that requests fail, and the program lives. */
static void test_file_size(void)
{
	struct fixture f;
	void *held, *none = NULL;
	rlim_t before;

	before = rlimit_set(RLIMIT_FSIZE, 4 * PAGE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	held = memset(fixture_malloc(&f, 3, f.streams[0]), 1, 3 * PAGE);

	assert_error(vpmm_malloc(f.pool, &none, 2 * PAGE, f.streams[0]), ENOMEM,
		     "file size limit, RLIMIT_FSIZE, of 8388608");

	g_assert_null(none);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, held, f.streams[0]);
	fixture_malloc(&f, 4, f.streams[0]);
	rlimit_set(RLIMIT_FSIZE, before);
	fixture_malloc(&f, 2, f.streams[0]);
	fixture_close(&f);
}

/* Other files of a pool are beyond the limit, too: the call fails or goes without the file, and the program goes on. */
static void test_file_size_of_others(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .top = VPMM_TOP_ON };
	char *folder = g_dir_make_tmp("vpmm-limit-XXXXXX", NULL);
	char *dump = g_build_filename(folder, "dump", NULL), *budget = g_build_filename(folder, "budget", NULL);
	struct vpmm_pool *pool = NULL;
	rlim_t before;
	void *none;
	int err;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, 0);
		g_test_trap_assert_passed();
		goto out;
	}
	before = rlimit_set(RLIMIT_FSIZE, 1024);
	assert_error(vpmm_pool_create(&pool, &opts), ENOMEM, "top (VPMM_TOP): no memory that others can see: File too");
	opts.top = VPMM_TOP_OFF;
	opts.budget = budget;
	assert_error(vpmm_pool_create(&pool, &opts), EFBIG, "VPMM_BUDGET: ");
	/* Nothing is left of a file that could not be created. */
	g_assert_cmpint(g_rmdir(folder), ==, 0);
	g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
	opts.budget = NULL;
	opts.oom_dump = dump;
	assert_ok(vpmm_pool_create(&pool, &opts));
	err = vpmm_malloc(pool, &none, PAGE, NULL);
	rlimit_set(RLIMIT_FSIZE, before);
	g_assert_cmpint(err, ==, -ENOMEM);
	vpmm_pool_destroy(pool);
out:
	folder_remove(folder);
	g_free(folder);
	g_free(budget);
	g_free(dump);
}

static bool device_is_full;

/* The C library's, for the library too. On a full device it fails, and may have made the file larger. */
int posix_fallocate(int fd, off_t from, off_t size)
{
	int err = ftruncate(fd, from + (device_is_full ? size / 2 : size));

	return err ? errno : device_is_full ? ENOSPC : 0;
}

/* A budget whose file cannot be created on a full device can be once there is space. */
static void test_full_device(void)
{
	char *folder = g_dir_make_tmp("vpmm-full-XXXXXX", NULL), *budget = g_strdup_printf("%s/budget:1G", folder);
	struct vpmm_opts opts = { FIXTURE_PACKED, .budget = budget };
	struct vpmm_pool *pool = NULL;

	device_is_full = true;
	assert_error(vpmm_pool_create(&pool, &opts), ENOSPC, "cannot be created: No space left");
	device_is_full = false;
	assert_ok(vpmm_pool_create(&pool, &opts));
	vpmm_pool_destroy(pool);
	folder_remove(folder);
	g_free(folder);
	g_free(budget);
}

/* Lets the process have so many bytes of address space more. */
static void limit_space(size_t more)
{
	char *text = NULL;

	g_assert_true(g_file_get_contents("/proc/self/statm", &text, NULL, NULL));
	rlimit_set(RLIMIT_AS, g_ascii_strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) + more);
	g_free(text);
}

static void run_limited(void)
{
	if (SANITIZED) {
		g_test_skip("a sanitizer needs more address space than any limit leaves");
		return;
	}
	if (!g_file_test("/proc/self/statm", G_FILE_TEST_EXISTS)) {
		g_test_skip("/proc does not say how much address space is in use");
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

/* Allocates until it fails, and then for want of address space; the heap has some all the same. */
static void fill(struct vpmm_opts opts, size_t size)
{
	const size_t space = (size_t)256 << 20;
	struct fixture f;
	char *heap;
	void *ptr;

	opts.va_size = 0;
	g_setenv("VPMM_HOST_CAPACITY", "1T", TRUE);
	limit_space(space);
	fixture_open(&f, opts);
	while (!vpmm_malloc(f.pool, &ptr, size, f.streams[0]))
		;
	g_assert_nonnull(strstr(vpmm_last_error(), "address space: "));
	g_assert_nonnull(strstr(vpmm_last_error(), "RLIMIT_AS"));
	g_assert_cmpuint(fixture_stats(&f).mapped + fixture_stats(&f).small_mapped, >, space / 8);
	heap = g_try_malloc(space / 64);
	g_assert_nonnull(heap);
	g_free(heap);
	fixture_close(&f);
}

static void test_fill_with_least(void)
{
	if (!g_test_subprocess())
		run_limited();
	else
		fill((struct vpmm_opts){ FIXTURE_PACKED }, 512);
}

static void test_fill_with_small(void)
{
	if (!g_test_subprocess())
		run_limited();
	else
		fill((struct vpmm_opts){ FIXTURE_PACKED }, 5000);
}

static void test_fill_with_large(void)
{
	if (!g_test_subprocess())
		run_limited();
	else
		fill((struct vpmm_opts){ FIXTURE_PACKED }, 3 * PAGE + 512);
}

static void test_fill_with_pages(void)
{
	if (!g_test_subprocess())
		run_limited();
	else
		fill((struct vpmm_opts){ FIXTURE_OPTS }, PAGE);
}

static void test_fill_driver(void)
{
	if (!g_test_subprocess())
		run_limited();
	else
		fill((struct vpmm_opts){ FIXTURE_OPTS }, 5000);
}

/* A third of what there is can be had in one piece, beside another pool too; the log says that there is a limit. */
static void test_space_is_used(void)
{
	const struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = (size_t)1 << 40,
					.log_level = VPMM_LOG_WARNING };
	const size_t space = (size_t)1 << 30;
	struct fixture f, g;

	if (!g_test_subprocess()) {
		run_limited();
		return;
	}
	limit_space(space);
	fixture_open(&f, opts);
	g_assert_nonnull(strstr(f.log->str, "instead of 1099511627776"));
	g_assert_nonnull(strstr(f.log->str, "RLIMIT_AS"));
	fixture_open(&g, opts);
	fixture_malloc_bytes(&f, 4096, f.streams[0]);
	fixture_malloc_bytes(&g, 4096, g.streams[0]);
	fixture_malloc_bytes(&g, space / 3, g.streams[0]);
	fixture_close_beside(&g);
	fixture_malloc_bytes(&f, space / 3, f.streams[0]);
	fixture_close(&f);
}

/* Half of it can be had from the driver's allocator: one large request leaves the heap more than many small ones do. */
static void test_driver_serves_large(void)
{
	const size_t space = (size_t)1 << 30;
	struct fixture f;

	if (!g_test_subprocess()) {
		run_limited();
		return;
	}
	limit_space(space);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .page_size = SIZE_MAX });
	fixture_malloc_bytes(&f, space / 2, f.streams[0]);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/resources/standard-descriptors", test_standard_descriptors);
	g_test_add_func("/resources/log-is-not-memory", test_log_is_not_memory);
	g_test_add_func("/resources/close-on-exec", test_close_on_exec);
	g_test_add_func("/resources/only-standard-descriptors", test_only_standard_descriptors);
	g_test_add_data_func("/resources/no-descriptors-for-touches/user", "user", test_no_descriptors_for_touches);
	g_test_add_data_func("/resources/no-descriptors-for-touches/signal", "signal", test_no_descriptors_for_touches);
	g_test_add_func("/resources/file-size", test_file_size);
	g_test_add_func("/resources/file-size-of-others", test_file_size_of_others);
	g_test_add_func("/resources/full-device", test_full_device);
	g_test_add_func("/resources/files", test_files);
	g_test_add_func("/resources/fill-with-least", test_fill_with_least);
	g_test_add_func("/resources/fill-with-small", test_fill_with_small);
	g_test_add_func("/resources/fill-with-large", test_fill_with_large);
	g_test_add_func("/resources/fill-with-pages", test_fill_with_pages);
	g_test_add_func("/resources/fill-driver", test_fill_driver);
	g_test_add_func("/resources/space-is-used", test_space_is_used);
	g_test_add_func("/resources/driver-serves-large", test_driver_serves_large);
	return g_test_run();
}
