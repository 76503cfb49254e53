// SPDX-License-Identifier: LGPL-2.1-or-later
/* What can be had is had when memory or mappings run out, where the pool does not keep to pages. */
#include <errno.h>
#include <string.h>

#include "backend.h"
#include "fixture.h"
#include "pool.h"

/* What the driver did not take back is given back before more is created, and so the device has it. */
static void test_stray_memory(void)
{
	struct fixture f;
	void *a = NULL;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	backend_fault_arm(f.pool->backend, BACKEND_OP_access, 0, 1, -EIO);
	backend_fault_arm(f.pool->backend, BACKEND_OP_release, 0, 2, -EIO);
	assert_error(vpmm_malloc(f.pool, &a, 5 * PAGE, f.streams[0]), EIO, "access");
	backend_fault_arm(f.pool->backend, BACKEND_OP_release, 0, 0, 0);
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

static void test_exhausted(void)
{
	struct fixture f;
	void *a, *b = &f;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
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
static void test_far_too_much(void)
{
	struct vpmm_stats before, after;
	struct fixture f;
	void *a = NULL;

	g_setenv("VPMM_HOST_CAPACITY", "2G", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	before = fixture_stats(&f);
	assert_error(vpmm_malloc(f.pool, &a, (size_t)3 << 30, f.streams[0]), ENOMEM, "device memory");
	after = fixture_stats(&f);
	g_assert_cmpuint(after.reserved, ==, before.reserved);
	g_assert_cmpuint(after.chunks, ==, before.chunks);
	g_assert_cmpuint(after.creates, ==, before.creates);
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

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pressure/stray-memory", test_stray_memory);
	g_test_add_func("/pressure/small-with-device-full", test_small_with_device_full);
	g_test_add_func("/pressure/large-with-device-full", test_large_with_device_full);
	g_test_add_func("/pressure/moves-with-device-full", test_moves_with_device_full);
	g_test_add_func("/pressure/small-pieces-with-device-full", test_small_pieces_with_device_full);
	g_test_add_func("/pressure/exhausted", test_exhausted);
	g_test_add_func("/pressure/far-too-much", test_far_too_much);
	g_test_add_func("/pressure/mappings-run-out", test_mappings_run_out);
	return g_test_run();
}
