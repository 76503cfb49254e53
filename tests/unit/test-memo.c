// SPDX-License-Identifier: LGPL-2.1-or-later
/* What was decided before is found again in the same state, and only there. */
#include "core/memo.h"
#include "support/fixture.h"

/* The address that a request gets again. */
static uint64_t recall(struct memo *memo, size_t size)
{
	struct memo_found found = memo_find(memo, memo->state, size);

	if (found.addr)
		memo_note(memo, &found, found.addr);
	return found.addr;
}

static void put(struct memo *memo, size_t size, uint64_t addr)
{
	struct memo_found found = memo_find(memo, memo->state, size);

	memo_note(memo, &found, addr);
}

static void test_state(void)
{
	struct memo memo;

	memo_init(&memo);
	g_assert_cmpuint(recall(&memo, PAGE), ==, 0);
	put(&memo, PAGE, 0x1000);
	g_assert_cmphex(recall(&memo, PAGE), ==, 0x1000);
	g_assert_cmpuint(recall(&memo, 2 * PAGE), ==, 0);
	memo_enter(&memo, 0x1000, PAGE);
	g_assert_cmpuint(recall(&memo, PAGE), ==, 0);
	memo_leave(&memo, 0x1000, PAGE);
	g_assert_cmphex(recall(&memo, PAGE), ==, 0x1000);
	memo_clear(&memo);
}

/* The state is what is allocated, in whatever order it came; not how much of it. */
static void test_order_does_not_matter(void)
{
	struct memo memo;

	memo_init(&memo);
	memo_enter(&memo, 0x1000, 512);
	memo_enter(&memo, 0x9000, 1024);
	put(&memo, PAGE, 0x77000);
	memo_leave(&memo, 0x1000, 512);
	memo_leave(&memo, 0x9000, 1024);
	memo_enter(&memo, 0x9000, 512);
	memo_enter(&memo, 0x1000, 1024);
	g_assert_cmpuint(recall(&memo, PAGE), ==, 0);
	memo_leave(&memo, 0x9000, 512);
	memo_leave(&memo, 0x1000, 1024);
	memo_enter(&memo, 0x9000, 1024);
	memo_enter(&memo, 0x1000, 512);
	g_assert_cmphex(recall(&memo, PAGE), ==, 0x77000);
	memo_clear(&memo);
}

static void test_later_decision_counts(void)
{
	struct memo memo;

	memo_init(&memo);
	put(&memo, PAGE, 0x1000);
	put(&memo, PAGE, 0x2000);
	g_assert_cmphex(recall(&memo, PAGE), ==, 0x2000);
	memo_clear(&memo);
}

/* It does not grow for ever: what was not asked for in a long time goes, what is still in use stays. */
static void test_forgets(void)
{
	struct memo memo;

	memo_init(&memo);
	put(&memo, 512, 0x900);
	put(&memo, 512, 0x1000);
	put(&memo, 1024, 0x2000);
	for (size_t i = 0; i < 2 * MEMO_MOST; i++) {
		put(&memo, 2048 + i * 512, 0x3000 + i * 512);
		if (i % 1000 == 0)
			g_assert_cmphex(recall(&memo, 512), ==, 0x1000);
	}
	g_assert_cmphex(recall(&memo, 512), ==, 0x1000);
	g_assert_cmphex(memo_find(&memo, memo.state, 512).before, ==, 0x900);
	g_assert_cmpuint(recall(&memo, 1024), ==, 0);
	g_assert_cmpuint(memo.mask, ==, MEMO_MOST - 1);
	memo_clear(&memo);
}

/* More of them than there is room for at first: in the order in which they were made, and in others. */
static void test_any_order(void)
{
	enum { N = 5000, STEP = 1237 };
	struct memo memo;

	memo_init(&memo);
	for (size_t i = 0; i < N; i++)
		put(&memo, (i + 1) * 512, 0x1000 + i);
	for (size_t i = 0; i < N; i++)
		g_assert_cmphex(recall(&memo, (i + 1) * 512), ==, 0x1000 + i);
	for (size_t i = N; i > 0; i--)
		g_assert_cmphex(recall(&memo, i * 512), ==, 0x1000 + i - 1);
	for (size_t n = 0, i = 0; n < N; n++, i = (i + STEP) % N)
		g_assert_cmphex(recall(&memo, (i + 1) * 512), ==, 0x1000 + i);
	g_assert_cmpuint(recall(&memo, (N + 1) * 512), ==, 0);
	memo_clear(&memo);
}

/* A decision that is replaced has the address before it, too: one that is made again does not lose that. */
static void test_before(void)
{
	struct memo_found found;
	struct memo memo;

	memo_init(&memo);
	put(&memo, PAGE, 0x1000);
	g_assert_cmphex(memo_find(&memo, memo.state, PAGE).before, ==, 0);
	for (uint64_t addr = 0x2000; addr <= 0x4000; addr += 0x1000) {
		found = memo_find(&memo, memo.state, PAGE);
		memo_note(&memo, &found, addr);
		found = memo_find(&memo, memo.state, PAGE);
		g_assert_cmphex(found.addr, ==, addr);
		g_assert_cmphex(found.before, ==, addr - 0x1000);
		memo_note(&memo, &found, addr);
		g_assert_cmphex(memo_find(&memo, memo.state, PAGE).before, ==, addr - 0x1000);
	}
	memo_clear(&memo);
}

static struct memo_found add_size(struct past *past, const struct memo *memo, enum past_length length, size_t size)
{
	struct memo_found found = memo_find(memo, past_state(past, length), size);

	past_add(past, &found);
	return found;
}

/* How many sizes later two streams have the same past, if one has asked for @first and the other for @second. */
static size_t forgotten_after(const struct memo *memo, enum past_length length, size_t first, size_t second, size_t step)
{
	struct past one = { 0 }, other = { 0 };
	size_t count = 0;

	add_size(&one, memo, length, first);
	add_size(&other, memo, length, second);
	while (past_state(&one, length) != past_state(&other, length) && ++count < 100 * PAST_REACH) {
		add_size(&one, memo, length, (count * count % 1009 * step + 1) * 512);
		add_size(&other, memo, length, (count * count % 1009 * step + 1) * 512);
	}
	return count;
}

/*
 * A past is of the order of the sizes too. The short one is of 32 at most. The long one mostly is of hundreds, and of
 * none long before. Two hashes may differ in their upper bits alone, which are shifted out earlier.
 */
static void test_past(void)
{
	struct past one = { 0 }, other = { 0 };
	size_t sums[PASTS] = { 0 };
	struct memo memo;

	memo_init(&memo);
	for (enum past_length i = PAST_LONG; i < PASTS; i++) {
		one = other = (struct past){ 0 };
		add_size(&one, &memo, i, PAGE);
		add_size(&one, &memo, i, 2 * PAGE);
		add_size(&other, &memo, i, 2 * PAGE);
		add_size(&other, &memo, i, PAGE);
		g_assert_cmphex(past_state(&one, i), !=, past_state(&other, i));
		for (size_t step = 1; step <= 100; step++) {
			size_t count = forgotten_after(&memo, i, PAGE, (step + 1) * PAGE, step);

			g_assert_cmpuint(count, <, i == PAST_LONG ? 10 * PAST_REACH : 33);
			sums[i] += count;
		}
	}
	g_assert_cmpuint(sums[PAST_LONG], >, 10 * sums[PAST_SHORT]);
	memo_clear(&memo);
}

#define BATCHES 32
#define BATCH 400

/* Equal batches that follow on different ones: a pass finds all that the pass before has noted of each. */
static void test_equal_batches(void)
{
	struct past past = { 0 };
	struct memo memo;
	size_t lost = 0;

	memo_init(&memo);
	for (size_t pass = 0; pass < 3; pass++) {
		for (size_t i = 0; i < BATCHES * BATCH; i++) {
			size_t size = (i % BATCH ? i % BATCH : BATCH + i) * 512;
			uint64_t state = past_state(&past, PAST_LONG);
			struct memo_found found;

			/* So that the table has to find it. */
			memo.next = memo.count;
			found = add_size(&past, &memo, PAST_LONG, size);
			/* The first pass begins in no past, and so does what the second has of it. */
			lost += pass == 2 && found.addr != PAGE + i;
			memo.state = state;
			memo_note(&memo, &found, PAGE + i);
		}
	}
	g_assert_cmpuint(lost, ==, 0);
	memo_clear(&memo);
}

/* A full table finds all but a few in 100,000 of its decisions, each by itself: a program may come back to any. */
static void test_full_table(void)
{
	struct memo memo;
	size_t lost = 0;

	memo_init(&memo);
	for (size_t i = 0; i < MEMO_MOST; i++)
		put(&memo, (i + 1) * 512, 0x1000 + i);
	for (size_t i = MEMO_MOST; i > 0; i--)
		lost += memo_find(&memo, memo.state, i * 512).addr != 0x1000 + i - 1;
	g_assert_cmpuint(lost, <=, MEMO_MOST / 50000);
	memo_clear(&memo);
}

/* Sizes whose decisions are all in one row of a table that has not grown. */
static void find_row(size_t *sizes, size_t count)
{
	struct memo memo;
	uint64_t rows;
	size_t n = 0;

	memo_init(&memo);
	rows = memo.row_mask + 1;
	for (size_t size = 512; n < count; size += 512) {
		put(&memo, size, 0x1000);
		if (memo.log[(memo.count - 1) & memo.mask].key % rows == 5)
			sizes[n++] = size;
	}
	memo_clear(&memo);
}

/* When there are too many for a row, the latest are found, and the others where they follow. */
static void test_row_overflows(void)
{
	size_t sizes[3 * MEMO_WAYS];
	struct memo memo;

	find_row(sizes, G_N_ELEMENTS(sizes));
	memo_init(&memo);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
		put(&memo, sizes[i], 0x1000 + i);
	for (size_t i = G_N_ELEMENTS(sizes); i > 0; i--)
		g_assert_cmphex(recall(&memo, sizes[i - 1]), ==, i > 2 * MEMO_WAYS ? 0x1000 + i - 1 : 0);
	memo.next = 0;
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
		g_assert_cmphex(recall(&memo, sizes[i]), ==, 0x1000 + i);
	memo_clear(&memo);
}

/* What the table does not find, and was found where it follows, is decided anew there, too. */
static void test_later_decision_follows(void)
{
	size_t sizes[3 * MEMO_WAYS];
	struct memo memo;

	find_row(sizes, G_N_ELEMENTS(sizes));
	memo_init(&memo);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
		put(&memo, sizes[i], 0x1000 + i);
	memo.next = 0;
	g_assert_cmphex(recall(&memo, sizes[0]), ==, 0x1000);
	put(&memo, sizes[0], 0x2000);
	memo.next = 0;
	g_assert_cmphex(recall(&memo, sizes[0]), ==, 0x2000);
	g_assert_cmphex(recall(&memo, sizes[1]), ==, 0x1001);
	g_assert_cmpuint(memo.count, ==, G_N_ELEMENTS(sizes));
	memo_clear(&memo);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/memo/state", test_state);
	g_test_add_func("/memo/before", test_before);
	g_test_add_func("/memo/past", test_past);
	g_test_add_func("/memo/equal-batches", test_equal_batches);
	g_test_add_func("/memo/order-does-not-matter", test_order_does_not_matter);
	g_test_add_func("/memo/later-decision-counts", test_later_decision_counts);
	g_test_add_func("/memo/forgets", test_forgets);
	g_test_add_func("/memo/any-order", test_any_order);
	g_test_add_func("/memo/full-table", test_full_table);
	g_test_add_func("/memo/row-overflows", test_row_overflows);
	g_test_add_func("/memo/later-decision-follows", test_later_decision_follows);
	return g_test_run();
}
