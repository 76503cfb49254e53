// SPDX-License-Identifier: LGPL-2.1-or-later
/* A pool holds no more than it may, and makes the best of it. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "host/capture-fixture.h"
#include "host/tag-fixture.h"
#include "support/fault.h"
#include "vpmm-shared.h"

#define MODES { { FIXTURE_PACKED, .extent_max = PAGE }, { FIXTURE_OPTS } }

static struct vpmm_info info_of(struct vpmm_pool *pool)
{
	struct vpmm_info info = { .size = sizeof(info) };

	assert_ok(vpmm_pool_info(pool, &info));
	return info;
}

/* Up to the limit all is well; beyond it the sentence says so. */
static void test_limit(void)
{
	struct vpmm_opts opts[] = MODES;
	void *a, *none = NULL;
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		opts[i].limit = 8 * PAGE + 4096;
		fixture_open(&f, opts[i]);
		g_assert_cmpuint(info_of(f.pool).limit, ==, 8 * PAGE + 4096);
		a = fixture_malloc(&f, 6, f.streams[0]);
		assert_error(vpmm_malloc(f.pool, &none, 3 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
		fixture_malloc(&f, 2, f.streams[0]);
		fixture_free(&f, a, f.streams[0]);
		fixture_malloc(&f, 3, f.streams[1]);
		fixture_malloc(&f, 3, f.streams[1]);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
		fixture_close(&f);
	}
}

/* The limit changes while the pool is in use, and what is beyond it goes back. */
static void test_set_limit(void)
{
	struct vpmm_opts opts[] = MODES;
	void *a, *b, *none = NULL;
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		opts[i].limit = 4 * PAGE;
		fixture_open(&f, opts[i]);
		fixture_uncache(&f);
		assert_error(vpmm_malloc(f.pool, &none, 8 * PAGE, f.streams[0]), ENOMEM, ": limit: ");

		assert_ok(vpmm_pool_set_limit(f.pool, 0));
		g_assert_cmpuint(info_of(f.pool).limit, ==, UINT64_MAX);
		a = fixture_malloc(&f, 8, f.streams[0]);
		b = fixture_malloc(&f, 2, f.streams[0]);
		fixture_free(&f, a, f.streams[0]);
		fixture_complete(f.streams[0]);

		assert_ok(vpmm_pool_set_limit(f.pool, 6 * PAGE));
		g_assert_cmpuint(info_of(f.pool).limit, ==, 6 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).mapped, <=, 6 * PAGE);
		assert_error(vpmm_malloc(f.pool, &none, 5 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
		a = fixture_malloc(&f, 4, f.streams[0]);
		assert_ok(vpmm_pool_check(f.pool));
		fixture_free(&f, a, f.streams[0]);
		fixture_free(&f, b, f.streams[0]);
		fixture_close(&f);
	}
}

/* An extent goes whole, also where the pool then holds less than it may. */
static void test_set_limit_large(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(&f);
	a = fixture_malloc(&f, 32, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_complete(f.streams[0]);
	assert_ok(vpmm_pool_set_limit(f.pool, 31 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, 31 * PAGE);
	fixture_free(&f, fixture_malloc(&f, 31, f.streams[0]), f.streams[0]);
	fixture_close(&f);
}

/* What is allocated stays where the limit is less, and the pool asks its program only for what it could serve. */
static gint asked;
static int count_asked(void *data, struct vpmm_pool *pool, size_t size)
{
	(void)data;
	(void)pool;
	(void)size;
	asked++;
	return 0;
}

static void test_set_limit_below(void)
{
	struct fixture f;
	void *a, *none = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .pressure = count_asked });
	a = fixture_malloc(&f, 8, f.streams[0]);
	assert_ok(vpmm_pool_set_limit(f.pool, 3 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
	assert_error(vpmm_malloc(f.pool, &none, 2 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_cmpint(asked, ==, 1);
	assert_error(vpmm_malloc(f.pool, &none, 4 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_cmpint(asked, ==, 1);

	/* What is free serves, whatever the limit. */
	fixture_free(&f, a, f.streams[0]);
	a = fixture_malloc(&f, 8, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_close(&f);
}

/* Of freed shareable blocks, those go whose work is complete. */
static void test_set_limit_shareable(void)
{
	void *done, *pending;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD });
	assert_ok(vpmm_malloc_flags(f.pool, &done, 8 * PAGE, f.streams[0], VPMM_SHAREABLE));
	assert_ok(vpmm_malloc_flags(f.pool, &pending, 4 * PAGE, f.streams[1], VPMM_SHAREABLE));
	fixture_free_at_work(&f, done, f.streams[0]);
	fixture_free_at_work(&f, pending, f.streams[1]);
	fixture_complete(f.streams[0]);
	assert_ok(vpmm_pool_set_limit(f.pool, 20 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).shareable, ==, 12 * PAGE);
	assert_ok(vpmm_pool_set_limit(f.pool, PAGE));
	g_assert_cmpuint(fixture_stats(&f).shareable, ==, 4 * PAGE);
	fixture_complete(f.streams[1]);
	fixture_close(&f);
}

/* Device memory of shared ranges that no page has goes, too. */
static void test_set_limit_range(void)
{
	struct fixture f;
	void *range;

	if (!fixture_can_map_twice())
		return;
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_shared_alloc(f.pool, &range, 6 * PAGE, 0));
	g_assert_cmpint(vpmm_fault(f.pool, range, 6 * PAGE, VPMM_DEVICE, 0), ==, 6);
	assert_ok(vpmm_shared_free(f.pool, range, NULL));
	g_assert_cmpuint(fixture_stats(&f).shared, >=, 6 * PAGE);
	assert_ok(vpmm_pool_set_limit(f.pool, 20 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).shared, >=, 6 * PAGE);
	assert_ok(vpmm_pool_set_limit(f.pool, 2 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).shared, <=, 2 * PAGE);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_close(&f);
}

/* What is missing is said of all that is missing, and of the pool as it is then. */
static void test_sentence(void)
{
	struct fixture f;
	void *none = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 32 * PAGE });
	assert_error(vpmm_malloc(f.pool, &none, 32 * PAGE + 1, f.streams[0]), ENOMEM,
		     ": limit: 66 MiB needed, but the pool holds 0 MiB of the 64 MiB that it may");
	fixture_close(&f);
	g_setenv("VPMM_HOST_CAPACITY", "40M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_malloc(f.pool, &none, 20 * PAGE + 1, f.streams[0]), ENOMEM,
		     ": device memory: 42 MiB needed, 40 MiB free; the pool has 0 MiB live and 0 MiB free");
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* Fragments within the limit become one block, however small the setting says is not worth it. */
static void test_fragments(void)
{
	struct vpmm_opts opts[] = MODES;
	void *blocks[16];
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		opts[i].limit = 16 * PAGE;
		opts[i].frag_ratio = 60;
		fixture_open(&f, opts[i]);
		for (int j = 0; j < 16; j++)
			blocks[j] = memset(fixture_malloc(&f, 1, f.streams[0]), j, PAGE);
		for (int j = 0; j < 16; j += 2)
			fixture_free(&f, blocks[j], f.streams[0]);
		memset(fixture_malloc(&f, 8, f.streams[0]), 99, 8 * PAGE);
		for (int j = 1; j < 16; j += 2)
			g_assert_cmpint(((char *)blocks[j])[PAGE - 1], ==, j);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 16 * PAGE);
		fixture_close(&f);
	}
}

/* What is not needed yet is not planned beyond the limit, nor beyond the threshold. */
static void test_budget(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 21 * PAGE + 5 });
	a = fixture_malloc(&f, 20, f.streams[0]);
	g_assert_cmpuint(growth_room(&f.pool->core, PAGE), <=, PAGE);
	fixture_free(&f, a, f.streams[0]);
	fixture_close(&f);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .keep = 10 * PAGE });
	g_assert_cmpuint(growth_room(&f.pool->core, 40 * PAGE), ==, 10 * PAGE);
	fixture_close(&f);
}

static uint64_t limit_of(size_t limit, int percent)
{
	struct vpmm_info info;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = limit, .limit_percent = percent });
	info = info_of(f.pool);
	fixture_close(&f);
	return info.limit;
}

/* Of a limit in bytes and one in percent, the smaller counts. */
static void test_percent(void)
{
	g_setenv("VPMM_HOST_CAPACITY", "200M", TRUE);
	g_assert_cmpuint(limit_of(0, 0), ==, UINT64_MAX);
	g_assert_cmpuint(limit_of(0, 50), ==, 50 * PAGE);
	g_assert_cmpuint(limit_of(7 * PAGE, 50), ==, 7 * PAGE);
	g_assert_cmpuint(limit_of(70 * PAGE, 50), ==, 50 * PAGE);
	g_assert_cmpuint(limit_of(0, 100), ==, 100 * PAGE);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What the driver's allocator serves counts; it gets what the pool has free. */
static void test_small(void)
{
	void *a, *small[8], *none = NULL;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .limit = 4 * PAGE });
	a = fixture_malloc(&f, 3, f.streams[0]);
	small[0] = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	small[1] = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &none, 1, f.streams[0]), ENOMEM, ": limit: ");
	fixture_free(&f, a, f.streams[0]);
	for (int i = 2; i < 8; i++)
		small[i] = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).given_back, ==, 3 * PAGE);
	assert_error(vpmm_malloc(f.pool, &none, PAGE, f.streams[0]), ENOMEM, ": limit: ");
	for (int i = 0; i < 8; i++)
		fixture_free(&f, small[i], f.streams[0]);
	fixture_malloc(&f, 4, f.streams[0]);
	fixture_close(&f);
}

/* For what is still pending the driver's allocator waits, when there is nothing else. */
static void test_small_waits(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .limit = 4 * PAGE });
	a = fixture_malloc(&f, 4, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	fixture_malloc_bytes(&f, 1000, f.streams[0]);
	fixture_close(&f);
}

/* Small requests grow by a page where more would be too much, and take what others have free in the end. */
static void test_spans(void)
{
	struct fixture f;
	int count = 0;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 20 * PAGE });
	while (!vpmm_malloc(f.pool, &a, 100 * 1024, f.streams[0]))
		count++;
	g_assert_cmpint(count, ==, 20 * 20);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 20 * PAGE);
	fixture_close(&f);
}

/* What the driver did not take back is held all the same. */
static void test_stray(gconstpointer opts)
{
	struct fixture f;
	void *a = NULL;

	fixture_open_faulty(&f, *(const struct vpmm_opts *)opts);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_access, 0, 1, -EIO);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_release, 0, UINT_MAX, -EIO);
	assert_error(vpmm_malloc(f.pool, &a, 5 * PAGE, f.streams[0]), EIO, "access");
	assert_error(vpmm_malloc(f.pool, &a, 4 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_release, 0, 0, 0);
	fixture_malloc(&f, 8, f.streams[0]);
	fixture_close(&f);
}

/* The pages that a pool is to start with count as well. */
static void test_initial_pages(void)
{
	struct vpmm_opts opts = { FIXTURE_OPTS, .pages = 5, .limit = 4 * PAGE };
	struct vpmm_pool *pool = NULL;

	assert_error(vpmm_pool_create(&pool, &opts), ENOMEM, "limit: ");
	g_assert_null(pool);
	fixture_assert_nothing_left();
}

static int malloc_shareable(struct vpmm_pool *pool, void **ptr)
{
	return vpmm_malloc_flags(pool, ptr, PAGE, NULL, VPMM_SHAREABLE);
}

static int malloc_small(struct vpmm_pool *pool, void **ptr)
{
	return vpmm_malloc(pool, ptr, PAGE / 2, NULL);
}

static int alloc_range(struct vpmm_pool *pool, void **ptr)
{
	return vpmm_shared_alloc(pool, ptr, PAGE, 0);
}

/* Calls that create memory outside of the extents, each of so many bytes. */
static const struct creation {
	const char *name;
	int (*call)(struct vpmm_pool *pool, void **ptr);
	size_t bytes;
} creations[] = {
	{ "shareable", malloc_shareable, PAGE },
	{ "small", malloc_small, PAGE / 2 },
	{ "range", alloc_range, PAGE },
};

/* The pool whose backend has hooks, what the limit leaves when a hook is called, and what the hook returns. */
static struct vpmm_pool *hooked_pool;
static const struct backend_ops *plain_ops;
static uint64_t room_meanwhile;
static int hook_fails;

static int look_at_room(void)
{
	room_meanwhile = extent_room(&hooked_pool->core.extents);
	return hook_fails;
}

static int create_hook(struct backend *be, size_t size, uint64_t *handle)
{
	return look_at_room() ?: plain_ops->create(be, size, handle);
}

static int create_export_hook(struct backend *be, size_t size, uint64_t *handle)
{
	return look_at_room() ?: plain_ops->create_export(be, size, handle);
}

static int small_alloc_hook(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	return look_at_room() ?: plain_ops->small_alloc(be, size, stream, va);
}

/*
 * Memory counts before it is created, as a tag of the pool may create some meanwhile, under another lock; and no more
 * if it is not created.
 */
static void test_counts_first(gconstpointer data)
{
	const struct creation *it = data;
	struct backend_ops hooked;
	struct fixture f;
	void *ptr;

	if (it->call == alloc_range && !fixture_can_map_twice())
		return;
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .limit = 4 * PAGE, .export_as = VPMM_EXPORT_FD });
	hooked_pool = f.pool;
	plain_ops = f.pool->core.backend->ops;
	hooked = *plain_ops;
	hooked.create = create_hook;
	hooked.create_export = create_export_hook;
	hooked.small_alloc = small_alloc_hook;
	f.pool->core.backend->ops = &hooked;
	hook_fails = -EIO;
	g_assert_cmpint(it->call(f.pool, &ptr), ==, -EIO);
	g_assert_cmpuint(room_meanwhile, ==, 4 * PAGE - it->bytes);
	g_assert_cmpuint(extent_room(&f.pool->core.extents), ==, 4 * PAGE);
	hook_fails = 0;
	assert_ok(it->call(f.pool, &ptr));
	g_assert_cmpuint(room_meanwhile, ==, 4 * PAGE - it->bytes);
	g_assert_cmpuint(extent_room(&f.pool->core.extents), ==, 4 * PAGE - it->bytes);
	f.pool->core.backend->ops = plain_ops;
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(it->call == alloc_range ? vpmm_shared_free(f.pool, ptr, NULL) : vpmm_free(f.pool, ptr, NULL));
	fixture_close(&f);
}

/* From this size on, the pool asks how much memory the device has, between its look at the limit and the creation. */
#define MUCH ((size_t)1 << 30)

static vpmm_tag other_tag;
static void *other_block;

static void *allocate_tagged(void *data)
{
	(void)data;
	vpmm_tag_set(other_tag);
	assert_ok(vpmm_malloc(hooked_pool, &other_block, 2 * PAGE, NULL));
	return NULL;
}

static int info_hook(struct backend *be, struct backend_info *info)
{
	if (!other_block && g_atomic_int_compare_and_exchange(&asked, 0, 1))
		g_thread_join(g_thread_new("tagged", allocate_tagged, NULL));
	return plain_ops->info(be, info);
}

/* A tag of the pool creates memory while a shareable block is about to be, and both would be more than the limit. */
static void test_beside_tag(void)
{
	struct backend_ops hooked;
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = MUCH + PAGE, .export_as = VPMM_EXPORT_FD });
	assert_ok(vpmm_tag_open("beside", VPMM_TAG_PAUSABLE, &other_tag));
	assert_ok(vpmm_pause_prepare(f.pool, other_tag));
	asked = 0;
	hooked_pool = f.pool;
	plain_ops = f.pool->core.backend->ops;
	hooked = *plain_ops;
	hooked.info = info_hook;
	f.pool->core.backend->ops = &hooked;
	assert_error(vpmm_malloc_flags(f.pool, &ptr, MUCH, NULL, VPMM_SHAREABLE), ENOMEM, ": limit: ");
	f.pool->core.backend->ops = plain_ops;
	g_assert_nonnull(other_block);
	g_assert_cmpuint(fixture_stats(&f).mapped + fixture_stats(&f).shareable, ==, 2 * PAGE);
	fixture_free(&f, other_block, NULL);
	fixture_close(&f);
}

/* A limit takes nothing from a paused tag: its frees that waited for a graph are collected once it is resumed. */
static void test_paused_tag(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct vpmm_host_graph *graph;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, f.streams[0]);
	vpmm_tag_set(tag);
	begin(&f, f.streams[0]);
	fixture_free(&f, fixture_malloc(&f, 3, f.streams[0]), f.streams[0]);
	graph = end(f.streams[0]);
	vpmm_tag_set(0);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_pool_set_limit(f.pool, PAGE / 2));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 3 * PAGE);
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_pool_set_limit(f.pool, 0));
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	static const struct vpmm_opts stray_paged = { FIXTURE_OPTS, .limit = 8 * PAGE };
	static const struct vpmm_opts stray_packed = { FIXTURE_PACKED, .limit = 8 * PAGE };

	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/limit/limit", test_limit);
	g_test_add_func("/limit/set", test_set_limit);
	g_test_add_func("/limit/set-large", test_set_limit_large);
	g_test_add_func("/limit/set-below", test_set_limit_below);
	g_test_add_func("/limit/set-shareable", test_set_limit_shareable);
	g_test_add_func("/limit/set-range", test_set_limit_range);
	g_test_add_func("/limit/sentence", test_sentence);
	g_test_add_func("/limit/fragments", test_fragments);
	g_test_add_func("/limit/budget", test_budget);
	g_test_add_func("/limit/percent", test_percent);
	g_test_add_func("/limit/small", test_small);
	g_test_add_func("/limit/small-waits", test_small_waits);
	g_test_add_func("/limit/spans", test_spans);
	g_test_add_data_func("/limit/stray/paged", &stray_paged, test_stray);
	g_test_add_data_func("/limit/stray/packed", &stray_packed, test_stray);
	g_test_add_func("/limit/initial-pages", test_initial_pages);
	fixture_add_rows("/limit/counts-first", creations, test_counts_first);
	g_test_add_func("/limit/beside-tag", test_beside_tag);
	g_test_add_func("/limit/paused-tag", test_paused_tag);
	return g_test_run();
}
