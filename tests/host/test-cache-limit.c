// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much of what they free streams keep: bytes, blocks, and what is not marked. */
#include <errno.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "core/account.h"
#include "core/cache-flush.h"
#include "host/cache-fixture.h"
#include "support/fault.h"

/* Frees blocks of a page that make up the limit, and one more, which records an event for all: that twice. */
static void check_limit(struct fixture *f, size_t limit)
{
	size_t count = 2 * (limit + 1);
	void **ptrs = g_new(void *, count);
	uint64_t before;

	for (size_t i = 0; i < count; i++)
		ptrs[i] = fixture_malloc(f, 1, f->streams[0]);
	calm(f, f->streams[0]);
	mark(f, f->streams[0]);
	before = records(f);
	for (size_t i = 0; i < count; i++) {
		g_assert_cmpuint(records(f) - before, ==, i / (limit + 1));
		fixture_free(f, ptrs[i], f->streams[0]);
	}
	g_assert_cmpuint(records(f) - before, ==, 2);
	g_free(ptrs);
}

static void test_limit_of_unmarked(void)
{
	struct fixture f;

	open_cached(&f);
	fixture_malloc(&f, 1, f.streams[1]);
	check_limit(&f, LIMIT_PAGES);
	fixture_close(&f);
}

/*
 * Who is alone keeps nothing from others, unless it has nothing else and may be about to go; once there is another, the
 * next free marks all that is unmarked.
 */
static void test_limit_of_sole(void)
{
	struct fixture f;
	uint64_t before;
	void *ptr, *last;

	open_cached(&f);
	ptr = fixture_malloc(&f, LIMIT_PAGES + 1, f.streams[0]);
	calm(&f, f.streams[0]);
	before = records(&f);
	fixture_free(&f, ptr, f.streams[0]);
	g_assert_cmpuint(records(&f), ==, before + 1);
	last = fixture_malloc(&f, 1, f.streams[0]);
	check_limit(&f, SOLE_PAGES);
	ptr = fixture_malloc(&f, SOLE_PAGES, f.streams[0]);
	calm(&f, f.streams[0]);
	mark(&f, f.streams[0]);
	before = records(&f);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[1]);
	g_assert_cmpuint(records(&f), ==, before);
	fixture_free(&f, last, f.streams[0]);
	g_assert_cmpuint(records(&f), ==, before + 1);
	check_limit(&f, LIMIT_PAGES);
	fixture_close(&f);
}

/* A stream to come has the cache of one that was retired, and nothing of what was in it. */
static void test_cache_of_retired(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, f.streams[3]);
	a = fixture_malloc(&f, 3, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	a = fixture_malloc(&f, 3, f.streams[0]);
	fixture_free(&f, a, f.streams[1]);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
	g_assert_cmpuint(f.pool->core.streams.caches->len, ==, 1);
	a = fixture_malloc(&f, 5, f.streams[2]);
	g_assert_cmpuint(f.pool->core.streams.caches->len, ==, 0);
	fixture_free(&f, a, f.streams[2]);
	fixture_malloc(&f, 6, f.streams[2]);
	fixture_close(&f);
}

static void test_limit_of_blocks(void)
{
	enum { N = CACHE_BLOCKS_MAX + 40 };
	struct cache_sums sums;
	struct fixture f;
	void *ptrs[N];

	open_cached(&f);
	for (int i = 0; i < N; i++)
		assert_ok(vpmm_malloc(f.pool, &ptrs[i], PAGE, f.streams[0]));
	/* A stream that has nothing left would keep nothing. */
	fixture_malloc(&f, 2, f.streams[0]);
	for (int i = 0; i < N; i++) {
		assert_ok(vpmm_free(f.pool, ptrs[i], f.streams[0]));
		cache_sum(&f.pool->core, &sums);
		g_assert_cmpuint(sums.bytes, <=, CACHE_BLOCKS_MAX * PAGE);
		g_assert_cmpuint(sums.bytes, ==, (size_t)(i <= CACHE_BLOCKS_MAX - 1 ? i + 1 :
							  i - CACHE_BLOCKS_MAX) * PAGE);
	}

	g_assert_cmpuint(fixture_stats(&f).free, ==, N * PAGE);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, N);
	fixture_close(&f);
}

/* A program that has freed all it had and begins again has the addresses that it had, not those that it freed last. */
static void test_at_rest(void)
{
	enum { N = CACHE_AT_REST + 4 };
	void *first[N], *again;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < N; i++)
		first[i] = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < N; i++)
		fixture_free(&f, first[i], f.streams[0]);
	for (int i = 0; i < N; i++) {
		again = fixture_malloc(&f, 1, f.streams[0]);
		g_assert_true(again == first[i]);
	}
	fixture_close(&f);
}

/* A loop that allocates and frees the same beside a block that stays is served from the cache, however long it is. */
static void test_plain_loop(void)
{
	enum { N = CACHE_PHASE + 4, ROUNDS = 6 };
	uint64_t central = 0;
	struct fixture f;
	void *ptrs[N];

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 2, f.streams[0]);
	for (int round = 0; round < ROUNDS; round++) {
		if (round == ROUNDS / 2)
			central = f.pool->core.central;
		for (int i = 0; i < N; i++)
			ptrs[i] = fixture_malloc(&f, 1, f.streams[0]);
		for (int i = 0; i < N; i++)
			fixture_free(&f, ptrs[i], f.streams[0]);
	}
	g_assert_cmpuint(f.pool->core.central, ==, central);
	fixture_close(&f);
}

/* What is small leaves room for what is large where a stream may cache little. */
static void test_limit_of_bytes(void)
{
	void *small[39], *block = NULL;
	struct fixture f;
	uint64_t central;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .keep = 32 * PAGE });
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		small[i] = fixture_malloc_bytes(&f, 100 * 1024, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		fixture_free(&f, small[i], f.streams[0]);
	block = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	central = f.pool->core.central;
	fixture_free(&f, block, f.streams[0]);
	fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	g_assert_cmpuint(f.pool->core.central, ==, central);
	fixture_close(&f);
}

/* One more than it takes, with an unmarked free of the block before, and without a mark to be had afterwards. */
static void test_full_and_unmarked(void)
{
	void *ptrs[CACHE_BLOCKS_MAX], *last;
	struct fixture f;

	open_cached(&f);
	last = fixture_malloc(&f, 2, NULL);
	for (int i = 0; i < CACHE_BLOCKS_MAX; i++)
		assert_ok(vpmm_malloc(f.pool, &ptrs[i], PAGE, NULL));
	fixture_free(&f, last, NULL);
	g_assert_true(fixture_malloc(&f, 2, NULL) == last);
	for (int i = 0; i < CACHE_BLOCKS_MAX; i++)
		assert_ok(vpmm_free(f.pool, ptrs[i], NULL));
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 1, 1, -EIO);
	fixture_free(&f, last, NULL);

	g_assert_cmpuint(fixture_stats(&f).free, ==, (CACHE_BLOCKS_MAX + 2) * PAGE);
	fixture_close(&f);
}

void cache_limit_tests(void)
{
	g_test_add_func("/cache/limit-of-unmarked", test_limit_of_unmarked);
	g_test_add_func("/cache/limit-of-sole", test_limit_of_sole);
	g_test_add_func("/cache/cache-of-retired", test_cache_of_retired);
	g_test_add_func("/cache/limit-of-blocks", test_limit_of_blocks);
	g_test_add_func("/cache/limit-of-bytes", test_limit_of_bytes);
	g_test_add_func("/cache/at-rest", test_at_rest);
	g_test_add_func("/cache/plain-loop", test_plain_loop);
	g_test_add_func("/cache/full-and-unmarked", test_full_and_unmarked);
}
