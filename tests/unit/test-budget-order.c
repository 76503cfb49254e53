// SPDX-License-Identifier: LGPL-2.1-or-later
/* Two pools take the same bytes of a budget at once: one gets them, whatever the other reads before or after that. */
#define _GNU_SOURCE 1
#include <stdatomic.h>

static void on_load(void);

#undef atomic_load
#define atomic_load(at) (on_load(), atomic_load_explicit(at, memory_order_seq_cst))

#include "budget/budget.c"

#include "host/budget-fixture.h"

#define BYTES ((uint64_t)80 << 20)

/* More than one try reads. */
#define LOADS 40

/* Another pool, which has seen that there is enough for it, and takes it before the pool under test reads once more. */
static struct budget *other;
static int loads_left;

static void on_load(void)
{
	if (!other || loads_left--)
		return;
	atomic_store(&other->slot->taken, BYTES);
	atomic_store(&other->slot->want, 0);
}

static struct budget *join(void)
{
	struct budget_terms terms = { .name = BUDGET_TEXT, .weight = 1, .memory = BYTES };
	struct budget *budget = NULL;

	assert_ok(budget_join(&terms, &budget));
	return budget;
}

static void leave(struct budget *budget)
{
	budget_leave(budget);
	budget_free(budget);
}

static void test_one_gets_it(void)
{
	struct budget *budget = join(), *rival = join();
	struct budget_part part = { 0 };

	for (int loads = 0; loads < LOADS; loads++) {
		atomic_store(&rival->slot->want, BYTES);
		atomic_store(&rival->slot->taken, 0);
		loads_left = loads;
		other = rival;
		g_assert_false(budget_take(budget, &part, BYTES));
		other = NULL;
		g_assert_cmpint(loads_left, <, 0);
	}
	atomic_store(&rival->slot->taken, 0);
	g_assert_true(budget_take(budget, &part, BYTES));
	budget_tell(budget, &part, 0, 0);
	leave(rival);
	leave(budget);
}

int main(int argc, char **argv)
{
	int ret;

	g_test_init(&argc, &argv, NULL);
	budget_folder();
	g_test_add_func("/budget-order/one-gets-it", test_one_gets_it);
	ret = g_test_run();
	budget_remove_folder();
	return ret;
}
