// SPDX-License-Identifier: LGPL-2.1-or-later
/* The index of addresses against an array that has an owner for each address. */
#include <glib.h>

#include "util/address-index.h"

#define OWNERS 4
#define RANGES 40
#define ADDRESSES 500

struct model {
	struct address_owner owners[OWNERS];
	struct address_range ranges[RANGES];
	struct address_range *at[ADDRESSES];
};

static void model_drop(struct model *m, const struct address_range *range)
{
	for (size_t i = 0; i < ADDRESSES; i++)
		m->at[i] = m->at[i] == range ? NULL : m->at[i];
}

/* Those it overlaps are stale. */
static void model_add(struct model *m, struct address_range *range, uint64_t addr, uint64_t size)
{
	for (uint64_t i = addr; i < addr + size; i++) {
		if (m->at[i])
			model_drop(m, m->at[i]);
	}
	for (uint64_t i = addr; i < addr + size; i++)
		m->at[i] = range;
}

static void model_compare(struct model *m)
{
	for (uint64_t i = 1; i < ADDRESSES; i++) {
		struct address_owner *owner = NULL;
		void *who = address_visit(i, &owner);

		g_assert_true(owner == (m->at[i] ? m->at[i]->owner : NULL));
		g_assert_true(who == owner);
		g_assert_cmpuint(address_start(i), ==, m->at[i] ? m->at[i]->addr : 0);
		if (owner)
			address_leave(owner);
	}
}

static void test_against_model(void)
{
	GRand *rand = g_rand_new_with_seed(21);
	struct model m = { 0 };

	for (size_t i = 0; i < OWNERS; i++)
		address_open(&m.owners[i], &m.owners[i]);
	for (int round = 0; round < 3000; round++) {
		struct address_range *range = &m.ranges[g_rand_int_range(rand, 0, RANGES)];
		uint64_t addr = (uint64_t)g_rand_int_range(rand, 1, ADDRESSES - 40);
		uint64_t size = (uint64_t)g_rand_int_range(rand, 1, 40);

		model_drop(&m, range);
		address_remove(range);
		if (round % 3) {
			model_add(&m, range, addr, size);
			address_add(&m.owners[round % OWNERS], range, addr, size);
		}
		if (round % 10 == 0)
			model_compare(&m);
	}
	for (size_t i = 0; i < OWNERS; i++) {
		for (size_t j = 0; j < ADDRESSES; j++)
			m.at[j] = m.at[j] && m.at[j]->owner == &m.owners[i] ? NULL : m.at[j];
		address_end(&m.owners[i]);
		model_compare(&m);
	}
	address_add(&m.owners[0], &m.ranges[0], 1, 1);
	g_assert_cmpuint(address_start(1), ==, 0);
	g_rand_free(rand);
}

/* An owner that is set up, or has ended, is nobody that can be found. */
static void test_closed_owner(void)
{
	struct address_owner owner = { 0 }, *found;
	struct address_range range = { 0 };

	address_add(&owner, &range, 100, 10);
	g_assert_null(address_visit(105, &found));
	g_assert_cmpuint(address_start(105), ==, 100);
	address_open(&owner, &range);
	g_assert_true(address_visit(105, &found) == &range);
	g_assert_true(found == &owner);
	address_leave(found);
	g_assert_null(address_visit(110, &found));
	g_assert_null(address_visit(UINT64_MAX, &found));
	address_end(&owner);
	g_assert_null(address_visit(105, &found));
}

static gpointer leave_soon(gpointer data)
{
	gint *left = ((void **)data)[1];

	g_usleep(1000);
	g_atomic_int_set(left, 1);
	address_leave(((void **)data)[0]);
	return NULL;
}

/* The end waits for those who visit. */
static void test_end_waits(void)
{
	struct address_owner owner = { 0 }, *found;
	struct address_range range = { 0 };
	void *both[2] = { &owner, NULL };
	GThread *thread;
	gint left = 0;

	both[1] = &left;
	address_open(&owner, &range);
	address_add(&owner, &range, 100, 10);
	g_assert_nonnull(address_visit(109, &found));
	thread = g_thread_new("visitor", leave_soon, both);
	address_end(&owner);
	g_assert_cmpint(g_atomic_int_get(&left), ==, 1);
	g_thread_join(thread);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/address-index/against-model", test_against_model);
	g_test_add_func("/address-index/closed-owner", test_closed_owner);
	g_test_add_func("/address-index/end-waits", test_end_waits);
	return g_test_run();
}
