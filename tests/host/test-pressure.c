// SPDX-License-Identifier: LGPL-2.1-or-later
/* What can be had is had when memory or mappings run out, where the pool does not keep to pages. */
#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "core/account.h"
#include "support/fault.h"
#include "support/fixture.h"

/* What the driver did not take back is given back before more is created, and so the device has it. */
static void test_stray_memory(void)
{
	struct fixture f;
	void *a = NULL;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_access, 0, 1, -EIO);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_release, 0, 2, -EIO);
	assert_error(vpmm_malloc(f.pool, &a, 5 * PAGE, f.streams[0]), EIO, "access");
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_release, 0, 0, 0);
	fixture_malloc(&f, 8, f.streams[0]);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* Free memory serves a small request when the device has no more. */
static void test_small_with_device_full(void)
{
	struct fixture f;
	void *a;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 8, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	memset(fixture_malloc_bytes(&f, 1000, f.streams[0]), 1, 1000);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What small requests had serves a large one when the device has no more. */
static void test_large_with_device_full(void)
{
	void *small[512];
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 512; i++)
		assert_ok(vpmm_malloc(f.pool, &small[i], PAGE / 64, f.streams[0]));
	for (int i = 0; i < 512; i++)
		assert_ok(vpmm_free(f.pool, small[i], f.streams[0]));
	memset(fixture_malloc(&f, 8, f.streams[0]), 1, 8 * PAGE);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What the pool would rather create than move, it moves when there is nothing to create. */
static void test_moves_with_device_full(void)
{
	void *blocks[60];
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "600M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 60; i++)
		blocks[i] = fixture_malloc(&f, 5, f.streams[0]);
	for (int i = 0; i < 60; i += 2)
		fixture_free(&f, blocks[i], f.streams[0]);
	fixture_malloc(&f, 150, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 300 * PAGE);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* Pieces that are too small to be worth it are worth it when there is nothing else. */
static void test_small_pieces_with_device_full(void)
{
	void *pages[16];
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .frag_ratio = 60 });
	for (int i = 0; i < 16; i++)
		pages[i] = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < 16; i += 2)
		fixture_free(&f, pages[i], f.streams[0]);
	fixture_malloc(&f, 8, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 16 * PAGE);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* Old places go when the device can have no more mappings: each page is mapped once, and once more when it moves. */
static void test_mappings_run_out(void)
{
	GRand *rand = g_rand_new_with_seed(3);
	void *held[8] = { NULL };
	struct fixture f;

	g_setenv("VPMM_HOST_MAPPINGS", "80", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	for (int step = 0; step < 2000; step++) {
		int i = g_rand_int_range(rand, 0, G_N_ELEMENTS(held));

		if (held[i]) {
			fixture_free(&f, held[i], f.streams[0]);
			held[i] = NULL;
		} else {
			held[i] = fixture_malloc(&f, (size_t)g_rand_int_range(rand, 1, 5), f.streams[0]);
		}
		g_assert_cmpuint(fixture_stats(&f).extents, <=, 32);
	}
	fixture_close(&f);
	g_rand_free(rand);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* The same of two pools, which share what the device can have. */
static void test_mappings_of_two_pools(void)
{
	GRand *rand = g_rand_new_with_seed(4);
	void *held[2][8] = { 0 };
	struct fixture f[2];

	g_setenv("VPMM_HOST_MAPPINGS", "100", TRUE);
	fixture_open(&f[0], (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	fixture_open(&f[1], (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	g_assert_cmpuint(f[0].pool->packed.most_places + f[1].pool->packed.most_places, <, 100);
	for (int step = 0; step < 2000; step++) {
		int i = g_rand_int_range(rand, 0, 8), p = step % 2;

		if (held[p][i]) {
			fixture_free(&f[p], held[p][i], f[p].streams[0]);
			held[p][i] = NULL;
		} else {
			held[p][i] = fixture_malloc(&f[p], (size_t)g_rand_int_range(rand, 1, 5), f[p].streams[0]);
		}
	}
	vpmm_pool_destroy(f[0].pool);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(f[0].streams[i]));
	g_string_free(f[0].log, TRUE);
	fixture_close(&f[1]);
	g_rand_free(rand);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

#define MAPPINGS 64

/* Takes all mappings with single pages, and frees each one in @every. */
static void take_all_mappings(struct fixture *f, void *pages[MAPPINGS], int every)
{
	g_setenv("VPMM_HOST_MAPPINGS", G_STRINGIFY(MAPPINGS), TRUE);
	/* Large requests take few extents. */
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .overhead = 25 });
	for (int i = 0; i < MAPPINGS; i++)
		pages[i] = fixture_malloc(f, 1, f->streams[0]);
	g_assert_cmpuint(fixture_stats(f).mappings, ==, MAPPINGS);
	for (int i = 0; i < MAPPINGS; i += every)
		fixture_free(f, pages[i], f->streams[0]);
}

/* Free extents give their mappings to a block that they cannot be moved for; what is live stays where it is. */
static void test_mappings_of_free(gconstpointer every)
{
	size_t wanted = GPOINTER_TO_INT(every) == 1 ? 100 : 30;
	void *pages[MAPPINGS];
	struct fixture f;

	take_all_mappings(&f, pages, GPOINTER_TO_INT(every));
	for (int i = 0; i < MAPPINGS; i++) {
		if (i % GPOINTER_TO_INT(every))
			memset(pages[i], i, PAGE);
	}
	fixture_malloc(&f, wanted, f.streams[0]);
	for (int i = 0; i < MAPPINGS; i++) {
		if (i % GPOINTER_TO_INT(every))
			g_assert_true(fixture_is_filled(pages[i], PAGE, (char)i));
	}
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* No more is released than the block needs. */
static void test_mappings_of_some(void)
{
	void *pages[MAPPINGS];
	struct fixture f;

	take_all_mappings(&f, pages, 2);
	fixture_malloc(&f, 5, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).given_back, <=, 5 * PAGE);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* A block that must move gets them too. */
static void test_mappings_of_free_resized(void)
{
	void *pages[MAPPINGS], *ptr;
	struct fixture f;

	take_all_mappings(&f, pages, 2);
	ptr = memset(pages[1], 7, PAGE);
	assert_ok(vpmm_realloc(f.pool, &ptr, 30 * PAGE, f.streams[0]));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_true(fixture_is_filled(ptr, PAGE, 7));
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* A block grows where it is with them, where memory for what it grows by can be created, and none for a copy of it. */
static void test_mappings_of_free_grown(void)
{
	void *pages[MAPPINGS], *ptr;
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "136M", TRUE);
	take_all_mappings(&f, pages, 2);
	ptr = memset(pages[MAPPINGS - 1], 7, PAGE);
	assert_ok(vpmm_realloc(f.pool, &ptr, 5 * PAGE, f.streams[0]));
	g_assert_true(ptr == pages[MAPPINGS - 1]);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_true(fixture_is_filled(ptr, PAGE, 7));
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What the limit does not allow costs the pool nothing of what it has. */
static void test_nothing_lost(void)
{
	void *pages[16], *none = NULL;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 16 * PAGE });
	for (int i = 0; i < 16; i++)
		pages[i] = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < 16; i += 2)
		fixture_free(&f, pages[i], f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &none, 9 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_cmpuint(fixture_stats(&f).given_back, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 16 * PAGE);
	fixture_close(&f);
}

/* The old places of memory that moved while work is pending go once it is done, when mappings are short. */
static void test_mappings_wait(void)
{
	struct fixture f;
	void *pages[8];

	g_setenv("VPMM_HOST_MAPPINGS", "12", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	for (int i = 0; i < 8; i++)
		pages[i] = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	for (int i = 0; i < 8; i += 2)
		fixture_free(&f, pages[i], f.streams[0]);
	pages[0] = fixture_malloc(&f, 4, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mappings, ==, 12);
	fixture_free(&f, pages[1], f.streams[0]);
	fixture_free(&f, pages[5], f.streams[0]);
	memset(fixture_malloc(&f, 2, f.streams[0]), 1, 2 * PAGE);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* Two pages that stream 1 has freed without an event, of eight that there may be; the others are live. */
static void open_withheld(struct fixture *f, struct vpmm_opts opts)
{
	void *a;

	opts.limit = 8 * PAGE;
	fixture_open(f, opts);
	fixture_malloc(f, 6, f->streams[1]);
	a = fixture_malloc(f, 2, f->streams[1]);
	fixture_free_at_work(f, a, f->streams[1]);
}

/* What another stream has freed, nobody knows when, is had after a wait when there is nothing else. */
static void test_unmarked(void)
{
	unsigned int pending;
	struct fixture f;

	open_withheld(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	g_assert_cmpuint(cache_withheld(f.pool->core.streams.sole->cache), ==, 2 * PAGE);
	memset(fixture_malloc(&f, 2, f.streams[0]), 1, 2 * PAGE);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 0);
	fixture_close(&f);
}

/* Nobody waits where it would be too little all the same. */
static void test_no_vain_wait(void)
{
	unsigned int pending;
	struct fixture f;
	void *a = NULL;

	open_withheld(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_malloc(f.pool, &a, 3 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 1);
	fixture_complete(f.streams[1]);
	fixture_close(&f);
}

static uint64_t stranded_bytes(struct vpmm_pool *pool)
{
	uint64_t bytes = 0;
	GHashTableIter iter;
	gpointer stream;

	g_hash_table_iter_init(&iter, pool->core.streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream))
		bytes += ((struct stream *)stream)->cache->stranded_bytes;
	return bytes;
}

/* So is what a third stream has freed that need not be behind the free of the first. */
static void test_stranded(void)
{
	struct fixture f;
	void *a;

	open_withheld(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_malloc(f.pool, &a, 2 * PAGE, f.streams[1]));
	fixture_free(&f, a, f.streams[2]);
	g_assert_cmpuint(stranded_bytes(f.pool), ==, 2 * PAGE);
	memset(fixture_malloc(&f, 2, f.streams[0]), 1, 2 * PAGE);
	fixture_close(&f);
}

/* A wait that fails is told, and changes nothing. */
static void test_wait_fails(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .limit = 8 * PAGE };
	static const enum backend_op ops[] = { BACKEND_OP_sync, BACKEND_OP_info };
	struct fixture f;
	void *a;

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		fixture_open_faulty(&f, opts);
		fixture_malloc(&f, 6, f.streams[1]);
		a = fixture_malloc(&f, 2, f.streams[1]);
		fixture_free(&f, a, f.streams[1]);
		backend_fault_arm(f.pool->core.backend, ops[i], 0, 1, -EIO);
		assert_error(vpmm_malloc(f.pool, &a, 2 * PAGE, f.streams[0]), EIO, "bytes");
		backend_fault_arm(f.pool->core.backend, ops[i], 0, 0, 0);
		fixture_malloc(&f, 2, f.streams[0]);
		fixture_close(&f);
	}
}

/* Where nobody can wait, as a stream is being captured, what is missing is memory. */
static void test_wait_in_capture(void)
{
	struct fixture f;
	void *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 8 * PAGE });
	fixture_malloc(&f, 6, f.streams[1]);
	a = fixture_malloc(&f, 2, f.streams[1]);
	fixture_free(&f, a, f.streams[1]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_sync, 0, 1, -EBUSY);
	assert_error(vpmm_malloc(f.pool, &a, 2 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_nonnull(strstr(vpmm_last_error(), "let pending work finish (4 MiB on stream "));
	fixture_malloc(&f, 2, f.streams[0]);
	fixture_close(&f);
}

/* Pages of small requests whose work is pending serve a large one once it is done. */
static void test_spans_wait(void)
{
	void *small[64];
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 8 * PAGE });
	for (int i = 0; i < 64; i++)
		small[i] = fixture_malloc_bytes(&f, 100 * 1024, f.streams[1]);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	for (int i = 0; i < 64; i++)
		fixture_free(&f, small[i], f.streams[1]);
	memset(fixture_malloc(&f, 8, f.streams[0]), 1, 8 * PAGE);
	fixture_close(&f);
}

static void give_back(void *other)
{
	assert_ok(vpmm_pool_trim(other, 0, NULL));
}

/* Four pages, in the middle of each of which a half is free, that no large block can have. */
static void scatter(struct fixture *f)
{
	void *parts[32];

	for (int i = 0; i < 32; i++)
		parts[i] = fixture_malloc_bytes(f, PAGE / 8, f->streams[0]);
	for (int i = 0; i < 32; i++) {
		if ((uintptr_t)parts[i] / (PAGE / 8) % 8 / 2 % 3)
			fixture_free(f, parts[i], f->streams[0]);
	}
}

/*
 * What another pool gives back while a request waits for pending work is there after it: of 16 pages the other one has
 * 8, 2 are free where they are of no use, 1 is pending and 3 are the device's.
 */
static void test_memory_comes_back(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .pages = 8 };
	struct vpmm_pool *other;
	struct fixture f;
	void *small;

	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_pool_create(&other, &opts));
	small = fixture_malloc_bytes(&f, 100 * 1024, f.streams[1]);
	assert_ok(vpmm_host_stream_launch(f.streams[1], give_back, other));
	fixture_free(&f, small, f.streams[1]);
	scatter(&f);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 5 * PAGE);
	memset(fixture_malloc(&f, 6, f.streams[0]), 1, 6 * PAGE);
	vpmm_pool_destroy(other);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What the driver's allocator holds beside what is allocated of it would do, but no wait brings it back. */
static void test_small_not_pending(void)
{
	unsigned int pending = 0;
	struct fixture f;
	void *none = NULL;

	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	fixture_malloc_bytes(&f, 512, f.streams[0]);
	fixture_free(&f, fixture_malloc_bytes(&f, 512, f.streams[0]), f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));

	assert_error(vpmm_malloc(f.pool, &none, 20 * PAGE, f.streams[0]), ENOMEM, "40 MiB wanted");

	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 1);
	fixture_complete(f.streams[1]);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pressure/stray-memory", test_stray_memory);
	g_test_add_func("/pressure/small-with-device-full", test_small_with_device_full);
	g_test_add_func("/pressure/large-with-device-full", test_large_with_device_full);
	g_test_add_func("/pressure/moves-with-device-full", test_moves_with_device_full);
	g_test_add_func("/pressure/small-pieces-with-device-full", test_small_pieces_with_device_full);
	g_test_add_func("/pressure/mappings-run-out", test_mappings_run_out);
	g_test_add_func("/pressure/mappings-of-two-pools", test_mappings_of_two_pools);
	g_test_add_data_func("/pressure/mappings-of-free", GINT_TO_POINTER(1), test_mappings_of_free);
	g_test_add_data_func("/pressure/mappings-of-half", GINT_TO_POINTER(2), test_mappings_of_free);
	g_test_add_func("/pressure/mappings-of-some", test_mappings_of_some);
	g_test_add_func("/pressure/mappings-of-free-resized", test_mappings_of_free_resized);
	g_test_add_func("/pressure/mappings-of-free-grown", test_mappings_of_free_grown);
	g_test_add_func("/pressure/nothing-lost", test_nothing_lost);
	g_test_add_func("/pressure/mappings-wait", test_mappings_wait);
	g_test_add_func("/pressure/unmarked", test_unmarked);
	g_test_add_func("/pressure/no-vain-wait", test_no_vain_wait);
	g_test_add_func("/pressure/stranded", test_stranded);
	g_test_add_func("/pressure/wait-fails", test_wait_fails);
	g_test_add_func("/pressure/wait-in-capture", test_wait_in_capture);
	g_test_add_func("/pressure/spans-wait", test_spans_wait);
	g_test_add_func("/pressure/small-not-pending", test_small_not_pending);
	g_test_add_func("/pressure/memory-comes-back", test_memory_comes_back);
	return g_test_run();
}
