// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Default pools of a device that is reset: the next call begins a new one, whichever thread makes it. Each test has a
 * process of its own, as a default pool lasts as long as its process.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "api/api.h"
#include "host/backend.h"
#include "support/fixture.h"

static void run_child(void)
{
	g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
	g_test_trap_assert_passed();
}

static bool is_child(void)
{
	if (!g_test_subprocess()) {
		run_child();
		return false;
	}
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	return true;
}

static void assert_held(uint64_t pages)
{
	struct host_left left;

	backend_host_left(&left);
	g_assert_cmpuint(left.touched, ==, 0);
	g_assert_cmpuint(left.abandoned, ==, 0);
	/* Of the new pool, if there is one. */
	g_assert_cmpuint(left.reservations, <=, 1);
	g_assert_cmpuint(left.handles, ==, pages);
}

/* The first call after the reset, whichever it is, is of a new pool, and nothing of the old one is left. */
static void test_default(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	void *old, *ptr = NULL;

	if (!is_child())
		return;
	for (int i = 0; i < 3; i++) {
		assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));
		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, VPMM_HOST_STREAM_PER_THREAD));
		assert_ok(vpmm_free(NULL, ptr, VPMM_HOST_STREAM_PER_THREAD));
		assert_ok(vpmm_host_stream_submit(NULL));

		assert_ok(vpmm_host_reset());

		assert_ok(vpmm_pool_stats(NULL, &stats));
		g_assert_cmpuint(stats.live, ==, 0);
		g_assert_cmpuint(stats.mallocs, ==, 0);
		assert_held(0);
		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
		memset(ptr, 1, PAGE);
		assert_held(1);
		assert_ok(vpmm_free(NULL, ptr, NULL));
		assert_ok(vpmm_pool_check(NULL));
	}
}

#define CALLS(X) \
	X(malloc, vpmm_malloc(NULL, ptr, PAGE, NULL)) \
	X(zero, vpmm_malloc_flags(NULL, ptr, PAGE, NULL, VPMM_ZERO)) \
	X(idle, vpmm_malloc_flags(NULL, ptr, PAGE, NULL, VPMM_IDLE)) \
	X(growable, vpmm_malloc_growable(NULL, ptr, PAGE, 2 * PAGE, NULL)) \
	X(trim, vpmm_pool_trim(NULL, 0, NULL)) \
	X(peers, vpmm_pool_set_peers(NULL, NULL, 0)) \
	X(retire, vpmm_stream_retire(NULL, NULL)) \
	X(check, vpmm_pool_check(NULL)) \
	X(abandon, vpmm_pool_abandon(NULL))

#define X(name, call) \
	static int call_##name(void **ptr) \
	{ \
		(void)ptr; \
		return call; \
	}
CALLS(X)
#undef X

static const struct call {
	const char *name;
	int (*call)(void **ptr);
} calls[] = {
#define X(name, call) { #name, call_##name },
	CALLS(X)
#undef X
};

static void test_default_each(gconstpointer data)
{
	const struct call *call = data;
	void *old, *ptr = NULL;

	if (!is_child())
		return;
	assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));
	assert_ok(vpmm_host_reset());

	assert_ok(call->call(&ptr));

	assert_held(ptr ? 1 : 0);
	assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));
	assert_ok(vpmm_pool_check(NULL));
}

/* A block of before is nobody's any more. */
static void test_default_old_pointer(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	void *old, *again;

	if (!is_child())
		return;
	assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));
	assert_ok(vpmm_host_reset());

	again = old;
	assert_error(vpmm_free(NULL, old, NULL), EINVAL, "no pool has an allocation");
	assert_error(vpmm_free(NULL, old, VPMM_STREAM_ANY), EINVAL, "no pool has an allocation");
	assert_error(vpmm_use(NULL, old, NULL), EINVAL, "no pool has an allocation");
	assert_error(vpmm_realloc(NULL, &again, PAGE, NULL), EINVAL, "no pool has an allocation");
	assert_error(vpmm_lookup(old, &allocation), EINVAL, "no pool has an allocation");

	g_assert_true(again == old);
	assert_held(0);
}

/* Whoever has the old pool's pointer gets an answer. */
static void test_default_old_pool(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	void *old, *ptr = NULL;

	if (!is_child())
		return;
	assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));
	assert_ok(vpmm_lookup(old, &allocation));
	assert_ok(vpmm_host_reset());
	assert_ok(vpmm_pool_check(NULL));

	assert_error(vpmm_malloc(allocation.pool, &ptr, PAGE, NULL), ESTALE, "was reset");
	assert_error(vpmm_free(allocation.pool, old, NULL), ESTALE, "was reset");
	assert_error(vpmm_pool_check(allocation.pool), ESTALE, "was reset");
	g_assert_cmpint(api_fail(allocation.pool, -EIO), ==, -EIO);
	vpmm_pool_destroy(allocation.pool);
	assert_ok(vpmm_pool_abandon(allocation.pool));

	g_assert_null(ptr);
	assert_held(0);
}

/* vpmm_lookup() tells the pool, which cannot be destroyed. */
static void test_default_destroy(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	void *ptr;

	if (!is_child())
		return;
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	assert_ok(vpmm_lookup(ptr, &allocation));

	vpmm_pool_destroy(allocation.pool);

	memset(ptr, 1, PAGE);
	assert_ok(vpmm_free(NULL, ptr, NULL));
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	assert_ok(vpmm_pool_check(NULL));
}

static gpointer allocate(gpointer data)
{
	void *ptr = NULL;

	(void)data;
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, VPMM_HOST_STREAM_PER_THREAD));
	memset(ptr, 1, PAGE);
	return ptr;
}

/* A call that had found the old pool fails, and logs that. */
static gpointer fail_late(gpointer old)
{
	for (int i = 0; i < 200; i++)
		g_assert_cmpint(api_fail(old, -ESTALE), ==, -ESTALE);
	return NULL;
}

/* All threads make their first call at once, and one is still in the old pool. */
static void test_default_threads(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	GThread *threads[8];
	void *old;

	if (!is_child())
		return;
	for (int i = 0; i < 20; i++) {
		assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));
		assert_ok(vpmm_lookup(old, &allocation));
		assert_ok(vpmm_host_reset());

		for (guint t = 0; t < G_N_ELEMENTS(threads); t++)
			threads[t] = g_thread_new("first", t ? allocate : fail_late, allocation.pool);
		for (guint t = 0; t < G_N_ELEMENTS(threads); t++)
			g_thread_join(threads[t]);

		assert_ok(vpmm_pool_check(NULL));
	}
}

/* How many threads call at the same moment after a reset, and how many resets there are. */
#define RACERS 3
#define RACES 100

struct race {
	pthread_barrier_t barrier;
	gint over;
};

static gpointer allocate_at_once(gpointer data)
{
	struct race *race = data;

	for (int i = 0; i < RACES; i++) {
		pthread_barrier_wait(&race->barrier);
		allocate(NULL);
		pthread_barrier_wait(&race->barrier);
	}
	return NULL;
}

/* The lock of the default pools is held meanwhile: a thread that has claimed the old pool has to wait for it. */
static gpointer make_others(gpointer data)
{
	struct race *race = data;
	void *ptr;

	assert_ok(vpmm_host_set_device(1));
	while (!g_atomic_int_get(&race->over)) {
		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
		assert_ok(vpmm_pool_abandon(NULL));
	}
	return NULL;
}

/* One thread ends the old pool. No other thread finds that pool again. */
static void test_default_race(void)
{
	struct race race = { .over = 0 };
	GThread *threads[RACERS], *others;
	void *old;

	if (!is_child())
		return;
	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	pthread_barrier_init(&race.barrier, NULL, RACERS + 1);
	others = g_thread_new("others", make_others, &race);
	for (int t = 0; t < RACERS; t++)
		threads[t] = g_thread_new("race", allocate_at_once, &race);
	for (int i = 0; i < RACES; i++) {
		assert_ok(vpmm_malloc(NULL, &old, PAGE, NULL));
		assert_ok(vpmm_host_reset());
		pthread_barrier_wait(&race.barrier);
		pthread_barrier_wait(&race.barrier);
	}
	g_atomic_int_set(&race.over, 1);
	for (int t = 0; t < RACERS; t++)
		g_thread_join(threads[t]);
	g_thread_join(others);
	pthread_barrier_destroy(&race.barrier);
	assert_held(RACERS);
}

/* All that a thread can ask of a pool that another ends at that moment. */
static gpointer use_old(gpointer old)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct CUstream_st *streams[] = { NULL, VPMM_HOST_STREAM_PER_THREAD, NULL };
	void *ptr = NULL;

	assert_ok(vpmm_host_stream_create(&streams[2]));
	for (int i = 0; i < 200; i++) {
		struct CUstream_st *stream = streams[i % 3];

		assert_error(vpmm_malloc(old, &ptr, PAGE, stream), ESTALE, "reset");
		assert_error(vpmm_malloc_flags(old, &ptr, 1000, stream, VPMM_IDLE), ESTALE, "reset");
		assert_error(vpmm_realloc(old, &(void *){ &stats }, PAGE, stream), ESTALE, "reset");
		assert_error(vpmm_free(old, &stats, stream), ESTALE, "reset");
		assert_error(vpmm_pool_stats(old, &stats), ESTALE, "reset");
		vpmm_pool_destroy(old);
	}
	g_assert_null(ptr);
	assert_ok(vpmm_host_stream_destroy(streams[2]));
	return NULL;
}

/* The old pool's pointer stays good for an answer, at whatever point of its end. */
static void test_default_old_pool_threads(gconstpointer trace)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	GThread *threads[6];
	void *ptr;

	if (!is_child())
		return;
	if (trace)
		g_setenv("VPMM_TRACE", trace, TRUE);
	for (int i = 0; i < 20; i++) {
		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
		assert_ok(vpmm_lookup(ptr, &allocation));
		assert_ok(vpmm_host_reset());

		for (guint t = 0; t < G_N_ELEMENTS(threads); t++)
			threads[t] = g_thread_new("old", t % 3 ? use_old : allocate, allocation.pool);
		for (guint t = 0; t < G_N_ELEMENTS(threads); t++)
			g_thread_join(threads[t]);

		assert_ok(vpmm_pool_check(NULL));
	}
}

/* Abandoned where nothing was reset: the next call begins anew. */
static void test_default_abandon(void)
{
	void *old, *ptr;

	if (!is_child())
		return;
	assert_ok(vpmm_pool_abandon(NULL));
	for (int i = 0; i < 100; i++) {
		assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));

		assert_ok(vpmm_pool_abandon(NULL));

		fixture_assert_nothing_left();
		assert_error(vpmm_free(NULL, old, NULL), EINVAL, "no pool has an allocation");
		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
		assert_ok(vpmm_pool_check(NULL));
		assert_ok(vpmm_pool_abandon(NULL));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/reset/default", test_default);
	fixture_add_rows("/reset/default-each", calls, test_default_each);
	g_test_add_func("/reset/default-old-pointer", test_default_old_pointer);
	g_test_add_func("/reset/default-old-pool", test_default_old_pool);
	g_test_add_func("/reset/default-destroy", test_default_destroy);
	g_test_add_func("/reset/default-threads", test_default_threads);
	g_test_add_func("/reset/default-race", test_default_race);
	g_test_add_data_func("/reset/default-old-pool-threads", NULL, test_default_old_pool_threads);
	g_test_add_data_func("/reset/default-old-pool-recorded", "/dev/null", test_default_old_pool_threads);
	g_test_add_func("/reset/default-abandon", test_default_abandon);
	return g_test_run();
}
