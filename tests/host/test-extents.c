// SPDX-License-Identifier: LGPL-2.1-or-later
/* What memory is created in: how large extents are, and how many. */
#include <stdlib.h>

/* As in builds for finding faults. */
#define ASSUME_TESTED 1

#include "calls/pool.h"
#include "policy/gather-plan.h"
#include "support/fixture.h"

static void each_extent_is_no_larger(struct fixture *f, size_t most)
{
	for (GList *link = f->pool->extents.all.head; link; link = link->next) {
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
	g_assert_cmpuint(fixture_stats(&f).creates, <=, 64);
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

/* The same in a pool that has so many pages, and so many gaps of half of one. */
static uint64_t extents_with(int overhead, size_t pages, size_t count, size_t block)
{
	void *gaps[230][4];
	struct fixture f;
	uint64_t made;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overhead = overhead });
	fixture_malloc(&f, pages - count, f.streams[0]);
	make_gaps(&f, gaps, count);
	g_assert_cmpuint(fixture_stats(&f).mapped, >=, pages * PAGE);
	made = extents_of_block(&f, block);
	fixture_close(&f);
	return made;
}

static uint64_t extents_of(size_t pages, size_t count, size_t block)
{
	return extents_with(0, pages, count, block);
}

/* 172 MiB: extents of 7.2 where that makes another pool of it, and where it does not, no more than a 400th of it. */
static void test_start(void)
{
	g_assert_cmpuint(extents_of(64, 6, 86), ==, 29);
	g_assert_cmpuint(extents_of(100, 6, 86), ==, 86);
	g_assert_cmpuint(extents_of(64, 6, 32), ==, 32);
}

/* Six gaps of half a page are all that may be stuck of 120 pages, a 40th: more pages have extents of a 16th of them. */
static void test_gaps(void)
{
	g_assert_cmpuint(extents_of(110, 6, 24), ==, 24);
	g_assert_cmpuint(extents_of(130, 6, 24), ==, 3);
	g_assert_cmpuint(extents_of(390, 6, 24), ==, 1);
	/* However many there are, a large pool has extents of more than a page. */
	g_assert_cmpuint(extents_of(2400, 130, 24), <=, 12);
}

/* Six gaps of half a page may be stuck of 120 pages with one percent, of 70 with two; 1100 extents, or 647. */
static void test_overhead(void)
{
	g_assert_cmpuint(extents_with(1, 110, 6, 24), ==, 24);
	g_assert_cmpuint(extents_with(2, 110, 6, 24), ==, 4);
	g_assert_cmpuint(extents_with(2, 60, 6, 24), ==, 24);
	/* Of two pages each, and of three. */
	g_assert_cmpuint(extents_with(1, 2400, 230, 24), ==, 11);
	g_assert_cmpuint(extents_with(2, 2400, 230, 24), ==, 7);
}

/* What a program has cut its memory into once it is taken to do again, though less and less. */
static void test_gaps_are_remembered(void)
{
	void *gaps[6][4];
	struct fixture f;
	double pieces;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 94, f.streams[0]);
	make_gaps(&f, gaps, 6);
	g_assert_cmpuint(extents_of_block(&f, 6), ==, 6);
	pieces = f.pool->pieces;
	g_assert_cmpfloat(pieces, >, 100);
	for (int i = 0; i < 6; i++) {
		fixture_free(&f, gaps[i][0], f.streams[0]);
		fixture_free(&f, gaps[i][3], f.streams[0]);
	}
	fixture_malloc(&f, 6, f.streams[0]);
	g_assert_cmpuint(extents_of_block(&f, 6), ==, 6);
	g_assert_cmpfloat(f.pool->pieces, <, pieces * 0.999);
	g_assert_cmpfloat(f.pool->pieces, >, pieces * 0.99);
	fixture_close(&f);
}

/* But a pool that has given back all it had has no past. */
static void test_gaps_are_forgotten(void)
{
	void *gaps[6][4], *block;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	block = fixture_malloc(&f, 94, f.streams[0]);
	make_gaps(&f, gaps, 6);
	fixture_free(&f, block, f.streams[0]);
	block = fixture_malloc(&f, 100, f.streams[0]);
	g_assert_cmpfloat(f.pool->pieces, >, 100);
	fixture_free(&f, block, f.streams[0]);
	for (int i = 0; i < 6; i++) {
		fixture_free(&f, gaps[i][0], f.streams[0]);
		fixture_free(&f, gaps[i][3], f.streams[0]);
	}
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_malloc(&f, 160, f.streams[0]);
	g_assert_cmpuint(extents_of_block(&f, 10), ==, 1);
	fixture_close(&f);
}

/* While there are no gaps, a block that is no more than a 16th of the pool is one extent. */
static void test_no_gaps(void)
{
	struct vpmm_stats before;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 16; i++)
		fixture_malloc(&f, 4, f.streams[0]);
	before = fixture_stats(&f);
	g_assert_cmpuint(before.stuck, ==, 0);
	g_assert_cmpuint(before.creates, >, 16);
	for (int i = 0; i < 16; i++)
		fixture_malloc(&f, 4, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).creates - before.creates, ==, 16);
	fixture_close(&f);
}

/* But no more than 72 MiB of one that is not large. */
static void test_no_gaps_in_much(void)
{
	enum { GIB = 512 };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .va_size = (size_t)8 << 30 });
	for (int i = 0; i < 8; i++)
		fixture_malloc(&f, GIB / 2, f.streams[0]);
	g_assert_cmpuint(extents_of_block(&f, 100), ==, 3);
	fixture_close(&f);
}

/* And no more than a 1100th of one that is: 74 pages of 160 GiB, which are not to be had everywhere. */
static void test_no_gaps_in_very_much(void)
{
	struct vpmm_pool *pool = g_new0(struct vpmm_pool, 1);
	struct gathering g = { .pool = pool, .size = 100 * PAGE, .create = 100 * PAGE, .pieces = 16 };

	pool->settings.page_size = PAGE;
	pool->settings.overhead = 1;
	pool->settings.extent_max = (size_t)1 << 30;
	pool->extents.bytes = (uint64_t)160 << 30;
	g_assert_cmpuint(gather_piece(&g), ==, 74 * PAGE);
	/* Or a 647th, 126 pages, but no larger than what is asked for. */
	pool->settings.overhead = 2;
	g.size = g.create = 200 * PAGE;
	g_assert_cmpuint(gather_piece(&g), ==, 126 * PAGE);
	g_free(pool);
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
	g_assert_cmpuint(fixture_stats(&f).live, ==, 6 * PAGE + 2 * POOL_PIECE);
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
		extent_place_mapped(&f.pool->extents, (uintptr_t)ptr + (uintptr_t)data);
		exit(0);
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_failed();
	g_test_trap_assert_stderr("*extent_place_mapped*");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/extents/few-creates-for-much", test_few_creates_for_much);
	g_test_add_func("/extents/start", test_start);
	g_test_add_func("/extents/gaps/few-or-many", test_gaps);
	g_test_add_func("/extents/gaps/are-remembered", test_gaps_are_remembered);
	g_test_add_func("/extents/gaps/are-forgotten", test_gaps_are_forgotten);
	g_test_add_func("/extents/overhead", test_overhead);
	g_test_add_func("/extents/gaps/none", test_no_gaps);
	g_test_add_func("/extents/gaps/none-in-much", test_no_gaps_in_much);
	g_test_add_func("/extents/gaps/none-in-very-much", test_no_gaps_in_very_much);
	g_test_add_data_func("/extents/extent-max/1", GSIZE_TO_POINTER(1), test_extent_max);
	g_test_add_data_func("/extents/extent-max/2", GSIZE_TO_POINTER(2), test_extent_max);
	g_test_add_data_func("/extents/extent-max/7", GSIZE_TO_POINTER(7), test_extent_max);
	g_test_add_func("/extents/of-a-page", test_extents_of_a_page);
	g_test_add_data_func("/extents/not-mapped/near", (gconstpointer)(4 * PAGE), test_place_not_mapped);
	g_test_add_data_func("/extents/not-mapped/far", (gconstpointer)((size_t)1 << 40), test_place_not_mapped);
	return g_test_run();
}
