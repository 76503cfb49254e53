// SPDX-License-Identifier: LGPL-2.1-or-later
/* What pools and threads do to a budget at once, in each order that could do harm. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "util/lock.h"

static void on_load(void);
static void on_acquire(void);

#undef atomic_load
#define atomic_load(at) (on_load(), atomic_load_explicit(at, memory_order_seq_cst))

#define lock_acquire(lock) (on_acquire(), (lock_acquire)(lock))

#include "budget/budget.c"

#include "host/budget-fixture.h"

#define BYTES ((uint64_t)80 << 20)

/* More than one try reads. */
#define LOADS 40

/* Another pool, which has seen that there is enough for it, and takes it before the pool under test reads once more. */
static struct budget *other;
static int loads_left;

/* A second thread of the pool under test, which begins before the first reads once more. */
static struct budget *shared;
static pthread_t second;
static sem_t begun;

static void take_other(void)
{
	atomic_store(&other->slot->taken, BYTES);
	atomic_store(&other->slot->want, 0);
}

/* Until the second thread waits for the first, or is done. */
static void begin_second(void);

static _Thread_local bool is_second;

/* A process that writes something else into its slot each time before it is read. */
static struct budget_slot *liar;

static void lie(void)
{
	uint64_t bytes = ~liar->taken;

	liar->taken = liar->want = liar->idle = bytes;
	liar->floor = bytes / 2;
}

static void on_load(void)
{
	if (liar)
		lie();
	if (is_second || !(other || shared) || loads_left--)
		return;
	if (other)
		take_other();
	else
		begin_second();
}

static void on_acquire(void)
{
	if (is_second)
		sem_post(&begun);
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

/* What a slot is taken to have is never more than the budget, even if it changes between any two reads. */
static void assert_bounded(const struct budget *budget)
{
	static struct budget_holder holders[BUDGET_SLOTS];
	uint64_t others = budget_others(budget, true), idle = budget_idle(budget);
	unsigned int count = budget_holders(budget, holders);

	g_assert_cmpuint(others, <=, 2 * BYTES);
	g_assert_cmpuint(idle, <=, BYTES);
	for (unsigned int i = 0; i < count; i++) {
		g_assert_cmpuint(holders[i].taken, <=, BYTES);
		g_assert_cmpuint(holders[i].idle, <=, holders[i].taken);
		g_assert_cmpuint(holders[i].floor, <=, BYTES);
	}
}

static void test_bounded(void)
{
	struct budget *budget = join(), *rival = join();

	liar = rival->slot;
	for (int i = 0; i < 2; i++) {
		assert_bounded(budget);
		lie();
	}
	liar = NULL;
	leave(rival);
	leave(budget);
}

/* A pool cannot join while a thread of another pool empties the slots of the dead, whatever other threads do. */

static bool can_join(const struct budget *budget)
{
	if (budget_lock_byte(budget->locks.fd, BUDGET_BYTE_JOIN, F_WRLCK))
		return false;
	g_assert_cmpint(budget_lock_byte(budget->locks.fd, BUDGET_BYTE_JOIN, F_UNLCK), ==, 0);
	return true;
}

static void *bury_as_second(void *data)
{
	is_second = true;
	budget_bury(data);
	sem_post(&begun);
	return NULL;
}

static struct budget *joiner;

static void begin_second(void)
{
	bool could = can_join(joiner);

	g_assert_cmpint(pthread_create(&second, NULL, bury_as_second, shared), ==, 0);
	shared = NULL;
	sem_wait(&begun);
	g_assert_true(could || !can_join(joiner));
}

/* As a death does, it releases the locks, and empties nothing. */
static struct budget *join_and_die(void)
{
	struct budget *dead = join();

	atomic_store(dead->kept, NULL);
	g_assert_cmpint(budget_lock_byte(dead->locks.fd, byte_of(dead, dead->slot), F_UNLCK), ==, 0);
	descriptor_close(&dead->locks);
	return dead;
}

/* Whether the first thread reads so often. */
static bool bury_with_second(struct budget *budget, int loads)
{
	struct budget *dead = join_and_die();
	bool begins;

	loads_left = loads;
	shared = budget;
	budget_bury(budget);
	begins = !shared;
	shared = NULL;
	if (begins)
		g_assert_cmpint(pthread_join(second, NULL), ==, 0);
	g_assert_true(is_slot_empty(dead->slot));
	budget_free(dead);
	return begins;
}

static void test_one_buries(void)
{
	struct budget *budget = join();
	int loads = 0;

	joiner = join();
	do
		g_assert_cmpint(sem_init(&begun, 0, 0), ==, 0);
	while (bury_with_second(budget, loads++));
	g_test_message("%d moments", loads);
	leave(joiner);
	leave(budget);
}

int main(int argc, char **argv)
{
	int ret;

	g_test_init(&argc, &argv, NULL);
	budget_folder();
	g_test_add_func("/budget-order/one-gets-it", test_one_gets_it);
	g_test_add_func("/budget-order/bounded", test_bounded);
	g_test_add_func("/budget-order/one-buries", test_one_buries);
	ret = g_test_run();
	budget_remove_folder();
	return ret;
}
