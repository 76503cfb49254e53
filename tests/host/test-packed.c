// SPDX-License-Identifier: LGPL-2.1-or-later
/* Where requests are put when the pool does not keep to pages. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "calls/pool.h"
#include "support/fixture.h"

#define PIECE ((size_t)CORE_PIECE)

static void open_packed(struct fixture *f)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED });
}

#define BLOCKS 1024

/* A device that is full of blocks, each with a letter at its ends, and the bytes of every other of them once freed. */
struct full {
	char *blocks[BLOCKS];
	size_t sizes[BLOCKS];
	int count;
	size_t freed;
};

static void fill_up(struct fixture *f, struct full *full, size_t size, size_t more)
{
	void *ptr;

	*full = (struct full){ 0 };
	while (full->count < BLOCKS) {
		full->sizes[full->count] = size + (size_t)full->count * 7919 * PIECE % (more + PIECE);
		if (vpmm_malloc(f->pool, &ptr, full->sizes[full->count], f->streams[0]))
			break;
		full->blocks[full->count] = ptr;
		full->blocks[full->count][0] = 'a';
		full->blocks[full->count][full->sizes[full->count] - 1] = 'z';
		full->count++;
	}
	for (int i = 0; i < full->count; i += 2) {
		assert_ok(vpmm_free(f->pool, full->blocks[i], f->streams[0]));
		full->freed += full->sizes[i];
	}
}

static void assert_others_intact(const struct full *full)
{
	for (int i = 1; i < full->count; i += 2) {
		g_assert_cmpint(full->blocks[i][0], ==, 'a');
		g_assert_cmpint(full->blocks[i][full->sizes[i] - 1], ==, 'z');
	}
}

/* What a full device has free in pieces comes as one block; nearly all of it where the pieces are of odd sizes. */
static void test_full_of_fragments(void)
{
	static const struct {
		size_t size;
		size_t more;
		unsigned int percent;
	} cases[] = { { 4 * PAGE, 0, 100 }, { 32 * PAGE, 0, 100 }, { 16 * PAGE, 48 * PAGE, 90 } };
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct full full;
	struct fixture f;
	void *ptr;

	g_setenv("VPMM_HOST_CAPACITY", "4G", TRUE);
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
						     .va_size = (size_t)64 << 30 });
		fill_up(&f, &full, cases[i].size, cases[i].more);
		assert_ok(vpmm_pool_query(f.pool, PAGE, f.streams[0], &forecast));
		g_assert_cmpuint(forecast.largest, >=, full.freed / 100 * cases[i].percent);
		assert_ok(vpmm_malloc(f.pool, &ptr, forecast.largest, f.streams[0]));
		memset(ptr, 'x', PAGE);
		memset((char *)ptr + forecast.largest - PAGE, 'x', PAGE);
		assert_others_intact(&full);
		fixture_close(&f);
	}
	g_unsetenv("VPMM_HOST_CAPACITY");
}

static void test_rounds_to_pieces(void)
{
	static const struct {
		size_t size;
		size_t taken;
	} cases[] = {
		{ 1, PIECE }, { PIECE, PIECE }, { PIECE + 1, 2 * PIECE }, { PAGE / 2 - 1, PAGE / 2 },
		{ PAGE - 1, PAGE }, { PAGE, PAGE }, { PAGE + 1, PAGE + PIECE },
		{ 3 * PAGE + 1000, 3 * PAGE + 2 * PIECE },
	};
	struct fixture f;
	uint64_t live = 0;

	open_packed(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		char *a = fixture_malloc_bytes(&f, cases[i].size, f.streams[0]);

		g_assert_cmpuint((uintptr_t)a % PIECE, ==, 0);
		memset(a, 1, cases[i].size);
		live += cases[i].taken;
		g_assert_cmpuint(fixture_stats(&f).live, ==, live);
		g_assert_cmpuint(fixture_stats(&f).small_live, ==, 0);
	}
	fixture_close(&f);
}

/* What a block leaves of its last page is where the next one begins: four of a page and a quarter take five pages. */
static void test_tails_are_not_lost(void)
{
	struct fixture f;
	char *blocks[4];

	open_packed(&f);
	for (int i = 0; i < 4; i++) {
		blocks[i] = fixture_malloc_bytes(&f, PAGE * 5 / 4, f.streams[0]);
		memset(blocks[i], 'a' + i, PAGE * 5 / 4);
	}
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 5 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).free, ==, 0);
	for (int i = 0; i < 4; i++) {
		g_assert_cmpint(blocks[i][0], ==, 'a' + i);
		g_assert_cmpint(blocks[i][PAGE * 5 / 4 - 1], ==, 'a' + i);
	}
	fixture_close(&f);
}

static void test_tail_serves_what_fits(void)
{
	struct fixture f;
	char *a, *b;

	open_packed(&f);
	a = fixture_malloc_bytes(&f, PAGE + PIECE, f.streams[0]);
	b = fixture_malloc_bytes(&f, PAGE - PIECE, f.streams[0]);
	g_assert_true(b == a + PAGE + PIECE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).grown, ==, 2 * PAGE);
	fixture_close(&f);
}

/* In whatever order neighbours are freed, they make one region, which serves the whole as it is. */
static void test_neighbours_merge(void)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	size_t size = 3 * PAGE + 3 * PIECE;
	struct vpmm_stats before, after;
	struct fixture f;
	char *block, *parts[3];

	open_packed(&f);
	block = fixture_malloc_bytes(&f, size, f.streams[0]);
	fixture_malloc_bytes(&f, PAGE - 3 * PIECE, f.streams[0]);
	before = fixture_stats(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(orders); i++) {
		fixture_free(&f, block, f.streams[0]);
		for (int j = 0; j < 3; j++)
			parts[j] = fixture_malloc_bytes(&f, PAGE + PIECE, f.streams[0]);
		for (int j = 0; j < 3; j++)
			fixture_free(&f, parts[orders[i][j]], f.streams[0]);
		g_assert_true(fixture_malloc_bytes(&f, size, f.streams[0]) == block);
	}
	after = fixture_stats(&f);
	g_assert_cmpuint(after.regions, ==, before.regions);
	g_assert_cmpuint(after.maps, ==, before.maps);
	g_assert_cmpuint(after.creates, ==, before.creates);
	fixture_close(&f);
}

/* The end of a region that leaves whole extents whole is better than its beginning. */
static void test_keeps_extents_whole(void)
{
	struct fixture f;
	char *block, *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = 4 * PAGE });
	block = fixture_malloc(&f, 9, f.streams[0]);
	fixture_free(&f, block, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).extents, >=, 3);
	a = fixture_malloc(&f, 1, f.streams[0]);
	g_assert_true(a == block + 8 * PAGE || a == block);
	g_assert_cmpuint(fixture_stats(&f).stuck, <=, 3 * PAGE);
	fixture_close(&f);
}

/* Of 400 pages, each an extent, every other is free. */
static void open_with_200_pages(struct fixture *f)
{
	void *ptrs[400];

	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
		ptrs[i] = fixture_malloc(f, 1, f->streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i += 2)
		fixture_free(f, ptrs[i], f->streams[0]);
}

/* What a block of so many pages is made of there: pages that were moved, and new ones. */
static void assert_made_of(size_t pages, size_t moved, size_t created)
{
	struct vpmm_stats before, stats;
	struct fixture f;

	open_with_200_pages(&f);
	before = fixture_stats(&f);
	fixture_malloc(&f, pages, f.streams[0]);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.remapped - before.remapped, ==, moved * PAGE);
	g_assert_cmpuint(stats.mapped - before.mapped, ==, created * PAGE);
	fixture_close(&f);
}

/* A pool that grows creates what is missing and no more, however many pages it has to move. */
static void test_many_donors_while_growing(void)
{
	assert_made_of(250, 200, 50);
}

/* One that has had as much before creates nothing. */
static void test_many_donors_at_rest(void)
{
	assert_made_of(200, 200, 0);
}

/* Small requests that are cached count for nothing there. */
static void test_many_donors_and_cached(void)
{
	struct vpmm_stats before, stats;
	void *small[200];
	struct fixture f;

	open_with_200_pages(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		small[i] = fixture_malloc_bytes(&f, 100 * 1024, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
		fixture_free(&f, small[i], f.streams[0]);
	before = fixture_stats(&f);
	fixture_malloc(&f, 200, f.streams[0]);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.live, ==, stats.peak_live);
	g_assert_cmpuint(stats.remapped - before.remapped, ==, 200 * PAGE);
	g_assert_cmpuint(stats.mapped, ==, before.mapped);
	fixture_close(&f);
}

/* Nor does it make a difference that with many streams not every malloc looks at the peak. */
static void test_many_donors_and_many_streams(void)
{
	enum { MANY = 20 };
	struct CUstream_st *streams[MANY];
	struct fixture f;
	void *ptrs[400];
	uint64_t mapped;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	for (size_t i = 0; i < MANY; i++) {
		assert_ok(vpmm_host_stream_create(&streams[i]));
		fixture_malloc(&f, 1, streams[i]);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
		assert_ok(vpmm_malloc(f.pool, &ptrs[i], PAGE, f.streams[0]));
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i += 2)
		assert_ok(vpmm_free(f.pool, ptrs[i], f.streams[0]));
	/* The statistics would look. */
	mapped = core_mapped(&f.pool->core);
	fixture_malloc(&f, 200, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, mapped);
	fixture_close(&f);
	for (size_t i = 0; i < MANY; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
}

/* Large extents may be many: moving them takes no longer than the memory is worth. */
static void test_many_large_donors(void)
{
	enum { MANY = 52, SIZE = 250 };
	void *ptrs[MANY];
	struct fixture f;

	/* Where walks are to be short, as under valgrind, which keeps books of all 40 GB, so is this. */
	if (g_getenv("VPMM_TEST_STEPS")) {
		g_test_skip("takes more memory than short tests are to have");
		return;
	}
	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .va_size = (size_t)16 << 30 });
	for (int i = 0; i < MANY; i++)
		ptrs[i] = fixture_malloc(&f, SIZE, f.streams[0]);
	for (int i = 0; i < MANY; i += 2)
		fixture_free(&f, ptrs[i], f.streams[0]);
	fixture_malloc(&f, MANY / 2 * SIZE + 500, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, (size_t)(MANY * SIZE + 500) * PAGE * 101 / 100);
	fixture_close(&f);
}

/* A chunk begins with a page, wherever the device reserves it, so that pages are told apart by their numbers. */
static void test_pages_of_no_power_of_two(void)
{
	enum { POOLS = 4, ODD = 3 };
	struct vpmm_opts opts = {
		.size = sizeof(opts), .backend = "host", .page_size = ODD * PAGE, .va_size = 64 * ODD * PAGE,
	};
	struct vpmm_pool *pools[POOLS];
	struct fixture f;
	void *a, *b;

	open_packed(&f);
	for (int i = 0; i < POOLS; i++) {
		assert_ok(vpmm_pool_create(&pools[i], &opts));
		assert_ok(vpmm_malloc(pools[i], &a, 2 * ODD * PAGE, f.streams[0]));
		assert_ok(vpmm_malloc(pools[i], &b, PAGE, f.streams[0]));
		g_assert_cmpuint((uintptr_t)a % (ODD * PAGE), ==, 0);
		memset(a, 'a', 2 * ODD * PAGE);
		memset(b, 'b', PAGE);
		assert_ok(vpmm_free(pools[i], a, f.streams[0]));
		assert_ok(vpmm_malloc(pools[i], &a, 5 * PAGE / 2, f.streams[0]));
		memset(a, 'c', 5 * PAGE / 2);
		g_assert_cmpint(*(char *)b, ==, 'b');
		assert_ok(vpmm_pool_check(pools[i]));
	}
	for (int i = 0; i < POOLS; i++)
		vpmm_pool_destroy(pools[i]);
	fixture_close(&f);
}

static void test_initial_pages(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 200 });
	assert_layout(&f, "[-200]");
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 200 * PAGE);
	a = fixture_malloc(&f, 200, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 200 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).grows, ==, 0);
	fixture_close(&f);
}

static void test_larger_pages(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .page_size = 4 * PAGE });
	fixture_malloc_bytes(&f, 5 * PAGE, f.streams[0]);
	fixture_malloc_bytes(&f, 3 * PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
	fixture_malloc_bytes(&f, 3 * PIECE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).spans, ==, 4 * PAGE);
	fixture_close(&f);
}

/* A page holds as many small requests as its size allows; freed in any order, it is one region again. */
static void test_span_is_filled(void)
{
	char *small[PAGE / CORE_PIECE];
	struct fixture f;

	open_packed(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++) {
		assert_ok(vpmm_malloc(f.pool, (void **)&small[i], PIECE, f.streams[0]));
		memset(small[i], (int)i, PIECE);
	}
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, PAGE);
	g_assert_cmpuint(fixture_stats(&f).spans, ==, PAGE);
	g_assert_cmpuint(fixture_stats(&f).free, ==, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(small); i++) {
		size_t j = i * 1291 % G_N_ELEMENTS(small);

		for (size_t at = 0; at < PIECE; at++)
			g_assert_cmpint(small[j][at], ==, (char)j);
		assert_ok(vpmm_free(f.pool, small[j], f.streams[0]));
	}
	assert_ok(vpmm_pool_check(f.pool));
	for (size_t i = 0; i < 64; i++)
		fixture_malloc_bytes(&f, PAGE / 64, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, PAGE);
	fixture_close(&f);
}

/* A page is no small request, and neither is a half. */
static void test_span_or_not(void)
{
	struct fixture f;

	open_packed(&f);
	fixture_malloc_bytes(&f, PAGE, f.streams[0]);
	fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).spans, ==, 0);
	fixture_malloc_bytes(&f, PIECE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).spans, >, 0);
	g_assert_cmpuint(fixture_stats(&f).spans, <=, PAGE);
	fixture_close(&f);
}

/* What stays allocated of small requests keeps no extent from moving. */
static void test_spans_do_not_pin(void)
{
	void *large[16];
	struct fixture f;

	open_packed(&f);
	for (int i = 0; i < 16; i++) {
		large[i] = fixture_malloc(&f, 4, f.streams[0]);
		fixture_malloc_bytes(&f, 1000, f.streams[0]);
	}
	for (int i = 0; i < 16; i += 2)
		fixture_free(&f, large[i], f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).stuck, ==, 0);
	fixture_malloc(&f, 32, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 65 * PAGE);
	fixture_close(&f);
}

static void test_small_by_driver(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER });
	a = fixture_malloc_bytes(&f, PAGE - 1, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, PAGE - 1);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_malloc_bytes(&f, 20 * PAGE + 1, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 20 * PAGE + PIECE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 21 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).spans, ==, 0);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, 0);
	fixture_close(&f);
}

static void test_bad_frees(void)
{
	struct fixture f;
	char *large, *small;

	open_packed(&f);
	large = fixture_malloc_bytes(&f, 2 * PAGE, f.streams[0]);
	small = fixture_malloc_bytes(&f, 3 * PIECE, f.streams[0]);
	assert_error(vpmm_free(f.pool, large + PAGE, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, small + PIECE, f.streams[0]), EINVAL, "no allocation");
	fixture_free(&f, large, f.streams[0]);
	fixture_free(&f, small, f.streams[0]);
	assert_error(vpmm_free(f.pool, large, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, small, f.streams[0]), EINVAL, "no allocation");
	fixture_close(&f);
}

/* More small memory at a time the more there is, so that few calls do; but hardly more than is live. */
static void test_spans_grow_faster(void)
{
	enum { GROWN = 2048, PART = 64 };
	struct vpmm_stats stats;
	struct fixture f;

	open_packed(&f);
	for (int i = 0; i < GROWN * PART; i++) {
		void *a;

		assert_ok(vpmm_malloc(f.pool, &a, PAGE / PART, f.streams[0]));
	}
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.live, ==, GROWN * PAGE);
	g_assert_cmpuint(stats.mapped, <=, stats.live + stats.live / 100);
	g_assert_cmpuint(stats.creates, <, GROWN / 2);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/packed/full-of-fragments", test_full_of_fragments);
	g_test_add_func("/packed/rounds-to-pieces", test_rounds_to_pieces);
	g_test_add_func("/packed/tails-are-not-lost", test_tails_are_not_lost);
	g_test_add_func("/packed/tail-serves-what-fits", test_tail_serves_what_fits);
	g_test_add_func("/packed/neighbours-merge", test_neighbours_merge);
	g_test_add_func("/packed/keeps-extents-whole", test_keeps_extents_whole);
	g_test_add_func("/packed/many-donors/while-growing", test_many_donors_while_growing);
	g_test_add_func("/packed/many-donors/at-rest", test_many_donors_at_rest);
	g_test_add_func("/packed/many-donors/and-cached", test_many_donors_and_cached);
	g_test_add_func("/packed/many-donors/and-many-streams", test_many_donors_and_many_streams);
	g_test_add_func("/packed/many-donors/and-large", test_many_large_donors);
	g_test_add_func("/packed/initial-pages", test_initial_pages);
	g_test_add_func("/packed/larger-pages", test_larger_pages);
	g_test_add_func("/packed/pages-of-no-power-of-two", test_pages_of_no_power_of_two);
	g_test_add_func("/packed/span-is-filled", test_span_is_filled);
	g_test_add_func("/packed/span-or-not", test_span_or_not);
	g_test_add_func("/packed/spans-do-not-pin", test_spans_do_not_pin);
	g_test_add_func("/packed/spans-grow-faster", test_spans_grow_faster);
	g_test_add_func("/packed/small-by-driver", test_small_by_driver);
	g_test_add_func("/packed/bad-frees", test_bad_frees);
	return g_test_run();
}
