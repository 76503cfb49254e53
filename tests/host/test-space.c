// SPDX-License-Identifier: LGPL-2.1-or-later
/* The address space of a process: many pools, and what they leave to the rest of it. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "util/assume.h"

#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)
#define POOLS 256
#define THREADS 100

/* A pool of the defaults, whatever VPMM_VA_SIZE says. */
static const struct vpmm_opts defaults = { .size = sizeof(defaults), .backend = "host" };

static bool can_reserve(size_t size)
{
	void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return range != MAP_FAILED && !munmap(range, size);
}

/*
 * In a process of its own, as what the pools have reserved shows in later ones; and not under a sanitizer or valgrind.
 */
static bool runs_here(void)
{
	if (g_test_subprocess())
		return true;
	if (SANITIZED || !can_reserve(64 * TIB) || !can_reserve(32 * TIB)) {
		g_test_skip("the process has less address space than x86-64 gives");
		return false;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
	return false;
}

static uint64_t reserved(struct vpmm_pool *pool)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(pool, &stats));
	return stats.reserved;
}

/* A pool that has a small and a large block. */
static struct vpmm_pool *open_used(const struct vpmm_opts *opts)
{
	struct vpmm_pool *pool;
	void *ptr;

	assert_ok(vpmm_pool_create(&pool, opts));
	assert_ok(vpmm_malloc(pool, &ptr, 512, NULL));
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	return pool;
}

static void *wait_for(void *gate)
{
	pthread_barrier_wait(gate);
	return NULL;
}

/* Threads with the stacks of the default size, all at once. */
static void start_threads(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_t gate;

	pthread_barrier_init(&gate, NULL, THREADS + 1);
	for (size_t i = 0; i < THREADS; i++)
		g_assert_cmpint(pthread_create(&threads[i], NULL, wait_for, &gate), ==, 0);
	pthread_barrier_wait(&gate);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&gate);
}

static void assert_room_left(size_t size)
{
	void *heap = g_try_malloc(GIB);

	g_assert_nonnull(heap);
	g_free(heap);
	g_assert_true(can_reserve(size));
	start_threads();
}

/* The first pools have all that they ever had, the last enough for a device, and the process more than that. */
static void test_many_pools(void)
{
	struct vpmm_pool *pools[POOLS];

	if (!runs_here())
		return;
	for (size_t i = 0; i < POOLS; i++) {
		pools[i] = open_used(&defaults);
		g_assert_cmpuint(reserved(pools[i]), >=, i < 2 ? 16 * TIB : 32 * GIB);
	}
	assert_room_left(256 * GIB);
	for (size_t i = 0; i < POOLS; i++)
		vpmm_pool_destroy(pools[i]);
	fixture_assert_nothing_left();
	/* What is given back counts no more. */
	pools[0] = open_used(&defaults);
	g_assert_cmpuint(reserved(pools[0]), ==, 16 * TIB);
	vpmm_pool_destroy(pools[0]);
}

/* A pool that comes late grows beyond its share: by blocks, and by one block. */
static void test_late_pool_grows(void)
{
	struct vpmm_pool *pools[POOLS];
	void *blocks[40], *large;

	if (!runs_here())
		return;
	g_setenv("VPMM_HOST_CAPACITY", "8T", TRUE);
	for (size_t i = 0; i < POOLS; i++)
		pools[i] = open_used(&defaults);
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
		assert_ok(vpmm_malloc(pools[POOLS - 1], &blocks[i], 10 * GIB, NULL));
	assert_ok(vpmm_malloc(pools[POOLS - 1], &large, 2 * TIB, NULL));
	assert_ok(vpmm_pool_check(pools[POOLS - 1]));
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
		assert_ok(vpmm_free(pools[POOLS - 1], blocks[i], NULL));
	assert_ok(vpmm_free(pools[POOLS - 1], large, NULL));
	for (size_t i = 0; i < POOLS; i++)
		vpmm_pool_destroy(pools[i]);
	fixture_assert_nothing_left();
}

/* Whoever sets the size has it, in a late pool as well. */
static void test_set_size_stays(void)
{
	struct vpmm_opts opts = defaults;
	struct vpmm_pool *pools[32];

	if (!runs_here())
		return;
	for (size_t i = 0; i < G_N_ELEMENTS(pools); i++)
		pools[i] = open_used(&defaults);
	vpmm_pool_destroy(pools[31]);
	opts.va_size = 4 * TIB;
	pools[31] = open_used(&opts);
	g_assert_cmpuint(reserved(pools[31]), ==, 8 * TIB);
	for (size_t i = 0; i < G_N_ELEMENTS(pools); i++)
		vpmm_pool_destroy(pools[i]);
}

/* Where others have most of the address space, the pools leave some of the rest. */
static void test_little_is_left(void)
{
	struct vpmm_pool *pools[64];
	size_t piece = 64 * TIB;

	if (!runs_here())
		return;
	/* Others leave less than 4 TiB in one piece. */
	while (piece >= 4 * TIB) {
		if (mmap(NULL, piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
			piece /= 2;
	}
	for (size_t i = 0; i < G_N_ELEMENTS(pools); i++)
		pools[i] = open_used(&defaults);
	assert_room_left(8 * GIB);
	for (size_t i = 0; i < G_N_ELEMENTS(pools); i++)
		vpmm_pool_destroy(pools[i]);
}

static const struct backend_ops *whole_ops;

static int reserve_little(struct backend *be, size_t size, size_t align, uint64_t *va)
{
	return size > GIB ? -ENOMEM : whole_ops->reserve(be, size, align, va);
}

static int reserve_little_at(struct backend *be, uint64_t va, size_t size)
{
	return size > GIB ? -ENOMEM : whole_ops->reserve_at(be, va, size);
}

/* A driver that has address space in small pieces alone, as those of WSL and of small boards: the pool takes these. */
static void test_driver_has_little(void)
{
	struct settings settings;
	struct backend_ops little;
	struct vpmm_pool *pool;
	void *blocks[40], *ptr;
	struct backend *be;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, 0);
		g_test_trap_assert_passed();
		return;
	}
	g_setenv("VPMM_HOST_CAPACITY", "8G", TRUE);
	assert_ok(backend_open("host", NULL, &be));
	whole_ops = be->ops;
	little = *whole_ops;
	little.reserve = reserve_little;
	little.reserve_at = reserve_little_at;
	be->ops = &little;
	assert_ok(settings_from_opts(&settings, &defaults));
	assert_ok(be->ops->enter(be));
	assert_ok(pool_new(&pool, be, &settings));
	be->ops->leave(be);

	assert_ok(vpmm_malloc(pool, &ptr, 512, NULL));
	assert_ok(vpmm_free(pool, ptr, NULL));
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
		assert_ok(vpmm_malloc(pool, &blocks[i], GIB / 16, NULL));
	g_assert_cmpuint(reserved(pool), >=, 3 * GIB);
	g_assert_cmpint(vpmm_malloc(pool, &ptr, 2 * GIB, NULL), ==, -ENOMEM);
	g_assert_nonnull(strstr(vpmm_last_error(), "VPMM_VA_SIZE"));
	/* A block of free parts needs no more of it than its size. */
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i += 2)
		assert_ok(vpmm_free(pool, blocks[i], NULL));
	assert_ok(vpmm_malloc(pool, &ptr, GIB, NULL));
	assert_ok(vpmm_pool_check(pool));
	be->ops = whole_ops;
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* A reservation that is refused names the variable. */
static void test_refusal_names_variable(void)
{
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_CHUNKS(3) });
	fixture_malloc(&f, 3, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_reserve, 0, UINT_MAX, -ENOMEM);
	assert_error(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]), ENOMEM, "VPMM_VA_SIZE");
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/space/many-pools", test_many_pools);
	g_test_add_func("/space/late-pool-grows", test_late_pool_grows);
	g_test_add_func("/space/set-size-stays", test_set_size_stays);
	g_test_add_func("/space/little-is-left", test_little_is_left);
	g_test_add_func("/space/driver-has-little", test_driver_has_little);
	g_test_add_func("/space/refusal-names-variable", test_refusal_names_variable);
	return g_test_run();
}
