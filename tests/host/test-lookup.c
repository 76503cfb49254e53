// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_lookup(): any address of an allocation leads to it, and no other address does. */
#include <errno.h>
#include <unistd.h>

#include "calls/pool.h"
#include "support/fixture.h"
#include "host/tag-fixture.h"
#include "vpmm-shared.h"

static void assert_is(const void *addr, struct vpmm_pool *pool, void *base, size_t bytes)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };

	assert_ok(vpmm_lookup(addr, &allocation));
	g_assert_true(allocation.pool == pool);
	g_assert_true(allocation.base == base);
	g_assert_cmpuint(allocation.bytes, ==, bytes);
	g_assert_cmpint(allocation.device, ==, 0);
}

static void assert_none(const void *addr)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };

	g_assert_cmpint(vpmm_lookup(addr, &allocation), ==, -EINVAL);
	g_assert_null(allocation.pool);
}

static void each_address(struct vpmm_opts opts, const size_t *sizes, unsigned int n)
{
	struct fixture f;
	void *ptrs[8];

	fixture_open(&f, opts);
	for (unsigned int i = 0; i < n; i++)
		assert_ok(vpmm_malloc(f.pool, &ptrs[i], sizes[i], f.streams[0]));

	for (unsigned int i = 0; i < n; i++) {
		assert_is(ptrs[i], f.pool, ptrs[i], sizes[i]);
		assert_is((char *)ptrs[i] + sizes[i] / 2, f.pool, ptrs[i], sizes[i]);
		assert_is((char *)ptrs[i] + sizes[i] - 1, f.pool, ptrs[i], sizes[i]);
		if (sizes[i] % 512)
			assert_none((char *)ptrs[i] + sizes[i]);
	}
	assert_ok(vpmm_pool_check(f.pool));
	for (unsigned int i = 0; i < n; i++) {
		fixture_free(&f, ptrs[i], f.streams[0]);
		assert_none(ptrs[i]);
		assert_none((char *)ptrs[i] + sizes[i] - 1);
	}
	fixture_close(&f);
}

static void test_large(void)
{
	static const size_t sizes[] = { PAGE, 3 * PAGE, 512, 2 * PAGE + 100, PAGE };

	each_address((struct vpmm_opts){ FIXTURE_PACKED }, sizes, G_N_ELEMENTS(sizes));
}

static void test_slabs(void)
{
	static const size_t sizes[] = { 512, 1, 4096, 513, 512 };

	each_address((struct vpmm_opts){ FIXTURE_PACKED }, sizes, G_N_ELEMENTS(sizes));
}

static void test_driver_small(void)
{
	static const size_t sizes[] = { 512, 1, 4096 };

	each_address((struct vpmm_opts){ FIXTURE_OPTS }, sizes, G_N_ELEMENTS(sizes));
}

/* Until work that uses it is complete, the driver has it allocated, and is not to be asked to free it. */
static void test_driver_small_freed(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	assert_ok(vpmm_malloc(f.pool, &ptr, 1000, f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, ptr, VPMM_STREAM_ANY);

	assert_error(vpmm_lookup(ptr, &allocation), EALREADY, "was freed");
	assert_error(vpmm_lookup((char *)ptr + 999, &allocation), EALREADY, "was freed");
	assert_error(vpmm_free(f.pool, ptr, f.streams[0]), EINVAL, "no allocation of this pool");
	assert_ok(vpmm_host_stream_complete(f.streams[1], 1));
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
	assert_none(ptr);

	fixture_close(&f);
}

static void test_foreign(void)
{
	struct fixture f;
	int here = 0;

	assert_none(&here);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });

	assert_none(&here);
	assert_none(NULL);
	assert_none((void *)UINTPTR_MAX);

	fixture_close(&f);
}

static void test_two_pools(void)
{
	struct vpmm_pool *other;
	struct fixture f;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_pool_create(&other, &(struct vpmm_opts){ FIXTURE_PACKED }));
	a = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_malloc(other, &b, PAGE, f.streams[0]));

	assert_is((char *)a + 1, f.pool, a, PAGE);
	assert_is((char *)b + 1, other, b, PAGE);

	vpmm_pool_destroy(other);
	assert_none(b);
	assert_is(a, f.pool, a, PAGE);
	fixture_free(&f, a, f.streams[0]);
	fixture_close(&f);
}

/* A shared range is as large as was asked for, too, though it has whole pages. */
static void test_shared(void)
{
	const size_t size = 2 * PAGE + 100;
	struct fixture f;
	void *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_shared_alloc(f.pool, &at, size, 0));
	assert_is(at, f.pool, at, size);
	assert_is((char *)at + size - 1, f.pool, at, size);
	assert_none((char *)at + size);
	assert_none((char *)at + 3 * PAGE - 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	assert_none(at);
	fixture_close(&f);
}

static void test_bad_arguments(void)
{
	struct vpmm_allocation allocation = { .size = 1 };

	g_assert_cmpint(vpmm_lookup(&allocation, NULL), ==, -EINVAL);
	g_assert_cmpint(vpmm_lookup(&allocation, &allocation), ==, -EINVAL);
}

static gint done;

static gpointer come_and_go(gpointer data)
{
	(void)data;
	for (int i = 0; i < 200; i++) {
		struct vpmm_pool *pool;

		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
		vpmm_pool_destroy(pool);
	}
	g_atomic_int_set(&done, 1);
	return NULL;
}

static void test_beside_pools_that_come_and_go(void)
{
	struct fixture f;
	GThread *thread;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	g_atomic_int_set(&done, 0);
	thread = g_thread_new("pools", come_and_go, NULL);

	while (!g_atomic_int_get(&done))
		assert_is((char *)ptr + PAGE, f.pool, ptr, 2 * PAGE);

	g_thread_join(thread);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* Blocks of a pool, one of each kind, and a stream of the thread that looks for them. */
struct blocks {
	struct vpmm_pool *pool;
	void *large, *slab, *shareable, *small, *range;
	struct vpmm_pool *driver;
};

/* All that a thread can do to a block without a pool. */
static gpointer call_without_pool(gpointer data)
{
	struct blocks *b = data;
	struct CUstream_st *stream;

	assert_ok(vpmm_host_stream_create(&stream));
	assert_is((char *)b->large + 100, b->pool, b->large, PAGE);
	assert_is((char *)b->slab + 1, b->pool, b->slab, 700);
	assert_is((char *)b->shareable + 1, b->pool, b->shareable, PAGE);
	assert_is((char *)b->small + 99, b->driver, b->small, 100);
	assert_is(b->range, b->pool, b->range, PAGE);
	assert_none(b);
	assert_ok(vpmm_use(NULL, b->large, stream));
	assert_ok(vpmm_realloc(NULL, &b->large, 2 * PAGE, stream));
	assert_ok(vpmm_free(NULL, b->large, stream));
	assert_ok(vpmm_free(NULL, b->slab, stream));
	assert_ok(vpmm_free(NULL, b->shareable, VPMM_STREAM_ANY));
	assert_ok(vpmm_free(NULL, b->small, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
	return NULL;
}

/* No call waits for a pool that has nothing to do with it, however long that one's call takes. */
static void beside_busy(struct vpmm_pool *busy)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD };
	struct blocks b;
	GThread *thread;

	assert_ok(vpmm_pool_create(&b.pool, &opts));
	assert_ok(vpmm_pool_create(&b.driver, &(struct vpmm_opts){ FIXTURE_OPTS }));
	assert_ok(vpmm_malloc(b.pool, &b.large, PAGE, NULL));
	assert_ok(vpmm_malloc(b.pool, &b.slab, 700, NULL));
	assert_ok(vpmm_malloc_flags(b.pool, &b.shareable, PAGE, NULL, VPMM_SHAREABLE));
	assert_ok(vpmm_malloc(b.driver, &b.small, 100, NULL));
	assert_ok(vpmm_shared_alloc(b.pool, &b.range, PAGE, 0));

	/* A call that waits makes the test fail, not hang. */
	alarm(100);
	lock_acquire(&busy->core.lock);
	thread = g_thread_new("without-pool", call_without_pool, &b);
	g_thread_join(thread);
	lock_release(&busy->core.lock);
	alarm(0);

	assert_ok(vpmm_shared_free(b.pool, b.range, NULL));
	assert_ok(vpmm_pool_check(b.pool));
	vpmm_pool_destroy(b.pool);
	vpmm_pool_destroy(b.driver);
}

static void test_beside_busy_pool(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, f.streams[0]);
	beside_busy(f.pool);
	fixture_close(&f);
}

/* The pool that a call asks first where none is given. */
static void test_beside_busy_default(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	void *ptr;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, 0);
		g_test_trap_assert_passed();
		return;
	}
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	assert_ok(vpmm_lookup(ptr, &allocation));
	beside_busy(allocation.pool);
	assert_ok(vpmm_free(NULL, ptr, NULL));
}

/* Whoever looks up an address while its pool ends finds it or does not, and reads nothing of what is gone. */
static gpointer allocate_and_end(gpointer data)
{
	void *_Atomic *known = data;

	for (int i = 0; i < 200; i++) {
		struct vpmm_pool *pool;
		void *ptr;

		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
		assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
		*known = ptr;
		vpmm_pool_destroy(pool);
	}
	g_atomic_int_set(&done, 1);
	return NULL;
}

static void test_beside_end_of_pool(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	void *_Atomic known = NULL;
	GThread *thread;
	void *addr;

	g_atomic_int_set(&done, 0);
	thread = g_thread_new("pools", allocate_and_end, &known);
	while (!g_atomic_int_get(&done)) {
		addr = known;
		if (!vpmm_lookup(addr, &allocation))
			g_assert_true(allocation.base == addr);
	}
	g_thread_join(thread);
}

/* Each call that takes a block, on an address inside of one: the error names the block. */
static void inside_is_named(struct vpmm_pool *pool, void *block)
{
	char *start = g_strdup_printf("%p has it", block);
	void *inside = (char *)block + 8;
	struct CUstream_st *stream;
	uint64_t key;
	size_t offset;

	assert_ok(vpmm_host_stream_create(&stream));
	assert_error(vpmm_free(pool, inside, stream), EINVAL, start);
	assert_error(vpmm_free(pool, inside, VPMM_STREAM_ANY), EINVAL, start);
	assert_error(vpmm_use(pool, inside, stream), EINVAL, start);
	assert_error(vpmm_realloc(pool, &inside, 0, stream), EINVAL, start);
	assert_error(vpmm_realloc(pool, &inside, PAGE, stream), EINVAL, start);
	assert_error(vpmm_send(pool, inside, 0), EINVAL, start);
	assert_error(vpmm_lend(pool, inside, 0), EINVAL, start);
	assert_error(vpmm_lend_key(pool, inside, &key, &offset), EINVAL, start);
	assert_ok(vpmm_host_stream_destroy(stream));
	g_free(start);
}

static void test_inside(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD };
	vpmm_tag tag = tag_get("inside", VPMM_TAG_PAUSABLE);
	struct vpmm_pool *other;
	void *blocks[4];
	struct fixture f;

	fixture_open(&f, opts);
	assert_ok(vpmm_pool_create(&other, &opts));
	assert_ok(vpmm_malloc(f.pool, &blocks[0], PAGE, NULL));
	assert_ok(vpmm_malloc(f.pool, &blocks[1], 100, NULL));
	blocks[2] = tag_malloc(f.pool, tag, PAGE, 1, NULL);
	blocks[3] = tag_malloc(f.pool, tag | VPMM_TAG_STAY, PAGE, 1, NULL);

	for (unsigned int i = 0; i < G_N_ELEMENTS(blocks); i++) {
		inside_is_named(f.pool, blocks[i]);
		inside_is_named(NULL, blocks[i]);
		assert_error(vpmm_free(other, (char *)blocks[i] + 8, NULL), EINVAL, "another pool");
	}
	assert_ok(vpmm_pause(f.pool, tag, 0));
	inside_is_named(f.pool, blocks[2]);
	assert_ok(vpmm_resume(f.pool, tag, NULL));

	for (unsigned int i = 0; i < G_N_ELEMENTS(blocks); i++)
		assert_ok(vpmm_free(NULL, blocks[i], NULL));
	vpmm_pool_destroy(other);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/lookup/large", test_large);
	g_test_add_func("/lookup/slabs", test_slabs);
	g_test_add_func("/lookup/driver-small", test_driver_small);
	g_test_add_func("/lookup/driver-small-freed", test_driver_small_freed);
	g_test_add_func("/lookup/foreign", test_foreign);
	g_test_add_func("/lookup/two-pools", test_two_pools);
	g_test_add_func("/lookup/shared", test_shared);
	g_test_add_func("/lookup/bad-arguments", test_bad_arguments);
	g_test_add_func("/lookup/inside", test_inside);
	g_test_add_func("/lookup/beside-pools-that-come-and-go", test_beside_pools_that_come_and_go);
	g_test_add_func("/lookup/beside-busy-pool", test_beside_busy_pool);
	g_test_add_func("/lookup/beside-busy-default", test_beside_busy_default);
	g_test_add_func("/lookup/beside-end-of-pool", test_beside_end_of_pool);
	return g_test_run();
}
