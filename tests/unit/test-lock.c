// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A debug build ends the program where a lock is not held that should be, or is acquired out of order. The lock of our
 * own keeps threads apart, and wakes those that wait.
 */
#include <pthread.h>
#include <stdbool.h>
#include <glib.h>

#include "util/lock.h"

/* Rules that are broken on purpose are not clang's to find. */
#define BREAKS_RULES NO_LOCK_ANALYSIS

static struct lock core = LOCK_INIT(LOCK_CORE), other_core = LOCK_INIT(LOCK_CORE), cache = LOCK_INIT(LOCK_CACHE);

static bool is_debug_build(void)
{
#ifdef VPMM_DEBUG
	return true;
#else
	g_test_skip("locks are checked in a debug build, configure --enable-debug");
	return false;
#endif
}

/* Runs the test once more in a child, which is to end with this sentence. */
static void assert_ends(const char *sentence)
{
	char *pattern = g_strdup_printf("*libvpmm: %s\n*", sentence);

	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_failed();
	g_test_trap_assert_stderr(pattern);
	g_free(pattern);
}

static void *assert_core(void *data)
{
	lock_assert_held(&core);
	return NULL;
}

static void in_thread(void *(*fn)(void *data))
{
	pthread_t thread;

	g_assert_cmpint(pthread_create(&thread, NULL, fn, NULL), ==, 0);
	pthread_join(thread, NULL);
}

static void test_held(void)
{
	lock_acquire(&core);
	lock_acquire(&cache);
	lock_assert_held(&core);
	lock_assert_held(&cache);
	lock_release(&core);
	lock_assert_held(&cache);
	lock_release(&cache);
	lock_acquire(&core);
	lock_assert_held(&core);
	lock_release(&core);
}

BREAKS_RULES static void test_not_held(void)
{
	if (g_test_subprocess())
		lock_assert_held(&core);
	else if (is_debug_build())
		assert_ends("core.lock is not held");
}

BREAKS_RULES static void test_held_by_another(void)
{
	if (g_test_subprocess()) {
		lock_acquire(&core);
		in_thread(assert_core);
		lock_release(&core);
	} else if (is_debug_build()) {
		assert_ends("core.lock is not held");
	}
}

BREAKS_RULES static void test_not_held_any_more(void)
{
	if (g_test_subprocess()) {
		lock_acquire(&core);
		lock_release(&core);
		lock_assert_held(&core);
	} else if (is_debug_build()) {
		assert_ends("core.lock is not held");
	}
}

BREAKS_RULES static void test_released_by_another(void)
{
	if (g_test_subprocess())
		lock_release(&core);
	else if (is_debug_build())
		assert_ends("core.lock is released by a thread that does not hold it");
}

BREAKS_RULES static void test_out_of_order(void)
{
	if (g_test_subprocess()) {
		lock_acquire(&cache);
		lock_acquire(&core);
	} else if (is_debug_build()) {
		assert_ends("core.lock is acquired by a thread that holds cache.lock");
	}
}

BREAKS_RULES static void test_two_of_a_rank(void)
{
	if (g_test_subprocess()) {
		lock_acquire(&core);
		lock_acquire(&other_core);
	} else if (is_debug_build()) {
		assert_ends("core.lock is acquired by a thread that holds core.lock");
	}
}

BREAKS_RULES static void test_twice(void)
{
	if (g_test_subprocess()) {
		lock_acquire(&core);
		lock_acquire(&core);
	} else if (is_debug_build()) {
		assert_ends("core.lock is acquired by the thread that holds it");
	}
}

static void use_other(void *data)
{
	lock_acquire(&other_core);
	lock_assert_held(&other_core);
	lock_release(&other_core);
}

/* What the device does meanwhile may need another pool, and holds nothing then. */
static void test_as_another(void)
{
	lock_acquire(&core);
	lock_as_another(use_other, NULL);
	lock_assert_held(&core);
	lock_release(&core);
}

static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static bool done;

static void *wake(void *data)
{
	lock_acquire(&core);
	done = true;
	pthread_cond_signal(&woken);
	lock_release(&core);
	return NULL;
}

/* A wait lets others have the lock, and has it again in the end. */
static void test_wait(void)
{
	pthread_t thread;
	int err;

	lock_acquire(&core);
	err = pthread_create(&thread, NULL, wake, NULL);
	g_assert_cmpint(err, ==, 0);
	while (!done)
		lock_wait(&core, &woken);
	lock_assert_held(&core);
	lock_release(&core);
	pthread_join(thread, NULL);
}

#define CONTENDERS 4
#define TURNS 20000

static struct brief_lock brief;
static uint64_t turns;

/* The one who has the lock gives way now and then, so that the others have to sleep. */
static void *take_turns(void *data)
{
	for (int i = 0; i < TURNS; i++) {
		uint64_t seen;

		brief_acquire(&brief);
		seen = turns;
		if (i % 64 == 0)
			g_thread_yield();
		turns = seen + 1;
		brief_release(&brief);
	}
	return NULL;
}

/* None of what several threads do under the lock is lost, and each of them gets it in the end. */
static void test_brief(void)
{
	pthread_t threads[CONTENDERS];

	brief_init(&brief, LOCK_CACHE);
	for (int i = 0; i < CONTENDERS; i++) {
		int err = pthread_create(&threads[i], NULL, take_turns, NULL);

		g_assert_cmpint(err, ==, 0);
	}
	for (int i = 0; i < CONTENDERS; i++)
		pthread_join(threads[i], NULL);
	g_assert_cmpuint(turns, ==, CONTENDERS * TURNS);
}

static void *have_once(void *data)
{
	brief_acquire(&brief);
	brief_release(&brief);
	return NULL;
}

/* One who finds the lock taken is woken: were that left out, nearly all of these would sleep for good. */
static void test_brief_wakes(void)
{
	brief_init(&brief, LOCK_CACHE);
	for (int i = 0; i < 50; i++) {
		pthread_t thread;
		int err;

		brief_acquire(&brief);
		err = pthread_create(&thread, NULL, have_once, NULL);
		g_assert_cmpint(err, ==, 0);
		while (atomic_load(&brief.state) != BRIEF_CONTENDED)
			g_thread_yield();
		g_usleep(200);
		brief_release(&brief);
		pthread_join(thread, NULL);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/lock/held", test_held);
	g_test_add_func("/lock/not-held", test_not_held);
	g_test_add_func("/lock/held-by-another", test_held_by_another);
	g_test_add_func("/lock/not-held-any-more", test_not_held_any_more);
	g_test_add_func("/lock/released-by-another", test_released_by_another);
	g_test_add_func("/lock/out-of-order", test_out_of_order);
	g_test_add_func("/lock/two-of-a-rank", test_two_of_a_rank);
	g_test_add_func("/lock/twice", test_twice);
	g_test_add_func("/lock/as-another", test_as_another);
	g_test_add_func("/lock/wait", test_wait);
	g_test_add_func("/lock/brief", test_brief);
	g_test_add_func("/lock/brief-wakes", test_brief_wakes);
	return g_test_run();
}
