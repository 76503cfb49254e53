// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What fails has changed nothing: where memory runs out, and where undoing fails too. tests/sweep/sweep.c has the
 * rest.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/kinds.h"

static const struct kind kinds[] = { KIND_PACKED, KIND_PAGED };

/* Two pages and a bit are more than what is left; the two pages are not. */
static void test_exhausted(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	void *a, *b = &f;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open(&f, kind->opts);
	a = fixture_malloc(&f, 6, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &b, 2 * PAGE + 512, f.streams[0]), ENOMEM, "live");
	g_assert_true(b == &f);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 6 * PAGE);
	fixture_malloc(&f, 2, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_malloc(&f, 6, f.streams[0]);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* More than the device has, and more than a chunk: nothing is created in vain, and no address space stays. */
static void test_far_too_much(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_stats before, after;
	struct fixture f;
	void *a = NULL;

	g_setenv("VPMM_HOST_CAPACITY", "2G", TRUE);
	fixture_open(&f, kind->opts);
	before = fixture_stats(&f);
	assert_error(vpmm_malloc(f.pool, &a, (size_t)3 << 30, f.streams[0]), ENOMEM, "device memory");
	after = fixture_stats(&f);
	g_assert_cmpuint(after.reserved, ==, before.reserved);
	g_assert_cmpuint(after.chunks, ==, before.chunks);
	g_assert_cmpuint(after.creates, ==, before.creates);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* Small requests get several pages at a time, and one page where the address space has no room for several. */
static void test_last_page_of_small(void)
{
	const size_t pages = 17, block = PAGE / 16 - 512;
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = pages * PAGE };
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, opts);
	fixture_malloc(&f, pages, f.streams[0]);
	fixture_malloc_bytes(&f, block, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_reserve, 0, UINT_MAX, -ENOMEM);
	while (!vpmm_malloc(f.pool, &ptr, block, f.streams[0]))
		;
	g_assert_cmpuint(fixture_stats(&f).spans, ==, pages * PAGE);
	fixture_close(&f);
}

/*
 * A pool that asks the device for more than it has, and another one that asks at each of the driver's calls for that.
 */
static struct {
	struct fixture greedy, modest;
	const struct backend_ops *ops;
	unsigned int tried, refused;
} rivals;

static void ask_modestly(void *data)
{
	void *block = NULL;

	rivals.tried++;
	if (vpmm_malloc(rivals.modest.pool, &block, 6 * PAGE, rivals.modest.streams[0]))
		rivals.refused++;
	assert_ok(vpmm_free(rivals.modest.pool, block, rivals.modest.streams[0]));
	assert_ok(vpmm_pool_trim(rivals.modest.pool, 0, NULL));
}

/* Another thread would, while the greedy one is in its call. */
static int create_beside(struct backend *be, size_t size, uint64_t *handle)
{
	int err = rivals.ops->create(be, size, handle);

	lock_as_another(ask_modestly, NULL);
	return err;
}

static int info_beside(struct backend *be, struct backend_info *info)
{
	int err = rivals.ops->info(be, info);

	lock_as_another(ask_modestly, NULL);
	return err;
}

/* What cannot be served takes nothing meanwhile: a request of another pool that there is room for is served. */
static void test_too_much_beside_others(void)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED }, { FIXTURE_PACKED, .extent_max = PAGE }, { FIXTURE_OPTS } };
	struct backend_ops ops;
	void *none = NULL;

	g_setenv("VPMM_HOST_CAPACITY", "80M", TRUE);
	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		fixture_open(&rivals.modest, opts[i]);
		fixture_open(&rivals.greedy, opts[i]);
		fixture_malloc(&rivals.greedy, 30, rivals.greedy.streams[0]);
		rivals.ops = rivals.greedy.pool->core.backend->ops;
		rivals.tried = rivals.refused = 0;
		ops = *rivals.ops;
		ops.create = create_beside;
		ops.info = info_beside;
		rivals.greedy.pool->core.backend->ops = &ops;
		for (size_t pages = 11; pages < 40; pages++)
			assert_error(vpmm_malloc(rivals.greedy.pool, &none, pages * PAGE + 1, NULL), ENOMEM,
				     "device memory");
		rivals.greedy.pool->core.backend->ops = rivals.ops;
		g_assert_cmpuint(rivals.tried, >, 0);
		g_assert_cmpuint(rivals.refused, ==, 0);
		fixture_close_beside(&rivals.modest);
		fixture_close(&rivals.greedy);
	}
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* A failure, and a second one while the first is being undone: the first is told, and what it left is tried again. */
static void test_undoing_fails(void)
{
	static const enum backend_op undoing[] = { BACKEND_OP_unmap, BACKEND_OP_release };
	struct fixture f;
	void *a, *block = NULL;

	for (size_t i = 0; i < G_N_ELEMENTS(undoing); i++) {
		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_OPTS });
		a = fixture_malloc(&f, 2, f.streams[0]);
		fixture_malloc(&f, 1, f.streams[0]);
		fixture_free(&f, a, f.streams[0]);
		backend_fault_arm(f.pool->core.backend, BACKEND_OP_access, 0, 3, -ENOMEM);
		backend_fault_arm(f.pool->core.backend, undoing[i], 0, 1, -EIO);
		assert_error(vpmm_malloc(f.pool, &block, 3 * PAGE, f.streams[0]), ENOMEM, "access");
		assert_ok(vpmm_pool_check(f.pool));
		backend_fault_arm(f.pool->core.backend, undoing[i], 0, 0, 0);
		block = fixture_malloc(&f, 3, f.streams[0]);
		memset(block, 1, 3 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 4 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).zombies, ==, 0);
		fixture_close(&f);
	}
}

/* The access fails, and the first try to undo what was mapped as well: the second, at the end, does it. */
static void undoing_creation_fails(struct vpmm_opts opts)
{
	struct settings settings;
	struct backend *host, *be;
	struct vpmm_pool *pool;

	assert_ok(settings_from_opts(&settings, &opts));
	assert_ok(backend_open("host", NULL, &host));
	assert_ok(backend_fault_wrap(host, &be));
	assert_ok(be->ops->enter(be));
	backend_fault_arm(be, BACKEND_OP_access, 0, 1, -ENOMEM);
	backend_fault_arm(be, BACKEND_OP_unmap, 0, 1, -EIO);

	assert_error(pool_new(&pool, be, &settings), ENOMEM, "creating 3 initial pages: ");

	be->ops->leave(be);
	be->ops->close(be);
	fixture_assert_nothing_left();
}

/* With more address space than the pages take, and with none. */
static void test_undoing_creation_fails(void)
{
	undoing_creation_fails((struct vpmm_opts){ FIXTURE_OPTS, .pages = 3 });
	undoing_creation_fails((struct vpmm_opts){ FIXTURE_CHUNKS(3), .pages = 3 });
}

/* So much is asked for beforehand, and the answer is an error. */
static void test_asking_fails(void)
{
	struct fixture f;
	void *a = NULL;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_info, 0, 1, -EIO);
	assert_error(vpmm_malloc(f.pool, &a, (size_t)1 << 30, f.streams[0]), EIO, "vpmm_malloc");
	g_assert_null(a);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).creates, ==, 0);
	fixture_close(&f);
}

/* A wait of the host that fails is no wait. */
static void test_waiting_fails(void)
{
	struct fixture f;
	void *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK });
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_sync, 0, 1, -EIO);
	assert_error(vpmm_malloc(f.pool, &a, PAGE, f.streams[1]), EIO, "vpmm_malloc");
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

/* No allocation fails because nobody can say what the driver's allocator holds. */
static void test_peak_is_not_known(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	void *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	assert_error(vpmm_malloc(f.pool, NULL, PAGE, f.streams[0]), EINVAL, "ptr is NULL");
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_small_held, 0, 1, -EIO);
	assert_ok(vpmm_malloc(f.pool, &a, 3 * PAGE, f.streams[0]));
	g_assert_nonnull(strstr(vpmm_last_error(), "ptr is NULL"));
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.peak_mapped, ==, 3 * PAGE);
	g_assert_cmpuint(stats.peak_taken, ==, 3 * PAGE);
	fixture_free(&f, a, f.streams[0]);
	fixture_close(&f);
}

static void no_allocation(void *data, int level, const char *message)
{
	struct vpmm_pool **pool = data;

	(void)level;
	(void)message;
	if (*pool)
		g_assert_cmpint(vpmm_free(*pool, data, NULL), <, 0);
}

/* A callback that fails in calls of its own does not change what the call under way has to say. */
static void test_callback_fails(void)
{
	struct vpmm_pool *pool = NULL;
	struct vpmm_opts opts = { FIXTURE_OPTS, .log = no_allocation, .log_level = VPMM_LOG_INFO };
	struct vpmm_pool *quiet;
	void *ptr = NULL;

	g_setenv("VPMM_HOST_CAPACITY", "2G", TRUE);
	assert_ok(vpmm_pool_create(&quiet, &(struct vpmm_opts){ FIXTURE_OPTS }));
	opts.log_data = &quiet;
	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_error(vpmm_malloc(pool, &ptr, (size_t)3 << 30, NULL), ENOMEM, "device memory");
	vpmm_pool_destroy(pool);
	vpmm_pool_destroy(quiet);
	fixture_assert_nothing_left();
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What the library tried and did without is no failed call. */
static void test_halving_is_no_error(void)
{
	if (g_test_subprocess()) {
		struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = (size_t)1 << 60 };
		struct vpmm_pool *pool;

		assert_ok(vpmm_pool_create(&pool, &opts));
		g_assert_cmpstr(vpmm_last_error(), ==, "");
		vpmm_pool_destroy(pool);
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/failure/exhausted", kinds, test_exhausted);
	fixture_add_rows("/failure/far-too-much", kinds, test_far_too_much);
	g_test_add_func("/failure/last-page-of-small", test_last_page_of_small);
	g_test_add_func("/failure/too-much-beside-others", test_too_much_beside_others);
	g_test_add_func("/failure/undoing", test_undoing_fails);
	g_test_add_func("/failure/undoing-creation", test_undoing_creation_fails);
	g_test_add_func("/failure/asking", test_asking_fails);
	g_test_add_func("/failure/waiting", test_waiting_fails);
	g_test_add_func("/failure/peak-is-not-known", test_peak_is_not_known);
	g_test_add_func("/failure/callback", test_callback_fails);
	g_test_add_func("/failure/halving", test_halving_is_no_error);
	return g_test_run();
}
