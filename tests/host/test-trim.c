// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a pool gives back to the device, when it is asked to and by itself. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "core/cache.h"
#include "policy/trim.h"
#include "support/fault.h"
#include "support/fixture.h"

static size_t trim(struct fixture *f, size_t keep)
{
	size_t released = SIZE_MAX;

	assert_ok(vpmm_pool_trim(f->pool, keep, &released));
	assert_ok(vpmm_pool_check(f->pool));
	return released;
}

/* Blocks of a page each in extents of a page, of which every other one is free, and nothing is cached. */
static void open_comb(struct fixture *f, struct vpmm_opts opts, void *blocks[16])
{
	fixture_open_faulty(f, opts);
	fixture_uncache(f);
	for (int i = 0; i < 16; i++)
		blocks[i] = memset(fixture_malloc(f, 1, f->streams[0]), i, PAGE);
	for (int i = 0; i < 16; i += 2)
		fixture_free(f, blocks[i], f->streams[0]);
}

#define COMBS { { FIXTURE_PACKED, .extent_max = PAGE }, { FIXTURE_OPTS } }

static void assert_teeth(void *blocks[16])
{
	for (int i = 1; i < 16; i += 2) {
		const char *bytes = blocks[i];

		g_assert_cmpint(bytes[0], ==, i);
		g_assert_cmpint(bytes[PAGE - 1], ==, i);
	}
}

/* All that is free goes, what is allocated stays as it is, and what is wanted next is created. */
static void test_all(void)
{
	const struct vpmm_opts opts[] = COMBS;
	struct vpmm_stats stats;
	void *blocks[16];
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		open_comb(&f, opts[i], blocks);
		g_assert_cmpuint(trim(&f, 0), ==, 8 * PAGE);
		stats = fixture_stats(&f);
		g_assert_cmpuint(stats.mapped, ==, 8 * PAGE);
		g_assert_cmpuint(stats.free, ==, 0);
		g_assert_cmpuint(stats.given_back, ==, 8 * PAGE);
		g_assert_cmpuint(stats.mappings, ==, stats.extents);
		assert_teeth(blocks);
		memset(fixture_malloc(&f, 5, f.streams[0]), 1, 5 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 13 * PAGE);
		assert_teeth(blocks);
		fixture_close(&f);
	}
}

/* The pool holds on to as much as it is told, allocated or not. */
static void test_keep(void)
{
	const struct vpmm_opts opts[] = COMBS;
	void *blocks[16];
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		open_comb(&f, opts[i], blocks);
		g_assert_cmpuint(trim(&f, 17 * PAGE), ==, 0);
		g_assert_cmpuint(trim(&f, 13 * PAGE - 1), ==, 3 * PAGE);
		g_assert_cmpuint(trim(&f, 11 * PAGE), ==, 2 * PAGE);
		assert_ok(vpmm_pool_trim(f.pool, 3 * PAGE, NULL));
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
		fixture_close(&f);
	}
}

/* What is free only after work that is pending stays until that is done. */
static void test_pending(void)
{
	const struct vpmm_opts opts[] = COMBS;
	void *blocks[16];
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		open_comb(&f, opts[i], blocks);
		assert_ok(vpmm_host_stream_submit(f.streams[0]));
		fixture_free(&f, blocks[1], f.streams[0]);
		fixture_free(&f, blocks[5], f.streams[0]);
		g_assert_cmpuint(trim(&f, 0), <=, 8 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).free, >=, 2 * PAGE);
		fixture_complete(f.streams[0]);
		trim(&f, 0);
		g_assert_cmpuint(fixture_stats(&f).free, ==, 0);
		fixture_close(&f);
	}
}

/* An extent of which something is allocated stays, whole. */
static void test_partly_allocated(void)
{
	struct fixture f;
	void *a, *b;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 1024 });
	fixture_uncache(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	b = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(trim(&f, 0), ==, 1016 * PAGE);
	fixture_free(&f, b, f.streams[0]);
	g_assert_cmpuint(trim(&f, 0), ==, 8 * PAGE);
	fixture_close(&f);
}

/* The largest number there is keeps everything, also what is kept for small requests. */
static void test_keep_all(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_free(&f, fixture_malloc_bytes(&f, 1000, f.streams[0]), f.streams[0]);
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
	g_assert_cmpuint(trim(&f, SIZE_MAX), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
	fixture_close(&f);
}

/* What the driver's allocator keeps of small requests goes too, as far as it is free, and counts for what is kept. */
static void test_small_by_driver(void)
{
	const size_t segment = (size_t)32 << 20;
	struct fixture f;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	a = fixture_malloc_bytes(&f, 1024, f.streams[0]);
	b = fixture_malloc(&f, 4, f.streams[0]);
	g_assert_cmpuint(trim(&f, 0), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).small_mapped, ==, segment);
	fixture_free_at_work(&f, a, f.streams[0]);
	g_assert_cmpuint(trim(&f, 0), ==, 0);
	fixture_complete(f.streams[0]);
	g_assert_cmpuint(trim(&f, segment + 4 * PAGE), ==, 0);
	g_assert_cmpuint(trim(&f, 4 * PAGE), ==, segment);
	g_assert_cmpuint(fixture_stats(&f).small_mapped, ==, 0);
	a = fixture_malloc_bytes(&f, 1024, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	g_assert_cmpuint(trim(&f, 0), ==, segment + 4 * PAGE);
	fixture_close(&f);
}

/* What the driver's allocator keeps serves a large request, once pending work is done; a query tells as much before. */
static void test_small_by_driver_with_device_full(void)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER }, { FIXTURE_OPTS } };
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct fixture f;
	void *small;

	g_setenv("VPMM_HOST_CAPACITY", "40M", TRUE);
	for (size_t i = 0; i < 2 * G_N_ELEMENTS(opts); i++) {
		bool pending = i % 2;

		fixture_open(&f, opts[i / 2]);
		small = fixture_malloc_bytes(&f, 1024, f.streams[1]);
		if (pending)
			assert_ok(vpmm_host_stream_submit(f.streams[1]));
		fixture_free(&f, small, f.streams[1]);
		assert_ok(vpmm_pool_query(f.pool, 20 * PAGE, f.streams[0], &forecast));
		g_assert_cmpint(forecast.way, ==, pending ? VPMM_WAY_NONE : VPMM_WAY_GROW);
		memset(fixture_malloc(&f, 20, f.streams[0]), 1, 20 * PAGE);
		fixture_close(&f);
	}
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What it has allocated stays, no request waits for that in vain, and the sentence tells what it holds. */
static void test_small_by_driver_in_use(void)
{
	void *small, *freed, *none = NULL;
	unsigned int pending = 0;
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "40M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	small = fixture_malloc_bytes(&f, 1024, f.streams[0]);
	freed = fixture_malloc_bytes(&f, 1024, f.streams[0]);
	fixture_free(&f, freed, f.streams[0]);
	for (int i = 0; i < 2; i++)
		assert_error(vpmm_malloc(f.pool, &none, 5 * PAGE, f.streams[0]), ENOMEM,
			     "; the driver's allocator holds 32 MiB for requests below a page, of which 1024 bytes are "
			     "live; others hold 0 MiB of ");
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_error(vpmm_malloc(f.pool, &none, 5 * PAGE, f.streams[0]), ENOMEM, "device memory");
	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 1);
	fixture_free(&f, small, f.streams[0]);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* Memory that has moved goes from all its places, and what was decided with them is decided anew. */
static void test_moved(void)
{
	void *blocks[16], *large, *again;
	struct fixture f;

	open_comb(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, blocks);
	for (int i = 0; i < 3; i++) {
		large = memset(fixture_malloc(&f, 8, f.streams[0]), 1, 8 * PAGE);
		fixture_free(&f, large, f.streams[0]);
		blocks[0] = fixture_malloc(&f, 1, f.streams[0]);
		fixture_free(&f, blocks[0], f.streams[0]);
	}
	g_assert_cmpuint(fixture_stats(&f).zombies, >, 0);
	g_assert_cmpuint(trim(&f, 0), ==, 8 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).zombies, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mappings, ==, 8);
	again = memset(fixture_malloc(&f, 8, f.streams[0]), 2, 8 * PAGE);
	fixture_free(&f, again, f.streams[0]);
	memset(fixture_malloc(&f, 1, f.streams[0]), 3, PAGE);
	assert_teeth(blocks);
	fixture_close(&f);
}

/* Pages of small requests go, too. */
static void test_small_requests(void)
{
	void *small[64], *large;
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(&f);
	large = fixture_malloc_bytes(&f, 3 * PAGE + 512, f.streams[0]);
	for (int i = 0; i < 64; i++)
		small[i] = fixture_malloc_bytes(&f, 100000, f.streams[i % 2]);
	g_assert_cmpuint(fixture_stats(&f).spans, >, 0);
	fixture_free(&f, large, f.streams[0]);
	for (int i = 0; i < 64; i++)
		fixture_free(&f, small[i], f.streams[i % 2]);
	trim(&f, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).spans, ==, 0);
	fixture_close(&f);
}

/* What a stream has cached goes where an event stands for it; the little that has none stays. */
static void test_cached(void)
{
	struct fixture f;
	void *a, *b;

	g_setenv("VPMM_HOST_CAPACITY", "80G", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 32, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	fixture_free(&f, a, f.streams[0]);
	/* After somebody was short of memory, so many frees have an event. */
	for (int i = 0; i < CACHE_NERVOUS; i++) {
		fixture_free(&f, b, f.streams[1]);
		b = fixture_malloc(&f, 1, f.streams[1]);
	}
	fixture_free(&f, b, f.streams[1]);
	g_assert_cmpuint(trim(&f, 0), ==, 32 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, PAGE);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* Each call of the driver fails in turn: the error is told, what went is gone, and the rest goes at the next try. */
static void fail_each(struct vpmm_opts opts, enum backend_op op, int least)
{
	struct backend_left left;
	void *blocks[16], *large;
	struct fixture f;
	int err = -EIO, calls;

	for (calls = -1; err; calls++) {
		open_comb(&f, opts, blocks);
		large = fixture_malloc(&f, 7, f.streams[0]);
		fixture_free(&f, large, f.streams[0]);
		backend_fault_arm(f.pool->core.backend, op, (unsigned int)calls + 1, 1, -EIO);
		err = vpmm_pool_trim(f.pool, 0, NULL);
		g_assert_true(!err || err == -EIO);
		backend_fault_arm(f.pool->core.backend, op, 0, 0, 0);
		assert_ok(vpmm_pool_check(f.pool));
		assert_teeth(blocks);
		trim(&f, 0);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).given_back, ==, 8 * PAGE);
		/* A handle that was not released is, before another is created. */
		fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
		backend_fault_left(f.pool->core.backend, &left);
		g_assert_cmpuint(left.handles, ==, 9);
		fixture_close(&f);
	}
	g_assert_cmpint(calls, >=, least);
}

static void test_faults(void)
{
	const struct vpmm_opts opts[] = COMBS;

	fail_each(opts[0], BACKEND_OP_unmap, 14);
	fail_each(opts[0], BACKEND_OP_release, 8);
	fail_each(opts[1], BACKEND_OP_unmap, 8);
	fail_each(opts[1], BACKEND_OP_release, 8);
	fail_each(opts[1], BACKEND_OP_event_query, 1);
	fail_each(opts[1], BACKEND_OP_enter, 1);
}

/* Beyond the threshold, what is free goes by itself, in portions, and never what the pool is to keep. */
static void test_threshold(void)
{
	struct fixture f;
	uint64_t before;
	void *large;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .keep = 10 * PAGE });
	large = fixture_malloc(&f, 40, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 40 * PAGE);
	fixture_free(&f, large, f.streams[0]);
	for (int i = 0; i < 10; i++) {
		before = fixture_stats(&f).mapped;
		fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
		g_assert_cmpuint(before - fixture_stats(&f).mapped, <=, 2 * TRIM_EXTENTS * PAGE);
	}
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 10 * PAGE);
	fixture_close(&f);
}

/* What is kept is of a pool and its arenas together. */
static void test_threshold_of_arenas(void)
{
	static const char *const names[] = { NULL, "a", "b", NULL };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .keep = 10 * PAGE });
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		vpmm_tag tag = 0;

		if (names[i])
			assert_ok(vpmm_tag_open(names[i], VPMM_TAG_PAUSABLE, &tag));
		vpmm_tag_set(tag);
		for (size_t pages = 1; pages < 30; pages++)
			fixture_free(&f, fixture_malloc(&f, pages % 9 + 1, f.streams[0]), f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).mapped, <=, 10 * PAGE);
		assert_ok(vpmm_pool_check(f.pool));
	}
	vpmm_tag_set(0);
	g_assert_cmpuint(fixture_stats(&f).mapped, >, 0);
	fixture_close(&f);
}

/* With nothing to keep, a pool holds what is allocated. */
static void test_keep_nothing(void)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED, .extent_max = PAGE, .keep = 1 },
					  { FIXTURE_OPTS, .keep = 1 } };
	struct fixture f;
	void *a, *b;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		fixture_open_faulty(&f, opts[i]);
		a = fixture_malloc(&f, 3, f.streams[0]);
		b = fixture_malloc(&f, 2, f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 5 * PAGE);
		fixture_free(&f, a, f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
		fixture_free(&f, b, f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
		fixture_close(&f);
	}
}

/* Memory that is free goes by itself, however much other memory a stalled stream has freed before. */
static void test_keep_nothing_behind_pending(void)
{
	const struct vpmm_opts opts[] = COMBS;
	void *stalled[4 * TRIM_LOOKS], *done[16];
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		struct vpmm_opts keep = opts[i];

		keep.keep = 1;
		fixture_open_faulty(&f, keep);
		for (size_t j = 0; j < G_N_ELEMENTS(stalled); j++)
			stalled[j] = fixture_malloc(&f, 1, f.streams[0]);
		for (size_t j = 0; j < G_N_ELEMENTS(done); j++)
			done[j] = fixture_malloc(&f, 1, f.streams[1]);
		assert_ok(vpmm_host_stream_submit(f.streams[0]));
		for (size_t j = 0; j < G_N_ELEMENTS(stalled); j += 2)
			fixture_free(&f, stalled[j], f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).given_back, ==, 0);
		for (size_t j = 0; j < G_N_ELEMENTS(done); j++)
			fixture_free(&f, done[j], f.streams[1]);
		g_assert_cmpuint(fixture_stats(&f).given_back, >=, 8 * PAGE);
		fixture_close(&f);
	}
}

/* A stream keeps no more than its share of the threshold for itself. */
static void test_share_of_caches(void)
{
	struct fixture f;
	void *blocks[8];

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .keep = 48 * PAGE });
	for (int i = 0; i < 8; i++)
		blocks[i] = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < 8; i++)
		fixture_free(&f, blocks[i], f.streams[0]);
	for (int i = 0; i < 8; i++) {
		const struct region *region = region_find_malloc(&f.pool->core.regions, (uintptr_t)blocks[i]);

		g_assert_cmpint(region && cache_holds(region), ==, i < 3);
	}
	fixture_close(&f);
}

/* Pairs of calls that the cache of a stream serves, but for few. Returns what the pool holds then. */
static uint64_t live_from_cache(struct fixture *f, struct CUstream_st *stream, unsigned int pairs)
{
	uint64_t slow = f->pool->core.central;
	void *small;

	for (unsigned int i = 0; i < pairs; i++) {
		assert_ok(vpmm_malloc(f->pool, &small, 512, stream));
		assert_ok(vpmm_free(f->pool, small, stream));
	}
	g_assert_cmpuint(f->pool->core.central - slow, <=, pairs / 4);
	return fixture_stats(f).mapped;
}

static void free_all_behind_work(struct fixture *f, unsigned int pages, struct CUstream_st *stream)
{
	void *blocks[64];

	g_assert_cmpuint(pages, <=, G_N_ELEMENTS(blocks));
	for (unsigned int i = 0; i < pages; i++)
		blocks[i] = fixture_malloc(f, 1, stream);
	assert_ok(vpmm_host_stream_submit(stream));
	for (unsigned int i = 0; i < pages; i++)
		fixture_free(f, blocks[i], stream);
}

/*
 * A program that lives from its caches gives back what it holds beyond the threshold, within so many calls of any
 * stream once the work is complete; also the second time, and on a stream that is new by then. The slab stays.
 */
static void test_threshold_from_cache(void)
{
	enum { ROUNDS = 2, ENOUGH = 2 * CACHE_WATCH };
	const uint64_t keep = 4 * PAGE;

	for (int i = 0; i < 3; i++) {
		struct CUstream_st *owner, *user;
		struct fixture f;

		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .keep = keep });
		owner = i == 1 ? f.streams[0] : NULL;
		user = i == 2 ? f.streams[1] : owner;
		for (int round = 0; round < ROUNDS; round++) {
			live_from_cache(&f, user, 100);
			free_all_behind_work(&f, 64, owner);
			g_assert_cmpuint(live_from_cache(&f, user, ENOUGH), >=, 64 * PAGE);
			if (i == 2)
				live_from_cache(&f, f.streams[2 + round], 100);
			fixture_complete(owner);
			g_assert_cmpuint(live_from_cache(&f, i == 2 ? f.streams[2 + round] : user, ENOUGH), <=, keep);
		}
		assert_ok(vpmm_pool_check(f.pool));
		fixture_close(&f);
	}
}

/* What is allocated is beyond the threshold: the cache serves the program all the same. */
static void test_threshold_below_live(void)
{
	uint64_t slow, pairs = 16 * CACHE_WATCH;
	struct fixture f;
	void *large;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .keep = 4 * PAGE });
	large = fixture_malloc(&f, 16, f.streams[0]);
	live_from_cache(&f, f.streams[0], 100);
	slow = f.pool->core.central;
	live_from_cache(&f, f.streams[0], pairs);
	g_assert_cmpuint(f.pool->core.central - slow, <=, pairs / 256);
	fixture_free(&f, large, f.streams[0]);
	fixture_close(&f);
}

/* That it fails by itself is nobody's error, and is tried again. */
static void test_threshold_fails(void)
{
	struct fixture f;
	void *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .keep = 1 });
	a = fixture_malloc(&f, 3, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_unmap, 0, 1, -EIO);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 3 * PAGE);
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/trim/small-by-driver", test_small_by_driver);
	g_test_add_func("/trim/small-by-driver-with-device-full", test_small_by_driver_with_device_full);
	g_test_add_func("/trim/small-by-driver-in-use", test_small_by_driver_in_use);
	g_test_add_func("/trim/all", test_all);
	g_test_add_func("/trim/keep", test_keep);
	g_test_add_func("/trim/pending", test_pending);
	g_test_add_func("/trim/partly-allocated", test_partly_allocated);
	g_test_add_func("/trim/keep-all", test_keep_all);
	g_test_add_func("/trim/moved", test_moved);
	g_test_add_func("/trim/small-requests", test_small_requests);
	g_test_add_func("/trim/cached", test_cached);
	g_test_add_func("/trim/faults", test_faults);
	g_test_add_func("/trim/threshold", test_threshold);
	g_test_add_func("/trim/threshold-of-arenas", test_threshold_of_arenas);
	g_test_add_func("/trim/threshold-from-cache", test_threshold_from_cache);
	g_test_add_func("/trim/threshold-below-live", test_threshold_below_live);
	g_test_add_func("/trim/threshold-fails", test_threshold_fails);
	g_test_add_func("/trim/keep-nothing", test_keep_nothing);
	g_test_add_func("/trim/keep-nothing-behind-pending", test_keep_nothing_behind_pending);
	g_test_add_func("/trim/share-of-caches", test_share_of_caches);
	return g_test_run();
}
