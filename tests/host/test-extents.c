// SPDX-License-Identifier: LGPL-2.1-or-later
/* What memory is created in: how large extents are, and how many. */
#include <stdlib.h>

/* As in builds for finding faults. */
#define ASSUME_TESTED 1

#include "calls/pool.h"
#include "policy/gather.h"
#include "policy/tuning.h"
#include "support/fixture.h"

static void each_extent_is_no_larger(struct fixture *f, size_t most)
{
	for (GList *link = f->pool->core.extents.all.head; link; link = link->next) {
		struct extent *extent = link->data;

		g_assert_cmpuint(extent->size, <=, most);
		g_assert_cmpuint(extent->size % PAGE, ==, 0);
	}
}

static void test_few_creates_for_much(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .va_size = (size_t)16 << 30 });
	fixture_malloc_bytes(&f, (size_t)8 << 30, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).creates, <=, 256);
	g_assert_cmpuint(fixture_stats(&f).maps, ==, fixture_stats(&f).creates);
	g_assert_cmpuint(fixture_stats(&f).accesses, ==, 1);
	each_extent_is_no_larger(&f, (size_t)1 << 30);
	fixture_close(&f);
}

/* Pages that are free in the middle: nothing as large as a page can use that. */
static void make_gaps(struct fixture *f, void *(*pages)[4], size_t count)
{
	for (size_t i = 0; i < 4 * count; i++)
		pages[i / 4][i % 4] = fixture_malloc_bytes(f, PAGE / 4, f->streams[0]);
	for (size_t i = 0; i < count; i++) {
		fixture_free(f, pages[i][1], f->streams[0]);
		fixture_free(f, pages[i][2], f->streams[0]);
	}
}

/* How many extents a block of so many pages is created in. */
static uint64_t extents_of_block(struct fixture *f, size_t pages)
{
	uint64_t before = fixture_stats(f).creates;

	fixture_malloc(f, pages, f->streams[0]);
	return fixture_stats(f).creates - before;
}

/* Pages of a pool that has gaps, how many, and of the block that it creates then. */
#define POOL 1200
#define GAPS 120
#define BLOCK 100

static void open_large(struct fixture *f, int overhead)
{
	fixture_open(f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					    .va_size = (size_t)64 << 30, .overhead = overhead });
}

/* The extents of a block in a pool that has so many gaps of half a page. */
static uint64_t extents_with(int overhead, size_t count)
{
	void *gaps[GAPS][4];
	struct fixture f;
	uint64_t made;

	open_large(&f, overhead);
	fixture_malloc(&f, POOL, f.streams[0]);
	make_gaps(&f, gaps, count);
	made = extents_of_block(&f, BLOCK);
	fixture_close(&f);
	return made;
}

/* A pool that is new creates a large block in a few extents, so that no call takes long. */
static void test_start(void)
{
	for (size_t pages = 64; pages <= 512; pages *= 2) {
		struct fixture f;
		uint64_t made;

		open_large(&f, 1);
		made = extents_of_block(&f, pages);
		g_assert_cmpuint(made, >, 1);
		g_assert_cmpuint(made, <=, tuning_call_extents + 1);
		fixture_close(&f);
	}
}

/* The more gaps there are, the smaller are the extents, so that a gap keeps little of one from moving. */
static void test_gaps(void)
{
	uint64_t last = 0;

	for (size_t gaps = 0; gaps <= GAPS; gaps += GAPS / 4) {
		uint64_t made = extents_with(1, gaps);

		g_assert_cmpuint(made, >=, last);
		last = made;
	}
	g_assert_cmpuint(last, >, extents_with(1, 0));
}

/* Who allows more overhead has larger extents beside the same gaps. */
static void test_overhead(void)
{
	uint64_t last = UINT64_MAX;

	for (int overhead = 1; overhead <= 10; overhead += 3) {
		uint64_t made = extents_with(overhead, GAPS);

		g_assert_cmpuint(made, <=, last);
		last = made;
	}
	g_assert_cmpuint(last, <, extents_with(1, GAPS));
}

/* A pool that has had gaps, and what it created a block in then. */
static uint64_t open_with_gaps(struct fixture *f, void *(*gaps)[4])
{
	open_large(f, 1);
	fixture_malloc(f, POOL, f->streams[0]);
	make_gaps(f, gaps, GAPS);
	return extents_of_block(f, BLOCK);
}

static void close_gaps(struct fixture *f, void *(*gaps)[4])
{
	for (size_t i = 0; i < GAPS; i++) {
		fixture_free(f, gaps[i][0], f->streams[0]);
		fixture_free(f, gaps[i][3], f->streams[0]);
	}
}

/* What a program has cut its memory into once it is taken to do again, also after a trim that gives nothing back. */
static void test_gaps_are_remembered(const void *trims)
{
	void *gaps[GAPS][4];
	struct fixture f;
	uint64_t made = open_with_gaps(&f, gaps);

	close_gaps(&f, gaps);
	/* What the gaps left free is taken first. */
	fixture_malloc(&f, GAPS, f.streams[0]);
	if (trims)
		assert_ok(vpmm_pool_trim(f.pool, SIZE_MAX, NULL));
	g_assert_cmpuint(extents_of_block(&f, BLOCK), >=, made);
	fixture_close(&f);
}

/* But a pool that has given back all it had has no past. */
static void test_gaps_are_forgotten(void)
{
	void *gaps[GAPS][4], *rest, *block;
	struct fixture f;
	uint64_t before, made;

	open_large(&f, 1);
	rest = fixture_malloc(&f, POOL, f.streams[0]);
	make_gaps(&f, gaps, GAPS);
	before = fixture_stats(&f).creates;
	block = fixture_malloc(&f, BLOCK, f.streams[0]);
	made = fixture_stats(&f).creates - before;
	close_gaps(&f, gaps);
	fixture_free(&f, rest, f.streams[0]);
	fixture_free(&f, block, f.streams[0]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_malloc(&f, POOL, f.streams[0]);
	g_assert_cmpuint(extents_of_block(&f, BLOCK), <, made);
	fixture_close(&f);
}

/* Gaps of a pool that was small pin little of one that has grown, so its extents are as large as without them. */
static void test_gaps_of_a_small_pool(void)
{
	void *gaps[GAPS][4];
	uint64_t made[2];

	for (int i = 0; i < 2; i++) {
		struct fixture f;

		open_large(&f, 1);
		if (i)
			make_gaps(&f, gaps, GAPS / 8);
		for (int block = 0; block < 4; block++)
			fixture_malloc(&f, POOL, f.streams[0]);
		made[i] = extents_of_block(&f, BLOCK);
		fixture_close(&f);
	}
	g_assert_cmpuint(made[1], <=, made[0] + 1);
}

/* A pool that is trimmed and filled again, while something lives in it, creates about what it did at first. */
static void test_filled_again(void)
{
	uint64_t made[3];
	struct fixture f;

	open_large(&f, 1);
	fixture_malloc(&f, GAPS, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(made); i++) {
		uint64_t before = fixture_stats(&f).creates;
		void *gaps[GAPS][4], *blocks[POOL / BLOCK];

		for (size_t k = 0; k < G_N_ELEMENTS(blocks); k++)
			blocks[k] = fixture_malloc(&f, BLOCK, f.streams[0]);
		make_gaps(&f, gaps, GAPS);
		made[i] = fixture_stats(&f).creates - before;
		fixture_malloc(&f, GAPS, f.streams[0]);
		close_gaps(&f, gaps);
		for (size_t k = 0; k < G_N_ELEMENTS(blocks); k++)
			fixture_free(&f, blocks[k], f.streams[0]);
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		g_assert_cmpuint(made[i], <=, made[0] * 5 / 4);
	}
	fixture_close(&f);
}

/* While there are no gaps, a block that is small beside the pool is one extent. */
static void test_no_gaps(void)
{
	struct fixture f;

	open_large(&f, 1);
	fixture_malloc(&f, POOL, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).stuck, ==, 0);
	for (int i = 0; i < 16; i++)
		g_assert_cmpuint(extents_of_block(&f, POOL / 200), ==, 1);
	fixture_close(&f);
}

/* However many gaps there are, a pool has a bounded number of extents: 160 GiB, which are not to be had everywhere. */
static void test_extents_are_bounded(void)
{
	struct vpmm_pool *pool = g_aligned_alloc0(1, sizeof(*pool), _Alignof(struct vpmm_pool));
	struct gathering g = { .core = &pool->core, .size = 1000 * PAGE, .create = PAGE,
			       .target = tuning_extents_most };

	pool->core.settings.page_size = PAGE;
	pool->core.settings.overhead = 1;
	pool->core.settings.extent_max = (size_t)1 << 30;
	pool->core.extents.bytes = (uint64_t)160 << 30;
	g_assert_cmpuint(pool->core.extents.bytes / gather_extent_size(&g), <=, tuning_extents_most * 101 / 100);
	/* But no extent is larger than what is asked for. */
	g.size = g.create = 3 * PAGE;
	g_assert_cmpuint(gather_extent_size(&g), ==, 3 * PAGE);
	g_aligned_free(pool);
}

static void test_extent_max(gconstpointer data)
{
	size_t most = GPOINTER_TO_SIZE(data) * PAGE;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 50, .extent_max = most });
	fixture_malloc(&f, 60, f.streams[0]);
	each_extent_is_no_larger(&f, most);
	g_assert_cmpuint(fixture_stats(&f).creates, >=, 60 * PAGE / most);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 60 * PAGE);
	fixture_close(&f);
}

/* One page each, and yet 512 bytes for those who ask for little. */
static void test_extents_of_a_page(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 5, .extent_max = PAGE });
	g_assert_cmpuint(fixture_stats(&f).creates, ==, 5);
	fixture_malloc_bytes(&f, 6 * PAGE + 1, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).creates, ==, 7);
	fixture_malloc_bytes(&f, 1, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 6 * PAGE + 2 * CORE_PIECE);
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, 0);
	fixture_close(&f);
}

/* Where nothing is mapped, although the caller knows that something is: the test names the function and ends. */
static void test_place_not_mapped(gconstpointer data)
{
	struct fixture f;
	char *ptr;

	if (g_test_subprocess()) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		ptr = fixture_malloc(&f, 1, f.streams[0]);
		extent_place_mapped(&f.pool->core.extents, (uintptr_t)ptr + (uintptr_t)data);
		exit(0);
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_failed();
	g_test_trap_assert_stderr("*extent_place_mapped*");
}

/*
 * A pool of extents of two pages is full: two extents are free, and the first one and a half pages of a third. A block
 * of four and a half pages takes both extents, and of the third no more than it needs.
 */
static void test_part_of_a_head(void)
{
	static const size_t halves[] = { 4, 4, 4, 4, 3, 1, 492 };
	void *blocks[G_N_ELEMENTS(halves)];
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 256, .limit = 256 * PAGE });
	g_assert_cmpuint(fixture_stats(&f).creates, ==, 128);
	for (size_t i = 0; i < G_N_ELEMENTS(halves); i++)
		blocks[i] = fixture_malloc_bytes(&f, halves[i] * PAGE / 2, f.streams[0]);
	for (size_t i = 0; i <= 4; i += 2)
		fixture_free(&f, blocks[i], f.streams[0]);
	fixture_malloc_bytes(&f, 9 * PAGE / 2, f.streams[0]);
	fixture_close(&f);
}

/*
 * At its limit a pool puts a block together of all that is free: the end of the last page, whole pages, and the start
 * of a page that lies beside these and is in use behind it.
 */
static void test_head_beside_pages(void)
{
	struct fixture f;
	char *first, *middle, *last;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .limit = 8 * PAGE });
	fixture_uncache(&f);
	first = fixture_malloc_bytes(&f, 3 * PAGE / 2, f.streams[0]);
	middle = fixture_malloc_bytes(&f, 3 * PAGE, f.streams[0]);
	last = fixture_malloc_bytes(&f, 11 * PAGE / 4, f.streams[0]);
	g_assert_true(middle == first + 3 * PAGE / 2 && last == middle + 3 * PAGE);
	fixture_free(&f, middle, f.streams[0]);
	fixture_malloc_bytes(&f, 13 * PAGE / 4, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/extents/few-creates-for-much", test_few_creates_for_much);
	g_test_add_func("/extents/start", test_start);
	g_test_add_func("/extents/gaps/few-or-many", test_gaps);
	g_test_add_data_func("/extents/gaps/are-remembered", NULL, test_gaps_are_remembered);
	g_test_add_data_func("/extents/gaps/outlive-a-trim", "trim", test_gaps_are_remembered);
	g_test_add_func("/extents/gaps/are-forgotten", test_gaps_are_forgotten);
	g_test_add_func("/extents/gaps/of-a-small-pool", test_gaps_of_a_small_pool);
	g_test_add_func("/extents/gaps/filled-again", test_filled_again);
	g_test_add_func("/extents/overhead", test_overhead);
	g_test_add_func("/extents/gaps/none", test_no_gaps);
	g_test_add_func("/extents/bounded", test_extents_are_bounded);
	g_test_add_data_func("/extents/extent-max/1", GSIZE_TO_POINTER(1), test_extent_max);
	g_test_add_data_func("/extents/extent-max/2", GSIZE_TO_POINTER(2), test_extent_max);
	g_test_add_data_func("/extents/extent-max/7", GSIZE_TO_POINTER(7), test_extent_max);
	g_test_add_func("/extents/of-a-page", test_extents_of_a_page);
	g_test_add_data_func("/extents/not-mapped/near", (gconstpointer)(4 * PAGE), test_place_not_mapped);
	g_test_add_data_func("/extents/not-mapped/far", (gconstpointer)((size_t)1 << 40), test_place_not_mapped);
	g_test_add_func("/extents/part-of-a-head", test_part_of_a_head);
	g_test_add_func("/extents/head-beside-pages", test_head_beside_pages);
	return g_test_run();
}
