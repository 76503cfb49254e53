// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much device memory a pool takes: what is live at the most, and hardly more. */
#include <errno.h>

#include "support/fixture.h"

#define MOST 64

/* Replaces blocks of 1 to 16 pages at random, as a program does that never repeats itself. */
static void replace_at_random(struct fixture *f, int rounds)
{
	enum { LIVE = 64 };
	GRand *rand = g_rand_new_with_seed(7);
	void *ptrs[LIVE] = { 0 };

	for (int i = 0; i < rounds; i++) {
		void **ptr = &ptrs[g_rand_int_range(rand, 0, LIVE)];

		if (*ptr)
			fixture_free(f, *ptr, f->streams[0]);
		*ptr = fixture_malloc(f, (size_t)g_rand_int_range(rand, 1, 17), f->streams[0]);
	}
	g_rand_free(rand);
}

/* However long a program replaces blocks at random, the pool takes no more for it. */
static void test_restless(void)
{
	struct vpmm_stats stats;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	replace_at_random(&f, 20000);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.peak_mapped, <=, stats.peak_live + stats.peak_live / 10);
	fixture_close(&f);
}

/* With a higher overhead the same program costs fewer calls of the driver. */
static void test_overhead(void)
{
	uint64_t maps[2];

	for (int i = 0; i < 2; i++) {
		struct fixture f;

		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overhead = i ? 10 : 1 });
		replace_at_random(&f, 4000);
		maps[i] = fixture_stats(&f).maps;
		fixture_close(&f);
	}
	g_assert_cmpuint(maps[1], <, maps[0]);
}

/* A pool that was trimmed forgets how much was live before, and takes what is live now. */
static void test_trim(void)
{
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, MOST, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	fixture_malloc(&f, 4, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 4 * PAGE);
	fixture_close(&f);
}

/* What a stream has cached is free: it does not count as live where others need memory. */
static void test_cached_is_free(void)
{
	enum { FREED = 32 };
	void *ptrs[FREED];
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < FREED; i++)
		ptrs[i] = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < FREED; i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	fixture_malloc(&f, FREED, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, FREED * PAGE);
	fixture_close(&f);
}

/* Up to its limit a pool serves what fits, in whatever sizes it was used before. */
static void test_limit(void)
{
	enum { PAGES = 52, BLOCKS = 13 };
	void *ptrs[BLOCKS], *ptr;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = PAGES * PAGE });
	for (int i = 0; i < BLOCKS; i++)
		ptrs[i] = fixture_malloc(&f, PAGES / BLOCKS, f.streams[0]);
	for (int i = 0; i < BLOCKS; i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	for (int i = 0; i < PAGES / 2; i++)
		fixture_malloc(&f, 2, f.streams[0]);
	g_assert_cmpint(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]), ==, -ENOMEM);
	fixture_close(&f);
}

/* A pool that grows by small steps hardly takes more than is live. */
static void grow_by(size_t step)
{
	enum { PAGES = 480 };
	struct vpmm_stats stats;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t live = step; live <= PAGES * PAGE; live += step) {
		fixture_malloc_bytes(&f, step, f.streams[0]);
		stats = fixture_stats(&f);
		g_assert_cmpuint(stats.mapped, <=, live + PAGE + live / 100);
	}
	fixture_close(&f);
}

static void test_small_steps(void)
{
	grow_by(PAGE);
	grow_by(PAGE / 32);
	grow_by(3 * PAGE / 4);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/growth/restless", test_restless);
	g_test_add_func("/growth/overhead", test_overhead);
	g_test_add_func("/growth/trim", test_trim);
	g_test_add_func("/growth/cached-is-free", test_cached_is_free);
	g_test_add_func("/growth/limit", test_limit);
	g_test_add_func("/growth/small-steps", test_small_steps);
	return g_test_run();
}
