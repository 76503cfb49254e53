// SPDX-License-Identifier: LGPL-2.1-or-later
/* What was decided before is found again in the same state, and only there. */
#include "fixture.h"
#include "memo.h"

/* As many as the memo keeps of one half at most. */
#define MANY (128 * 1024)

static void test_state(void)
{
	struct memo memo;

	memo_init(&memo);
	g_assert_cmpuint(memo_find(&memo, PAGE), ==, 0);
	memo_put(&memo, PAGE, 0x1000);
	g_assert_cmphex(memo_find(&memo, PAGE), ==, 0x1000);
	g_assert_cmpuint(memo_find(&memo, 2 * PAGE), ==, 0);
	memo_enter(&memo, 0x1000, PAGE);
	g_assert_cmpuint(memo_find(&memo, PAGE), ==, 0);
	memo_leave(&memo, 0x1000, PAGE);
	g_assert_cmphex(memo_find(&memo, PAGE), ==, 0x1000);
	memo_clear(&memo);
}

/* The state is what is allocated, in whatever order it came; not how much of it. */
static void test_order_does_not_matter(void)
{
	struct memo memo;

	memo_init(&memo);
	memo_enter(&memo, 0x1000, 512);
	memo_enter(&memo, 0x9000, 1024);
	memo_put(&memo, PAGE, 0x77000);
	memo_leave(&memo, 0x1000, 512);
	memo_leave(&memo, 0x9000, 1024);
	memo_enter(&memo, 0x9000, 512);
	memo_enter(&memo, 0x1000, 1024);
	g_assert_cmpuint(memo_find(&memo, PAGE), ==, 0);
	memo_leave(&memo, 0x9000, 512);
	memo_leave(&memo, 0x1000, 1024);
	memo_enter(&memo, 0x9000, 1024);
	memo_enter(&memo, 0x1000, 512);
	g_assert_cmphex(memo_find(&memo, PAGE), ==, 0x77000);
	memo_clear(&memo);
}

static void test_later_decision_counts(void)
{
	struct memo memo;

	memo_init(&memo);
	memo_put(&memo, PAGE, 0x1000);
	memo_put(&memo, PAGE, 0x2000);
	g_assert_cmphex(memo_find(&memo, PAGE), ==, 0x2000);
	memo_clear(&memo);
}

/* It does not grow for ever: what was not asked for in a long time goes, what is still in use stays. */
static void test_forgets(void)
{
	struct memo memo;

	memo_init(&memo);
	memo_put(&memo, 512, 0x1000);
	memo_put(&memo, 1024, 0x2000);
	for (size_t i = 0; i < 3 * MANY; i++) {
		memo_put(&memo, 2048 + i * 512, 0x3000 + i * 512);
		if (i % 1000 == 0)
			g_assert_cmphex(memo_find(&memo, 512), ==, 0x1000);
	}
	g_assert_cmphex(memo_find(&memo, 512), ==, 0x1000);
	g_assert_cmpuint(memo_find(&memo, 1024), ==, 0);
	g_assert_cmpuint(memo.young.used + memo.old.used, <=, 2 * MANY);
	memo_clear(&memo);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/memo/state", test_state);
	g_test_add_func("/memo/order-does-not-matter", test_order_does_not_matter);
	g_test_add_func("/memo/later-decision-counts", test_later_decision_counts);
	g_test_add_func("/memo/forgets", test_forgets);
	return g_test_run();
}
