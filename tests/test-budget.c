// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much a pool takes that has memory remapped again and again, and what it does with it. */
#include "backend.h"
#include "fixture.h"
#include "pool.h"

#define MOST 64
#define STRAINS 256

/* A clock that the test winds. */
static _Atomic uint64_t clock_ns;

static uint64_t test_now(struct backend *be)
{
	(void)be;
	return clock_ns;
}

/* A pool in which 64 pages were live, or are; time stands still. */
static void open_budget(struct fixture *f)
{
	static struct backend_ops ops;

	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED });
	ops = *f->pool->backend->ops;
	ops.now = test_now;
	f->pool->backend->ops = &ops;
}

static void strain(struct fixture *f, int times)
{
	for (int i = 0; i < times; i++)
		budget_note_strain(f->pool);
}

static uint64_t open_live(struct fixture *f)
{
	open_budget(f);
	fixture_malloc(f, MOST, f->streams[0]);
	fixture_stats(f);
	g_assert_cmpuint(f->pool->peak_live, ==, MOST * PAGE);
	return f->pool->peak_live / 32;
}

/* Strain again and again extends the budget, by and by, and up to a quarter. */
static void test_relief(void)
{
	struct fixture f;
	uint64_t step = open_live(&f);

	strain(&f, STRAINS - 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, 0);
	g_assert_false(f.pool->at_ease);
	strain(&f, 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, step);
	g_assert_true(f.pool->at_ease);
	strain(&f, 15);
	g_assert_cmpuint(f.pool->strain.relief, ==, step);
	strain(&f, 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, 2 * step);
	strain(&f, 1000);
	g_assert_cmpuint(f.pool->strain.relief, ==, 8 * step);
	fixture_close(&f);
}

/* Now and then is no strain: neither for each so many allocations, nor for each so much time. */
static void test_fading(void)
{
	struct fixture f;
	uint64_t step = open_live(&f);

	strain(&f, STRAINS - 1);
	for (int i = 0; i < 1000; i++) {
		f.pool->counts.mallocs += 512;
		strain(&f, 1);
	}
	for (int i = 0; i < 1000; i++) {
		clock_ns += 10000000;
		strain(&f, 1);
	}
	g_assert_cmpuint(f.pool->strain.relief, ==, 0);
	clock_ns += 10000000 - 1;
	f.pool->counts.mallocs += 500;
	strain(&f, 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, step);
	fixture_close(&f);
}

/* Who wants memory back has it. */
static void test_trim(void)
{
	struct fixture f;
	size_t released;

	open_live(&f);
	strain(&f, 1000);
	assert_ok(vpmm_pool_trim(f.pool, 0, &released));
	g_assert_cmpuint(f.pool->strain.relief, ==, 0);
	g_assert_false(f.pool->at_ease);
	fixture_close(&f);
}

/* A load that never repeats comes to rest: it has hardly anything remapped any more, for no more than a quarter more. */
static void test_restless(void)
{
	enum { LIVE = 64, ROUNDS = 20000, LAST = 2000 };
	struct vpmm_stats before = { 0 }, stats;
	GRand *rand = g_rand_new_with_seed(7);
	void *ptrs[LIVE] = { 0 };
	struct fixture f;

	open_budget(&f);
	for (int i = 0; i < ROUNDS; i++) {
		void **ptr = &ptrs[g_rand_int_range(rand, 0, LIVE)];

		if (i == ROUNDS - LAST)
			before = fixture_stats(&f);
		if (*ptr)
			fixture_free(&f, *ptr, f.streams[0]);
		*ptr = fixture_malloc(&f, (size_t)g_rand_int_range(rand, 1, 17), f.streams[0]);
	}
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.defrags - before.defrags, <=, LAST / 100);
	g_assert_cmpuint(stats.peak_mapped, <=, stats.peak_live + stats.peak_live / 4 + stats.peak_live / 32);
	fixture_close(&f);
	g_rand_free(rand);
}

/* What is cached serves what is up to a quarter smaller, the smallest first, and counts as a whole. */
static void test_near(void)
{
	void *a, *b, *c, *d;
	struct fixture f;
	size_t size;

	open_budget(&f);
	a = fixture_malloc(&f, 10, f.streams[0]);
	b = fixture_malloc(&f, 9, f.streams[0]);
	fixture_malloc(&f, MOST, f.streams[0]);
	fixture_stats(&f);
	fixture_free(&f, b, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	strain(&f, STRAINS);
	c = fixture_malloc(&f, 8, f.streams[0]);
	g_assert_true(c == b);
	g_assert_cmpuint(fixture_stats(&f).live, ==, (MOST + 9) * PAGE);
	d = fixture_malloc(&f, 8, f.streams[0]);
	g_assert_true(d == a);
	g_assert_cmpuint(fixture_stats(&f).live, ==, (MOST + 9 + 10) * PAGE);
	/* What nobody has asked for is no reason to take more. */
	g_assert_true(budget_has_ease(f.pool, PAGE));
	b = fixture_malloc(&f, 5, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, (MOST + 9 + 10 + 5) * PAGE);
	g_assert_cmpuint(f.pool->peak_over, ==, (1 + 2) * PAGE);
	g_assert_false(budget_has_ease(f.pool, PAGE));
	fixture_free(&f, b, f.streams[0]);
	fixture_free(&f, c, f.streams[0]);
	fixture_free(&f, d, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, MOST * PAGE);
	/* A block of its own size is better, and a quarter less is the least. */
	g_assert_true(fixture_malloc(&f, 10, f.streams[0]) == a);
	size = 9 * PAGE / 5 * 4 / POOL_PIECE * POOL_PIECE;
	fixture_malloc_bytes(&f, size, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, (MOST + 10) * PAGE + size);
	fixture_close(&f);
}

/* A pool that is not at ease has no such blocks to spare. */
static void test_not_near(void)
{
	struct fixture f;
	void *a;

	open_budget(&f);
	a = fixture_malloc(&f, 10, f.streams[0]);
	fixture_malloc(&f, MOST, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 9, f.streams[0]) == a);
	g_assert_cmpuint(fixture_stats(&f).live, ==, (MOST + 9) * PAGE);
	fixture_close(&f);
}

static uint64_t cached(struct fixture *f)
{
	struct cache_sums sums;

	cache_sum(f->pool, &sums);
	return sums.bytes;
}

/* At ease, what is cached stays: the pool takes what else is free, then more, and only then what is cached. */
static void test_stays_cached(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	uint64_t step;
	void *a, *b;

	step = open_live(&f);
	a = fixture_malloc(&f, 3, f.streams[0]);
	b = fixture_malloc(&f, 6, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	fixture_malloc(&f, 4, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	strain(&f, STRAINS);
	g_assert_cmpuint(f.pool->strain.relief, >=, step);
	/* What is left of b. */
	stats = fixture_stats(&f);
	fixture_malloc(&f, 2, f.streams[0]);
	g_assert_cmpuint(cached(&f), ==, 3 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, stats.mapped);
	/* Relief of two pages. */
	fixture_malloc(&f, 2, f.streams[0]);
	g_assert_cmpuint(cached(&f), ==, 3 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, stats.mapped + 2 * PAGE);
	g_assert_cmpuint(f.pool->strain.sum, ==, STRAINS - 16);
	/* There is no more. */
	g_assert_true(fixture_malloc(&f, 2, f.streams[0]) == a);
	g_assert_cmpuint(cached(&f), ==, 0);
	g_assert_cmpuint(f.pool->strain.sum, ==, STRAINS - 15);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, stats.mapped + 2 * PAGE);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/budget/relief", test_relief);
	g_test_add_func("/budget/fading", test_fading);
	g_test_add_func("/budget/trim", test_trim);
	g_test_add_func("/budget/restless", test_restless);
	g_test_add_func("/budget/near", test_near);
	g_test_add_func("/budget/not-near", test_not_near);
	g_test_add_func("/budget/stays-cached", test_stays_cached);
	return g_test_run();
}
