// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a query says, a malloc right after it does. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/setting.h"

static struct vpmm_forecast query(struct fixture *f, size_t size, struct CUstream_st *stream)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };

	assert_ok(vpmm_pool_query(f->pool, size, stream, &forecast));
	assert_ok(vpmm_pool_check(f->pool));
	return forecast;
}

/* What the statistics say that a request has taken. */
static int way_taken(const struct vpmm_stats *before, const struct vpmm_stats *after)
{
	if (after->grown > before->grown)
		return VPMM_WAY_GROW;
	return after->reuses > before->reuses ? VPMM_WAY_REUSE : VPMM_WAY_HARVEST;
}

/* Asks, allocates, and compares; NULL where both say that there is nothing. */
static void *malloc_as_forecast(struct fixture *f, size_t size, struct CUstream_st *stream, bool may_wait)
{
	struct vpmm_forecast forecast = query(f, size, stream);
	struct vpmm_stats before = fixture_stats(f), after;
	void *ptr = NULL;
	int err;

	err = vpmm_malloc(f->pool, &ptr, size, stream);
	if (forecast.way == VPMM_WAY_NONE) {
		g_assert_true(err == -ENOMEM || (!err && may_wait));
		return ptr;
	}
	assert_ok(err);
	after = fixture_stats(f);
	g_assert_cmpint(forecast.way, ==, way_taken(&before, &after));
	g_assert_cmpuint(forecast.grown, ==, after.grown - before.grown);
	g_assert_cmpuint(forecast.remapped, ==, after.remapped - before.remapped);
	/* On the host, the stream's own work may have to be waited for as well. */
	g_assert_cmpuint(forecast.waits, <=, after.waits - before.waits);
	if (f->pool->core.settings.reuse == VPMM_REUSE_ASYNC)
		g_assert_cmpuint(forecast.waits, ==, after.waits - before.waits);
	return ptr;
}

static size_t random_size(GRand *rand, bool paged)
{
	if (paged)
		return (size_t)g_rand_int_range(rand, 1, 9) * PAGE;
	switch (g_rand_int_range(rand, 0, 3)) {
	case 0:
		return (size_t)g_rand_int_range(rand, 1, 100000);
	case 1:
		return (size_t)g_rand_int_range(rand, 1, 8 << 20);
	default:
		return (size_t)g_rand_int_range(rand, 1, 20) << 20;
	}
}

static uint64_t calls_of(const struct vpmm_stats *stats)
{
	return stats->creates + stats->maps + stats->accesses;
}

/* The last page of new memory, which the next block shares, is an extent of its own, and takes calls of its own. */
static void test_last_page(void)
{
	struct vpmm_stats before, after;
	struct vpmm_forecast forecast;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t pages = 16; pages <= 80; pages++) {
		forecast = query(&f, pages * PAGE - 512, f.streams[0]);
		before = fixture_stats(&f);
		fixture_malloc_bytes(&f, pages * PAGE - 512, f.streams[0]);
		after = fixture_stats(&f);
		g_assert_cmpuint(forecast.calls, ==, calls_of(&after) - calls_of(&before));
	}
	fixture_close(&f);
}

/* Does what can be done of a stream's work. */
static void complete_some(struct CUstream_st *stream)
{
	int err = vpmm_host_stream_complete(stream, UINT_MAX);

	g_assert_true(!err || err == -EBUSY);
}

/* Does all work; of streams that wait for one another, one after another. */
static void complete_all(struct fixture *f)
{
	for (int round = 0; round < STREAMS; round++) {
		for (int i = 0; i < STREAMS; i++)
			complete_some(f->streams[i]);
	}
}

/* A program of so many streams that allocates and frees at random, work pending or not. */
static void each_as_forecast(struct vpmm_opts opts, int streams, bool scarce, uint32_t seed)
{
	GRand *rand = g_rand_new_with_seed(seed);
	bool paged = opts.small == VPMM_SMALL_DRIVER;
	struct { void *ptr; int stream; } held[24] = { 0 };
	int done = 0, failed = 0;
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", scarce ? "60M" : "80G", TRUE);
	fixture_open(&f, opts);
	for (int step = 0; step < 1500; step++) {
		int i = g_rand_int_range(rand, 0, G_N_ELEMENTS(held));
		int s = g_rand_int_range(rand, 0, streams);

		if (streams > 1 && !g_rand_int_range(rand, 0, 4))
			assert_ok(vpmm_host_stream_submit(f.streams[s]));
		/* A wait of the host comes to an end only where nothing is held up. */
		if (scarce)
			complete_all(&f);
		else if (!g_rand_int_range(rand, 0, 3))
			complete_some(f.streams[s]);
		if (held[i].ptr) {
			fixture_free(&f, held[i].ptr, f.streams[held[i].stream]);
			held[i].ptr = NULL;
			continue;
		}
		held[i].ptr = malloc_as_forecast(&f, random_size(rand, paged), f.streams[s], streams > 1);
		held[i].stream = s;
		done += !!held[i].ptr;
		failed += !held[i].ptr;
	}
	g_assert_cmpint(done, >, 300);
	g_assert_true(failed > 10 || !scarce);
	complete_all(&f);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
	g_rand_free(rand);
}

static void test_packed(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 4); seed++)
		each_as_forecast((struct vpmm_opts){ FIXTURE_PACKED }, 1, false, seed);
}

static void test_packed_streams(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 4); seed++)
		each_as_forecast((struct vpmm_opts){ FIXTURE_PACKED }, STREAMS, false, seed);
}

static void test_packed_short(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 12); seed++)
		each_as_forecast((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = 4 * PAGE }, 1, true, seed);
}

static void test_packed_streams_short(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 8); seed++)
		each_as_forecast((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = 4 * PAGE }, STREAMS, true, seed);
}

static void test_blocking(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 2); seed++) {
		each_as_forecast((struct vpmm_opts){ FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, STREAMS, false, seed);
		each_as_forecast((struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, STREAMS, false, seed);
	}
}

static void test_paged(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 4); seed++)
		each_as_forecast((struct vpmm_opts){ FIXTURE_OPTS }, 1, false, seed);
}

static void test_paged_streams(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 4); seed++)
		each_as_forecast((struct vpmm_opts){ FIXTURE_OPTS }, STREAMS, false, seed);
}

static void test_paged_short(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 4); seed++)
		each_as_forecast((struct vpmm_opts){ FIXTURE_OPTS }, STREAMS, true, seed);
}

/* What is said of a size is so, whether it succeeds or fails. Returns whether it succeeds. */
static bool is_as_said(struct fixture *f, size_t size)
{
	bool served = query(f, size, f->streams[0]).way != VPMM_WAY_NONE;
	void *ptr = NULL;

	if (!served) {
		assert_error(vpmm_malloc(f->pool, &ptr, size, f->streams[0]), ENOMEM, "had is");
		return false;
	}
	ptr = fixture_malloc_bytes(f, size, f->streams[0]);
	memset(ptr, 1, size);
	fixture_free(f, ptr, f->streams[0]);
	return true;
}

/*
 * Fragments are left at random; then what is said to be the largest succeeds. More may succeed once old mappings are
 * unmapped, but not as much as an extent more, and a query of that size says whether it does.
 */
static void largest_succeeds(struct vpmm_opts opts, uint32_t seed)
{
	GRand *rand = g_rand_new_with_seed(seed);
	bool paged = opts.small == VPMM_SMALL_DRIVER;
	struct vpmm_forecast forecast;
	void *held[24] = { NULL };
	struct fixture f;
	size_t extent;

	g_setenv("VPMM_HOST_CAPACITY", "100M", TRUE);
	fixture_open(&f, opts);
	for (int step = 0; step < 300; step++) {
		int i = g_rand_int_range(rand, 0, G_N_ELEMENTS(held));

		if (held[i])
			fixture_free(&f, held[i], f.streams[0]);
		held[i] = NULL;
		if (!g_rand_int_range(rand, 0, 3))
			continue;
		if (vpmm_malloc(f.pool, &held[i], random_size(rand, paged), f.streams[0]))
			held[i] = NULL;
	}
	for (int i = 0; i < 24; i += 3) {
		if (held[i])
			fixture_free(&f, held[i], f.streams[0]);
	}
	forecast = query(&f, PAGE, f.streams[0]);
	g_assert_cmpuint(forecast.largest, >, 0);
	extent = f.pool->core.settings.extent_max;
	for (int i = 4; i > 0; i--)
		is_as_said(&f, forecast.largest + (size_t)i * PAGE / 4);
	g_assert_false(is_as_said(&f, forecast.largest + MIN(extent, 16 * PAGE)));
	g_assert_true(is_as_said(&f, forecast.largest));
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
	g_rand_free(rand);
}

static void test_largest(void)
{
	for (uint32_t seed = 1; seed <= setting_at_most("VPMM_TEST_SEEDS", 12); seed++) {
		largest_succeeds((struct vpmm_opts){ FIXTURE_PACKED }, seed);
		largest_succeeds((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = 2 * PAGE }, seed);
		largest_succeeds((struct vpmm_opts){ FIXTURE_OPTS }, seed);
	}
}

/* The limit counts as the device's memory does. */
static void test_largest_within_limit(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .limit = 7 * PAGE + 5 });
	fixture_malloc(&f, 2, f.streams[0]);
	g_assert_cmpuint(query(&f, PAGE, f.streams[0]).largest, ==, 5 * PAGE);
	g_assert_cmpint(query(&f, 6 * PAGE, f.streams[0]).way, ==, VPMM_WAY_NONE);
	fixture_malloc(&f, 5, f.streams[0]);
	g_assert_cmpuint(query(&f, PAGE, f.streams[0]).largest, ==, 5);
	g_assert_cmpint(query(&f, 5, f.streams[0]).way, ==, VPMM_WAY_GROW);
	g_assert_cmpint(query(&f, 6, f.streams[0]).way, ==, VPMM_WAY_NONE);
	fixture_close(&f);
}

/* Small requests that are cached do not keep their pages from a large one, nor from the answer. */
static void test_cached_small(void)
{
	struct fixture f;
	void *small[200], *block = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 32 * PAGE });
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		small[i] = fixture_malloc_bytes(&f, 100 * 1024, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		fixture_free(&f, small[i], f.streams[0]);
	/* The largest request does not depend on the size asked for. */
	g_assert_cmpuint(query(&f, 0, f.streams[0]).largest, ==, 32 * PAGE);
	g_assert_cmpuint(query(&f, PAGE, f.streams[0]).largest, ==, 32 * PAGE);
	g_assert_cmpuint(query(&f, PAGE, f.streams[1]).largest, ==, 32 * PAGE);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		small[i] = fixture_malloc_bytes(&f, 100 * 1024, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		fixture_free(&f, small[i], f.streams[0]);
	g_assert_cmpint(query(&f, 30 * PAGE, f.streams[0]).way, ==, VPMM_WAY_GROW);
	assert_ok(vpmm_malloc(f.pool, &block, 30 * PAGE, f.streams[0]));
	fixture_close(&f);
}

/* One that has what large requests have leaves the cache for a large one. */
static void test_cached_small_in_page(void)
{
	struct fixture f;
	void *page, *small;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 2 * PAGE });
	fixture_malloc(&f, 1, f.streams[0]);
	page = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, page, f.streams[0]);
	small = fixture_malloc_bytes(&f, 100 * 1024, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).spans, ==, 0);
	fixture_free(&f, small, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == page);
	g_assert_cmpuint(fixture_stats(&f).releases, ==, 0);
	fixture_close(&f);
}

/* Events that are recorded while a stream allocates and frees a small block again and again. */
static uint64_t records_of_pairs(struct fixture *f, struct CUstream_st *stream)
{
	struct backend *be = f->pool->core.backend;
	uint64_t before = backend_fault_calls(be, BACKEND_OP_event_record);

	for (int i = 0; i < 100; i++)
		fixture_free(f, fixture_malloc_bytes(f, 1000, stream), stream);
	return backend_fault_calls(be, BACKEND_OP_event_record) - before;
}

/* A question about one stream costs another nothing: it takes no more events than before. */
static void test_no_events_for_others(void)
{
	static const size_t sizes[] = { 1000, PAGE, 5 * PAGE };
	uint64_t before;
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 2; i++) {
		records_of_pairs(&f, f.streams[0]);
		records_of_pairs(&f, f.streams[1]);
	}
	before = records_of_pairs(&f, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		query(&f, sizes[i], f.streams[1]);
		g_assert_cmpuint(records_of_pairs(&f, f.streams[0]), ==, before);
	}
	fixture_close(&f);
}

static gpointer ask(gpointer data)
{
	struct fixture *f = data;

	query(f, PAGE, f->streams[0]);
	return NULL;
}

/* A thread that asks does not allocate, and is no reason to leave each thread some of what is free. */
static void test_asking_is_not_allocating(void)
{
	struct fixture f;
	uint64_t crowded;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[1]);
	crowded = f.pool->packed.crowded;
	g_thread_join(g_thread_new("asks", ask, &f));
	g_assert_cmpuint(f.pool->packed.crowded, ==, crowded);
	fixture_close(&f);
}

/* Where everything is the driver's, so is the answer; and no bytes are always there. */
static void test_edges(void)
{
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .page_size = SIZE_MAX });
	g_assert_cmpuint(query(&f, 1, f.streams[0]).largest, ==, 8 * PAGE);
	g_assert_cmpint(query(&f, 0, f.streams[0]).way, ==, VPMM_WAY_REUSE);
	g_assert_cmpint(query(&f, SIZE_MAX, f.streams[0]).way, ==, VPMM_WAY_NONE);
	fixture_close(&f);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	g_assert_cmpint(query(&f, SIZE_MAX, f.streams[0]).way, ==, VPMM_WAY_NONE);
	g_assert_cmpuint(query(&f, SIZE_MAX, f.streams[0]).largest, ==, 8 * PAGE);
	fixture_malloc(&f, 8, f.streams[0]);
	g_assert_cmpuint(query(&f, 1, f.streams[0]).largest, ==, 0);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/query/packed", test_packed);
	g_test_add_func("/query/packed-streams", test_packed_streams);
	g_test_add_func("/query/packed-short", test_packed_short);
	g_test_add_func("/query/packed-streams-short", test_packed_streams_short);
	g_test_add_func("/query/blocking", test_blocking);
	g_test_add_func("/query/paged", test_paged);
	g_test_add_func("/query/paged-streams", test_paged_streams);
	g_test_add_func("/query/paged-short", test_paged_short);
	g_test_add_func("/query/last-page", test_last_page);
	g_test_add_func("/query/largest", test_largest);
	g_test_add_func("/query/largest-within-limit", test_largest_within_limit);
	g_test_add_func("/query/cached-small", test_cached_small);
	g_test_add_func("/query/cached-small-in-page", test_cached_small_in_page);
	g_test_add_func("/query/no-events-for-others", test_no_events_for_others);
	g_test_add_func("/query/asking-is-not-allocating", test_asking_is_not_allocating);
	g_test_add_func("/query/edges", test_edges);
	return g_test_run();
}
