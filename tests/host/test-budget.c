// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much a pool takes that has memory remapped again and again, and what it does with it. */
#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fixture.h"

#define MIB ((size_t)1 << 20)
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

	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .log_level = VPMM_LOG_INFO });
	ops = *f->pool->backend->ops;
	ops.now = test_now;
	f->pool->backend->ops = &ops;
}

/* How often the pool has said something. */
static unsigned int lines_of(struct fixture *f, const char *text)
{
	unsigned int lines = 0;

	for (const char *at = f->log->str; (at = strstr(at, text)); at++)
		lines++;
	return lines;
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

	fixture_strain(&f, STRAINS - 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, 0);
	g_assert_false(f.pool->at_ease);
	fixture_strain(&f, 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, step);
	g_assert_true(f.pool->at_ease);
	fixture_strain(&f, 15);
	g_assert_cmpuint(f.pool->strain.relief, ==, step);
	fixture_strain(&f, 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, 2 * step);
	fixture_strain(&f, 1000);
	g_assert_cmpuint(f.pool->strain.relief, ==, 8 * step);
	g_assert_cmpuint(lines_of(&f, "may take 4194304 bytes more"), ==, 0);
	/* What is said is said with the next call. */
	fixture_malloc(&f, 1, f.streams[0]);
	g_assert_cmpuint(lines_of(&f, "may take "), ==, 8);
	g_assert_cmpuint(lines_of(&f, "may take 4194304 bytes more, as it had to remap again and again"), ==, 1);
	g_assert_cmpuint(lines_of(&f, "may take 33554432 bytes more"), ==, 1);
	fixture_close(&f);
}

/* Now and then is no strain: neither for each so many allocations, nor for each so much time. */
static void test_fading(void)
{
	struct fixture f;
	uint64_t step = open_live(&f);

	fixture_strain(&f, STRAINS - 1);
	for (int i = 0; i < 1000; i++) {
		f.pool->counts.mallocs += 512;
		fixture_strain(&f, 1);
	}
	for (int i = 0; i < 1000; i++) {
		clock_ns += 10000000;
		fixture_strain(&f, 1);
	}
	g_assert_cmpuint(f.pool->strain.relief, ==, 0);
	clock_ns += 10000000 - 1;
	f.pool->counts.mallocs += 500;
	fixture_strain(&f, 1);
	g_assert_cmpuint(f.pool->strain.relief, ==, step);
	fixture_close(&f);
}

/* Who wants memory back has it. */
static void test_trim(void)
{
	struct fixture f;
	size_t released;

	open_live(&f);
	fixture_strain(&f, 1000);
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
	enum { A = 19, B = 18, LEFT = 2 * MOST };
	void *a, *b, *c, *d;
	struct fixture f;

	open_budget(&f);
	a = fixture_malloc_bytes(&f, A * MIB, f.streams[0]);
	b = fixture_malloc_bytes(&f, B * MIB, f.streams[0]);
	fixture_malloc_bytes(&f, LEFT * MIB, f.streams[0]);
	fixture_stats(&f);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	fixture_strain(&f, STRAINS);
	c = fixture_malloc_bytes(&f, 16 * MIB, f.streams[0]);
	g_assert_true(c == b);
	g_assert_cmpuint(fixture_stats(&f).live, ==, (LEFT + B) * MIB);
	d = fixture_malloc_bytes(&f, 16 * MIB, f.streams[0]);
	g_assert_true(d == a);
	g_assert_cmpuint(fixture_stats(&f).live, ==, (LEFT + B + A) * MIB);
	fixture_free(&f, c, f.streams[0]);
	fixture_free(&f, d, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, LEFT * MIB);
	/* A block of its own size is better. */
	g_assert_true(fixture_malloc_bytes(&f, A * MIB, f.streams[0]) == a);
	/* A quarter less is the least. */
	c = fixture_malloc_bytes(&f, B * MIB / 5 * 4 - POOL_PIECE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, <, (LEFT + A + B) * MIB);
	fixture_free(&f, c, f.streams[0]);
	fixture_close(&f);
}

/* What nobody has asked for is no reason to take more. */
static void test_near_and_budget(void)
{
	void *ptrs[10];
	struct fixture f;
	uint64_t relief;

	open_budget(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
		ptrs[i] = fixture_malloc(&f, 10, f.streams[0]);
	fixture_stats(&f);
	fixture_strain(&f, 1000);
	relief = f.pool->strain.relief;
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
		ptrs[i] = fixture_malloc(&f, 8, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 100 * PAGE);
	fixture_malloc(&f, 4, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, 104 * PAGE);
	g_assert_cmpuint(f.pool->peak_asked, ==, 100 * PAGE);
	g_assert_true(budget_has_ease(f.pool, 100 * PAGE + relief - fixture_stats(&f).mapped));
	g_assert_false(budget_has_ease(f.pool, 101 * PAGE + relief - fixture_stats(&f).mapped));
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

/* What is small has such blocks anywhere: the smallest first, and no more than a quarter larger. */
static void test_near_small(void)
{
	enum { SMALL = PAGE / 16 };
	struct fixture f;
	void *a, *b, *c;

	open_budget(&f);
	a = fixture_malloc_bytes(&f, 19 * POOL_PIECE, f.streams[0]);
	b = fixture_malloc_bytes(&f, 18 * POOL_PIECE, f.streams[0]);
	c = fixture_malloc_bytes(&f, SMALL, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	fixture_free(&f, c, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, 16 * POOL_PIECE, f.streams[0]) == b);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 18 * POOL_PIECE);
	fixture_free(&f, b, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, 19 * POOL_PIECE, f.streams[0]) == a);
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc_bytes(&f, 14 * POOL_PIECE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 14 * POOL_PIECE);
	fixture_free(&f, b, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, SMALL - POOL_PIECE, f.streams[0]) == c);
	fixture_free(&f, c, f.streams[0]);
	/* In whatever order they were freed. */
	a = fixture_malloc_bytes(&f, 29 * POOL_PIECE, f.streams[0]);
	b = fixture_malloc_bytes(&f, 28 * POOL_PIECE, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, 26 * POOL_PIECE, f.streams[0]) == b);
	fixture_free(&f, b, f.streams[0]);
	/* What is not small is of its size. */
	a = fixture_malloc_bytes(&f, SMALL + POOL_PIECE, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_malloc_bytes(&f, SMALL, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, SMALL);
	fixture_close(&f);
}

/* All blocks of a stream are larger by so much and no more, until one of them is freed; another stream's do not count. */
static void test_near_small_limit(void)
{
	enum { SIZE = PAGE / 32, OVER = PAGE / 160 / POOL_PIECE * POOL_PIECE, FIT = CACHE_OVER_MOST / OVER };
	void *ptrs[FIT + 1], *last, *other;
	struct fixture f;

	open_budget(&f);
	other = fixture_malloc_bytes(&f, SIZE, f.streams[1]);
	for (int i = 0; i <= FIT; i++)
		ptrs[i] = fixture_malloc_bytes(&f, SIZE, f.streams[0]);
	for (int i = 0; i <= FIT; i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	fixture_free(&f, other, f.streams[1]);
	for (int i = 0; i <= FIT; i++)
		last = fixture_malloc_bytes(&f, SIZE - OVER, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, FIT * SIZE + SIZE - OVER);
	g_assert_true(last != ptrs[0]);
	g_assert_true(fixture_malloc_bytes(&f, SIZE - OVER, f.streams[1]) == other);
	fixture_free(&f, ptrs[1], f.streams[0]);
	fixture_free(&f, last, f.streams[0]);
	fixture_malloc_bytes(&f, SIZE - OVER + POOL_PIECE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, (FIT + 1) * SIZE);
	fixture_close(&f);
}

/* With many streams there is less for each, and all of them have no more than a part of what may be unmarked. */
static void test_near_small_of_streams(void)
{
	enum { MANY = 300 };
	struct CUstream_st *streams[MANY];
	uint64_t sum = 0, last = 0;
	GHashTableIter iter;
	struct fixture f;
	gpointer stream;

	open_budget(&f);
	for (int i = 0; i < MANY; i++) {
		assert_ok(vpmm_host_stream_create(&streams[i]));
		fixture_malloc_bytes(&f, 1, streams[i]);
	}
	g_hash_table_iter_init(&iter, f.pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream)) {
		const struct cache *cache = ((struct stream *)stream)->cache;

		sum += cache->over_most;
		last = MAX(last, cache->over_most);
	}
	g_assert_cmpuint(last, ==, CACHE_OVER_MOST);
	g_assert_cmpuint(sum, <=, ((uint64_t)80 << 30) / 512 / CACHE_OVER_PART);
	fixture_close(&f);
	for (int i = 0; i < MANY; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
}

/* Once memory has run out, each has a block of its size until the pool is trimmed. */
static void test_near_small_and_scarce(void)
{
	struct fixture f;
	void *a, *b;

	open_budget(&f);
	fixture_malloc_bytes(&f, 60 * POOL_PIECE, f.streams[0]);
	a = fixture_malloc_bytes(&f, 20 * POOL_PIECE, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	budget_note_scarce(f.pool);
	b = fixture_malloc_bytes(&f, 18 * POOL_PIECE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 78 * POOL_PIECE);
	fixture_free(&f, b, f.streams[0]);
	budget_note_trim(f.pool);
	a = fixture_malloc_bytes(&f, 20 * POOL_PIECE, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_malloc_bytes(&f, 18 * POOL_PIECE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, >=, 78 * POOL_PIECE);
	fixture_close(&f);
}

/* At ease there is no limit for it; what was got so counts when that is over, and leaves nothing to get. */
static void test_near_small_at_ease(void)
{
	enum { SIZE = PAGE / 32, OVER = SIZE / 5 / POOL_PIECE * POOL_PIECE, MANY = 2 * CACHE_OVER_MOST / OVER };
	void *ptrs[MANY], *more;
	struct fixture f;

	open_budget(&f);
	fixture_malloc(&f, MOST, f.streams[0]);
	for (int i = 0; i < MANY; i++)
		ptrs[i] = fixture_malloc_bytes(&f, SIZE, f.streams[0]);
	more = fixture_malloc_bytes(&f, SIZE, f.streams[0]);
	fixture_stats(&f);
	for (int i = 0; i < MANY; i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	fixture_strain(&f, STRAINS);
	g_assert_true(f.pool->at_ease);
	for (int i = 0; i < MANY; i++)
		fixture_malloc_bytes(&f, SIZE - OVER, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, MOST * PAGE + (MANY + 1) * SIZE);
	f.pool->at_ease = false;
	fixture_free(&f, more, f.streams[0]);
	fixture_malloc_bytes(&f, SIZE - OVER, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, MOST * PAGE + (MANY + 1) * SIZE - OVER);
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
	fixture_strain(&f, STRAINS);
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

/* Whoever has nothing cached is not helped by more memory. */
static void test_nothing_cached(void)
{
	struct fixture f;
	uint64_t sum;

	open_live(&f);
	fixture_strain(&f, STRAINS);
	sum = f.pool->strain.sum;
	for (int i = 0; i < 10; i++)
		fixture_malloc(&f, 3, f.streams[0]);
	g_assert_cmpuint(f.pool->strain.sum, ==, sum);
	fixture_close(&f);
}

/* What is cached does not count as live where a small request takes what the budget has left. */
static void test_taken_once(void)
{
	enum { FREED = 32 };
	void *ptrs[FREED];
	struct fixture f;
	uint64_t relief;

	open_budget(&f);
	fixture_malloc(&f, MOST, f.streams[0]);
	for (int i = 0; i < FREED; i++)
		ptrs[i] = fixture_malloc(&f, 1, f.streams[0]);
	fixture_stats(&f);
	fixture_strain(&f, 1000);
	relief = f.pool->strain.relief;
	g_assert_cmpuint(relief, ==, (MOST + FREED) * PAGE / 4);
	for (int i = 0; i < FREED; i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	g_assert_cmpuint(cached(&f), ==, FREED * PAGE);
	fixture_malloc_bytes(&f, 256 << 10, f.streams[0]);
	g_assert_cmpuint(cached(&f), ==, FREED * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, (MOST + FREED) * PAGE + (MOST + FREED) * PAGE / 500 + relief);
	fixture_close(&f);
}

/* Blocks that are too large are no reason to have no memory left, at first or for long. */
static void test_scarce(void)
{
	enum { PAGES = 50, BLOCKS = 10, SPARE = 3 };
	struct fixture f;
	void *ptrs[BLOCKS], *ptr;
	int n = 0;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = (PAGES + SPARE) * PAGE });
	for (int i = 0; i < BLOCKS; i++)
		ptrs[i] = fixture_malloc(&f, PAGES / BLOCKS, f.streams[0]);
	fixture_stats(&f);
	fixture_strain(&f, 1000);
	g_assert_false(f.pool->at_ease);
	for (int i = 0; i < BLOCKS; i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	while (!vpmm_malloc(f.pool, &ptr, 4 * PAGE, f.streams[0]))
		n++;
	g_assert_cmpint(n, ==, (PAGES + SPARE) / 4);
	fixture_close(&f);
}

/* Where the device is full, what is cached goes before a request is refused, and the pool is not at ease any more. */
static void test_scarce_at_ease(void)
{
	enum { FREED = 10 };
	void *ptrs[FREED];
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, MOST, f.streams[0]);
	for (int i = 0; i < FREED; i++)
		ptrs[i] = fixture_malloc(&f, 2, f.streams[0]);
	fixture_stats(&f);
	fixture_strain(&f, STRAINS);
	g_assert_true(f.pool->at_ease);
	for (int i = 0; i < FREED; i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	backend_fault_arm(f.pool->backend, BACKEND_OP_create, 0, 1000, -ENOMEM);
	fixture_malloc(&f, 1, f.streams[0]);
	g_assert_true(f.pool->at_ease);
	g_assert_cmpuint(cached(&f), ==, 0);
	fixture_malloc(&f, 2 * FREED - 1, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, ptrs, 5 * PAGE, f.streams[0]), ENOMEM, "vpmm_malloc");
	g_assert_false(f.pool->at_ease);
	fixture_strain(&f, 1000);
	g_assert_false(f.pool->at_ease);
	backend_fault_arm(f.pool->backend, BACKEND_OP_create, 0, 0, 0);
	fixture_close(&f);
}

/* A thread of its own, whose blocks nobody else has a use for. */
static void *run_beside(void *data)
{
	struct fixture *f = data;
	void *ptr;

	assert_ok(vpmm_malloc(f->pool, &ptr, PAGE, f->streams[1]));
	assert_ok(vpmm_free(f->pool, ptr, f->streams[1]));
	return NULL;
}

/* Where several threads allocate, caches are emptied as they are of any pool. */
static void test_crowded(void)
{
	struct fixture f;
	void *ptr;

	open_live(&f);
	ptr = fixture_malloc(&f, 3, f.streams[0]);
	fixture_strain(&f, 1000);
	g_thread_join(g_thread_new("beside", run_beside, &f));
	fixture_free(&f, ptr, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	g_assert_cmpuint(cached(&f), <=, PAGE);
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
	g_test_add_func("/budget/near-and-budget", test_near_and_budget);
	g_test_add_func("/budget/not-near", test_not_near);
	g_test_add_func("/budget/near-small", test_near_small);
	g_test_add_func("/budget/near-small-limit", test_near_small_limit);
	g_test_add_func("/budget/near-small-of-streams", test_near_small_of_streams);
	g_test_add_func("/budget/near-small-and-scarce", test_near_small_and_scarce);
	g_test_add_func("/budget/near-small-at-ease", test_near_small_at_ease);
	g_test_add_func("/budget/stays-cached", test_stays_cached);
	g_test_add_func("/budget/nothing-cached", test_nothing_cached);
	g_test_add_func("/budget/taken-once", test_taken_once);
	g_test_add_func("/budget/scarce", test_scarce);
	g_test_add_func("/budget/scarce-at-ease", test_scarce_at_ease);
	g_test_add_func("/budget/crowded", test_crowded);
	return g_test_run();
}
