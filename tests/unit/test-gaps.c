// SPDX-License-Identifier: LGPL-2.1-or-later
/* How large extents might be, from how free memory is cut up. */
#include "core/gaps.h"
#include "support/fixture.h"

#define PIECE ((size_t)512)

static void test_none(void)
{
	struct gaps gaps = { 0 };

	g_assert_cmpuint(gaps_extent_size(&gaps, 0), ==, SIZE_MAX);
	g_assert_cmpuint(gaps_extent_size(&gaps, PAGE), ==, SIZE_MAX);
}

/* Of a gap that is larger than an extent, as much as an extent is stuck. */
static void test_large(void)
{
	struct gaps gaps = { 0 };

	gaps_add(&gaps, 100 * PAGE);
	g_assert_cmpuint(gaps_extent_size(&gaps, 10 * PAGE), ==, 10 * PAGE);
	gaps_add(&gaps, 1000 * PAGE);
	gaps_add(&gaps, 120 * PAGE);
	gaps_add(&gaps, 70 * PAGE);
	g_assert_cmpuint(gaps_extent_size(&gaps, 10 * PAGE), ==, 10 * PAGE / 4);
	g_assert_cmpuint(gaps_extent_size(&gaps, 0), ==, 0);
}

/* One that is smaller is stuck whatever is done, and leaves less for the others. */
static void test_small(void)
{
	struct gaps gaps = { 0 };

	gaps_add(&gaps, PIECE);
	gaps_add(&gaps, 3 * PIECE);
	gaps_add(&gaps, 100 * PAGE);
	gaps_add(&gaps, 100 * PAGE);
	g_assert_cmpuint(gaps_extent_size(&gaps, 10 * PAGE), ==, 5 * PAGE - 2 * PIECE);
	/* All of them. */
	g_assert_cmpuint(gaps_extent_size(&gaps, 200 * PAGE + 3 * PIECE), ==, 100 * PAGE - PIECE / 2);
	g_assert_cmpuint(gaps_extent_size(&gaps, 200 * PAGE + 4 * PIECE), ==, SIZE_MAX);
}

static void test_remove(void)
{
	struct gaps gaps = { 0 };

	gaps_add(&gaps, 8 * PAGE);
	gaps_add(&gaps, 15 * PAGE);
	gaps_add(&gaps, 16 * PAGE);
	gaps_remove(&gaps, 16 * PAGE);
	g_assert_cmpuint(gaps_extent_size(&gaps, 8 * PAGE), ==, 4 * PAGE);
	gaps_remove(&gaps, 8 * PAGE);
	g_assert_cmpuint(gaps_extent_size(&gaps, 8 * PAGE), ==, 8 * PAGE);
	gaps_remove(&gaps, 15 * PAGE);
	for (int i = 0; i < GAPS_CLASSES; i++)
		g_assert_cmpuint(gaps.of[i].count + gaps.of[i].bytes, ==, 0);
}

/* The largest that there are addresses for. */
static void test_huge(void)
{
	const size_t huge = (size_t)1 << 47;
	struct gaps gaps = { 0 };

	gaps_add(&gaps, huge);
	g_assert_cmpuint(gaps_extent_size(&gaps, huge - 1), ==, huge - 1);
	g_assert_cmpuint(gaps_extent_size(&gaps, huge), ==, SIZE_MAX);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/gaps/none", test_none);
	g_test_add_func("/gaps/large", test_large);
	g_test_add_func("/gaps/small", test_small);
	g_test_add_func("/gaps/remove", test_remove);
	g_test_add_func("/gaps/huge", test_huge);
	return g_test_run();
}
