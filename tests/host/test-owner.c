// SPDX-License-Identifier: LGPL-2.1-or-later
/* Calls on a block without a pool: they reach the pool that the block is from, whatever device is current. */
#include <errno.h>
#include <string.h>

#include "support/fixture.h"
#include "vpmm-shared.h"

static uint64_t live_of(struct vpmm_pool *pool)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(pool, &stats));
	return stats.live + stats.small_live;
}

static struct vpmm_pool *pool_of(void *ptr)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };

	assert_ok(vpmm_lookup(ptr, &allocation));
	return allocation.pool;
}

/* Default pools live as long as the process, so each test that has some runs in a process of its own. */
static void run_apart(void (*test)(void))
{
	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, 0);
		g_test_trap_assert_passed();
		return;
	}
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	test();
}

/* A pool for everything but what is below a page, and one that has its pages whole. */
static const struct owner_row {
	const char *name;
	struct vpmm_opts opts;
	size_t size;
} rows[] = {
	{ "large", { FIXTURE_PACKED }, 3 * PAGE },
	{ "slab", { FIXTURE_PACKED }, 512 },
	{ "paged", { FIXTURE_OPTS }, 2 * PAGE },
	{ "driver", { FIXTURE_OPTS }, 512 },
};

static void test_free(gconstpointer data)
{
	const struct owner_row *row = data;
	struct vpmm_pool *other;
	struct fixture f;
	void *ptr, *kept;

	fixture_open(&f, row->opts);
	assert_ok(vpmm_pool_create(&other, &row->opts));
	assert_ok(vpmm_malloc(f.pool, &ptr, row->size, f.streams[0]));
	assert_ok(vpmm_malloc(other, &kept, row->size, f.streams[0]));

	assert_ok(vpmm_free(NULL, ptr, f.streams[0]));

	g_assert_cmpuint(live_of(f.pool), ==, 0);
	g_assert_cmpuint(live_of(other), >=, row->size);
	assert_error(vpmm_free(NULL, ptr, f.streams[0]), EINVAL, "no pool has an allocation");
	assert_ok(vpmm_free(NULL, kept, f.streams[1]));
	g_assert_cmpuint(live_of(other), ==, 0);
	vpmm_pool_destroy(other);
	fixture_close(&f);
}

static void test_use(gconstpointer data)
{
	const struct owner_row *row = data;
	struct vpmm_pool *other;
	struct fixture f;
	void *ptr;

	fixture_open(&f, row->opts);
	assert_ok(vpmm_pool_create(&other, &row->opts));
	assert_ok(vpmm_malloc(f.pool, &ptr, row->size, f.streams[0]));

	assert_ok(vpmm_use(NULL, ptr, f.streams[1]));

	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_free(NULL, ptr, f.streams[0]));
	assert_error(vpmm_use(NULL, ptr, f.streams[1]), EINVAL, "no pool has an allocation");
	fixture_complete(f.streams[1]);
	vpmm_pool_destroy(other);
	fixture_close(&f);
}

static void test_realloc(gconstpointer data)
{
	const struct owner_row *row = data;
	struct vpmm_pool *other;
	struct fixture f;
	void *ptr;

	fixture_open(&f, row->opts);
	assert_ok(vpmm_pool_create(&other, &row->opts));
	assert_ok(vpmm_malloc(f.pool, &ptr, row->size, f.streams[0]));

	assert_ok(vpmm_realloc(NULL, &ptr, 2 * row->size, f.streams[0]));

	g_assert_true(pool_of(ptr) == f.pool);
	assert_ok(vpmm_realloc(NULL, &ptr, 0, f.streams[0]));
	g_assert_null(ptr);
	g_assert_cmpuint(live_of(f.pool), ==, 0);
	vpmm_pool_destroy(other);
	fixture_close(&f);
}

/* No pool is made for a block that none has, so there is no device to be missed. */
static void no_pool(void)
{
	char here, *ptr = &here;

	g_setenv("VPMM_BACKEND", "no such backend", TRUE);
	assert_error(vpmm_free(NULL, &here, NULL), EINVAL, "vpmm_free: 0x");
	assert_error(vpmm_use(NULL, &here, NULL), EINVAL, "vpmm_use: 0x");
	assert_error(vpmm_realloc(NULL, (void **)&ptr, 1, NULL), EINVAL, "vpmm_realloc: 0x");
	g_assert_true(ptr == &here);
}

static void test_no_pool(void)
{
	run_apart(no_pool);
}

static void other_device(void)
{
	void *first, *second, *third;
	struct vpmm_pool *zero;

	assert_ok(vpmm_malloc(NULL, &first, PAGE, NULL));
	assert_ok(vpmm_malloc(NULL, &second, PAGE, NULL));
	assert_ok(vpmm_malloc(NULL, &third, PAGE, NULL));
	zero = pool_of(first);

	/* The other device's default pool is not there yet; then it is. */
	assert_ok(vpmm_host_set_device(1));
	assert_ok(vpmm_free(NULL, first, NULL));
	g_assert_cmpuint(live_of(zero), ==, 2 * PAGE);
	assert_ok(vpmm_malloc(NULL, &first, PAGE, NULL));
	g_assert_true(pool_of(first) != zero);
	assert_ok(vpmm_free(NULL, second, NULL));
	assert_ok(vpmm_use(NULL, third, NULL));
	assert_ok(vpmm_realloc(NULL, &third, 2 * PAGE, NULL));
	g_assert_true(pool_of(third) == zero);
	assert_ok(vpmm_free(NULL, third, NULL));

	g_assert_cmpuint(live_of(zero), ==, 0);
	assert_error(vpmm_free(NULL, third, NULL), EINVAL, "no allocation");
	assert_ok(vpmm_free(NULL, first, NULL));
	assert_ok(vpmm_pool_check(zero));
}

static void test_other_device(void)
{
	run_apart(other_device);
}

/* What a pool is given for is still that pool's, and no other's. */
static void test_wrong_pool(void)
{
	struct vpmm_pool *other;
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_pool_create(&other, &(struct vpmm_opts){ FIXTURE_PACKED }));
	ptr = fixture_malloc(&f, 1, f.streams[0]);

	assert_error(vpmm_free(other, ptr, f.streams[0]), EINVAL, "address of another pool");
	assert_error(vpmm_free(other, ptr, VPMM_STREAM_ANY), EINVAL, "address of another pool");
	assert_error(vpmm_use(other, ptr, f.streams[0]), EINVAL, "address of another pool");
	assert_error(vpmm_realloc(other, &ptr, PAGE, f.streams[0]), EINVAL, "address of another pool");

	vpmm_pool_destroy(other);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* The error names the block that an address is in. Of a freed one there is nothing to name. */
static void test_inside(gconstpointer data)
{
	const struct owner_row *row = data;
	struct fixture f;
	char *text;
	void *ptr, *in;

	fixture_open(&f, row->opts);
	assert_ok(vpmm_malloc(f.pool, &ptr, row->size, f.streams[0]));
	in = (char *)ptr + row->size - 1;
	text = g_strdup_printf("the one at %p has it", ptr);

	assert_error(vpmm_free(f.pool, in, f.streams[0]), EINVAL, text);
	assert_error(vpmm_free(f.pool, in, VPMM_STREAM_ANY), EINVAL, text);
	assert_error(vpmm_use(f.pool, in, f.streams[0]), EINVAL, text);
	assert_error(vpmm_realloc(f.pool, &in, PAGE, f.streams[0]), EINVAL, text);
	assert_error(vpmm_send(f.pool, in, -1), EINVAL, text);

	fixture_free(&f, ptr, f.streams[0]);
	assert_error(vpmm_free(f.pool, in, f.streams[0]), EINVAL, "no allocation of this pool");
	g_assert_null(strstr(vpmm_last_error(), "has it"));
	g_free(text);
	fixture_close(&f);
}

/* A range has a call of its own that frees it. */
static void test_shared_range(void)
{
	struct fixture f;
	void *range;
	int err;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	err = vpmm_shared_alloc(f.pool, &range, PAGE, 0);
	if (err) {
		g_test_skip(vpmm_last_error());
	} else {
		assert_error(vpmm_free(f.pool, range, f.streams[0]), EINVAL, "vpmm_shared_free()");
		assert_error(vpmm_realloc(f.pool, &range, PAGE, f.streams[0]), EINVAL, "vpmm_shared_free()");
		assert_error(vpmm_fault(f.pool, range, PAGE, VPMM_HOST, 2), EINVAL, "flags are 0x2");
		assert_ok(vpmm_shared_free(f.pool, range, f.streams[0]));
	}
	assert_error(vpmm_shared_alloc(f.pool, &range, PAGE, 2), EINVAL, "flags are 0x2");
	fixture_close(&f);
}

static void test_bad_stream(void)
{
	struct CUstream_st *bad = (struct CUstream_st *)&rows;
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, 1, f.streams[0]);

	assert_error(vpmm_free(NULL, ptr, bad), EINVAL, "is not a stream");
	assert_error(vpmm_use(NULL, ptr, bad), EINVAL, "is not a stream");

	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_free(NULL, ptr, f.streams[0]));
	fixture_close(&f);
}

#define BLOCKS 200

static gpointer free_all(gpointer data)
{
	void **blocks = data;

	for (int i = 0; i < BLOCKS; i++)
		assert_ok(vpmm_free(NULL, blocks[i], NULL));
	return NULL;
}

static void test_beside_pools_that_come_and_go(void)
{
	void *blocks[BLOCKS];
	struct fixture f;
	GThread *thread;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < BLOCKS; i++)
		assert_ok(vpmm_malloc(f.pool, &blocks[i], 4096, f.streams[0]));
	thread = g_thread_new("frees", free_all, blocks);

	for (int i = 0; i < 50; i++) {
		struct vpmm_pool *pool;

		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
		vpmm_pool_destroy(pool);
	}

	g_thread_join(thread);
	g_assert_cmpuint(live_of(f.pool), ==, 0);
	fixture_close(&f);
}

/* A block of a pool that another thread destroys, passed to a pool that stays. */
struct passed {
	struct vpmm_pool *pool;
	void *block;
	int ends;
};

static void *free_passed(void *data)
{
	struct passed *passed = data;

	while (!g_atomic_int_get(&passed->ends))
		assert_error(vpmm_free(passed->pool, g_atomic_pointer_get(&passed->block), NULL), EINVAL,
			     "no allocation of this pool");
	return NULL;
}

/* The error names another pool only as long as that lives. */
static void test_wrong_pool_that_comes_and_goes(void)
{
	struct passed passed = { .block = &passed };
	struct fixture f;
	GThread *thread;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	passed.pool = f.pool;
	thread = g_thread_new("frees", free_passed, &passed);

	for (int i = 0; i < 200; i++) {
		struct vpmm_pool *pool;
		void *block;

		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
		assert_ok(vpmm_malloc(pool, &block, PAGE, NULL));
		g_atomic_pointer_set(&passed.block, block);
		vpmm_pool_destroy(pool);
	}

	g_atomic_int_set(&passed.ends, 1);
	g_thread_join(thread);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/owner/free", rows, test_free);
	fixture_add_rows("/owner/use", rows, test_use);
	fixture_add_rows("/owner/realloc", rows, test_realloc);
	fixture_add_rows("/owner/inside", rows, test_inside);
	g_test_add_func("/owner/no-pool", test_no_pool);
	g_test_add_func("/owner/other-device", test_other_device);
	g_test_add_func("/owner/wrong-pool", test_wrong_pool);
	g_test_add_func("/owner/shared-range", test_shared_range);
	g_test_add_func("/owner/bad-stream", test_bad_stream);
	g_test_add_func("/owner/wrong-pool-that-comes-and-goes", test_wrong_pool_that_comes_and_goes);
	g_test_add_func("/owner/beside-pools-that-come-and-go", test_beside_pools_that_come_and_go);
	return g_test_run();
}
