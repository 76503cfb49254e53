// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A primary context that is reset: a driver dies of a use of its streams, events and memory pools, and this one aborts
 * the test. Memory, mappings and addresses stay, and have to be given back.
 */
#include <errno.h>

#include "api/api.h"
#include "core/cache.h"
#include "cuda/cuda-fixture.h"
#include "host/backend.h"

/* What the program has done since the reset. */
enum then {
	THEN_NOTHING,		/* its thread is still in the context */
	THEN_OUTSIDE,		/* its thread has left it */
	THEN_AGAIN		/* it uses the device again */
};

struct state {
	const char *name;
	enum then then;
	struct vpmm_opts opts;
};

static const struct state states[] = {
	{ "current", THEN_NOTHING, { FIXTURE_PACKED } },
	{ "outside", THEN_OUTSIDE, { FIXTURE_PACKED } },
	{ "again", THEN_AGAIN, { FIXTURE_PACKED } },
	{ "paged-current", THEN_NOTHING, { FIXTURE_OPTS } },
	{ "paged-outside", THEN_OUTSIDE, { FIXTURE_OPTS } },
	{ "paged-again", THEN_AGAIN, { FIXTURE_OPTS } },
};

/* The stream that use_all() leaves under capture. */
static drv_stream captured;

/* Something of everything: caches, pending frees on several streams, remapped blocks, a graph, other users, samples. */
static void use_all(struct vpmm_pool *pool)
{
	drv_stream streams[3];
	void *ptrs[6], *big, *small;

	for (size_t i = 0; i < G_N_ELEMENTS(streams); i++)
		assert_ok(cu.cuStreamCreate(&streams[i], DRV_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
		assert_ok(vpmm_malloc(pool, &ptrs[i], (i + 1) * PAGE, streams[i % 2]));
	assert_ok(vpmm_use(pool, ptrs[0], streams[2]));
	for (size_t i = 0; i < G_N_ELEMENTS(streams); i++)
		assert_ok(fake.submit(streams[i]));
	assert_ok(vpmm_malloc(pool, &small, 100, streams[0]));
	assert_ok(vpmm_free(pool, small, streams[0]));
	assert_ok(vpmm_malloc(pool, &small, 100, NULL));
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs) - 1; i++)
		assert_ok(vpmm_free(pool, ptrs[i], streams[i % 2]));
	assert_ok(vpmm_malloc(pool, &big, 9 * PAGE, streams[2]));
	assert_ok(vpmm_malloc(pool, &big, PAGE, NULL));
	assert_ok(vpmm_free(pool, big, NULL));
	captured = streams[2];
	assert_ok(cu.cuStreamBeginCapture(captured, DRV_STREAM_CAPTURE_MODE_RELAXED));
	assert_ok(vpmm_malloc(pool, &big, PAGE, streams[2]));
	assert_ok(vpmm_free(pool, big, streams[2]));
}

static struct vpmm_pool *reset_pool(const struct state *state)
{
	struct vpmm_opts opts = state->opts;
	struct vpmm_pool *pool;
	drv_context context;

	opts.backend = "cuda";
	enter_primary(0);
	assert_ok(vpmm_pool_create(&pool, &opts));
	use_all(pool);
	assert_ok(cu.cuDevicePrimaryCtxReset(0));
	if (state->then == THEN_OUTSIDE)
		leave_primary(0);
	if (state->then == THEN_AGAIN) {
		assert_ok(cu.cuCtxPopCurrent(&context));
		enter_primary(0);
	}
	return pool;
}

static void end(const struct state *state)
{
	if (state->then == THEN_AGAIN)
		assert_ok(cu.cuDevicePrimaryCtxRelease(0));
	if (state->then != THEN_OUTSIDE)
		leave_primary(0);
	assert_nothing_left();
}

static void test_destroy(gconstpointer data)
{
	struct vpmm_pool *pool;

	if (!use_fake())
		return;
	pool = reset_pool(data);

	vpmm_pool_destroy(pool);

	end(data);
}

static void test_abandon(gconstpointer data)
{
	struct vpmm_pool *pool;

	if (!use_fake())
		return;
	pool = reset_pool(data);

	assert_ok(vpmm_pool_abandon(pool));

	end(data);
}

/* Calls fail, on streams of before that every program knows the handles of, and on new ones. */
static void test_calls(gconstpointer data)
{
	const struct state *state = data;
	drv_stream handles[] = { NULL, DRV_STREAM_LEGACY, DRV_STREAM_PER_THREAD, NULL };
	struct vpmm_pool *pool;
	drv_stream created = NULL;
	void *ptr = NULL;

	if (!use_fake())
		return;
	pool = reset_pool(state);
	if (state->then == THEN_AGAIN) {
		assert_ok(cu.cuStreamCreate(&created, DRV_STREAM_NON_BLOCKING));
		handles[3] = created;
	}

	for (size_t i = 0; i < G_N_ELEMENTS(handles); i++) {
		assert_error(vpmm_malloc(pool, &ptr, PAGE, handles[i]), ESTALE, "was reset");
		assert_error(vpmm_malloc(pool, &ptr, 100, handles[i]), ESTALE, "was reset");
		assert_error(vpmm_free(pool, &ptr, handles[i]), ESTALE, "was reset");
		assert_error(vpmm_stream_retire(pool, handles[i]), ESTALE, "was reset");
	}
	assert_error(vpmm_pool_check(pool), ESTALE, "was reset");

	g_assert_null(ptr);
	vpmm_pool_destroy(pool);
	if (state->then == THEN_AGAIN)
		assert_ok(cu.cuStreamDestroy(created));
	end(state);
}

/* The program has seen to it that all is done, and resets the device then. */
static void test_abandon_early(gconstpointer data)
{
	const struct state *state = data;
	struct vpmm_opts opts = state->opts;
	struct vpmm_pool *pool;

	if (!use_fake())
		return;
	opts.backend = "cuda";
	enter_primary(0);
	assert_ok(vpmm_pool_create(&pool, &opts));
	use_all(pool);
	assert_ok(cu.cuDevicePrimaryCtxRetain(&(drv_context){ NULL }, 0));

	assert_ok(vpmm_pool_abandon(pool));

	assert_ok(cu.cuDevicePrimaryCtxReset(0));
	assert_ok(cu.cuDevicePrimaryCtxRelease(0));
	leave_primary(0);
	assert_nothing_left();
}

static bool is_active(int device)
{
	unsigned int flags;
	int active;

	assert_ok(cu.cuDevicePrimaryCtxGetState(device, &flags, &active));
	return active;
}

/* Nothing of the library keeps the context alive once the pools are gone. */
static void test_last_release(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED };
	struct vpmm_pool *pool;
	drv_context context;

	if (!use_fake())
		return;
	opts.backend = "cuda";
	for (int i = 0; i < 2; i++) {
		enter_primary(0);
		assert_ok(vpmm_pool_create(&pool, &opts));
		if (i)
			vpmm_pool_destroy(pool);
		else
			assert_ok(vpmm_pool_abandon(pool));
		g_assert_true(is_active(0));
		assert_ok(cu.cuCtxPopCurrent(&context));

		assert_ok(cu.cuDevicePrimaryCtxRelease(0));

		g_assert_false(is_active(0));
		assert_nothing_left();
	}
}

/* A context of the program's own is abandoned before it is destroyed. */
static void test_own_context(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED };
	drv_context context, popped;
	struct vpmm_pool *pool;
	drv_graph graph;

	opts.backend = "cuda";
	assert_ok(cu.cuInit(0));
	assert_ok(fake.context_create(&context, 1));
	assert_ok(cu.cuCtxPushCurrent(context));
	assert_ok(vpmm_pool_create(&pool, &opts));
	use_all(pool);
	/* The driver does not wait while a stream is under capture. */
	assert_ok(cu.cuStreamEndCapture(captured, &graph));
	assert_ok(cu.cuGraphDestroy(graph));
	assert_ok(cu.cuCtxSynchronize());

	assert_ok(vpmm_pool_abandon(pool));

	g_assert_cmpint(fake.retained(1), ==, 0);
	assert_ok(cu.cuCtxPopCurrent(&popped));
	fake.context_destroy(context);
}

/* Where the driver has shut down meanwhile, host memory is freed, and that is all. */
static void test_shut_down(void)
{
	struct vpmm_pool *pool;

	if (!use_fake())
		return;
	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
		g_test_trap_assert_passed();
		return;
	}
	pool = reset_pool(&states[1]);
	fake.fail("cuDevicePrimaryCtxRetain", 0, UINT_MAX, DRV_ERROR_DEINITIALIZED);
	fake.fail("cuDevicePrimaryCtxGetState", 0, UINT_MAX, DRV_ERROR_DEINITIALIZED);

	assert_ok(vpmm_pool_abandon(pool));
}

/* Default pools, in processes of their own */

static bool is_child(void)
{
	if (!use_fake())
		return false;
	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
		g_test_trap_assert_passed();
		return false;
	}
	g_setenv("VPMM_BACKEND", "cuda", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	return true;
}

static void assert_handles(uint64_t count)
{
	struct host_left left;

	fake.left(&left);
	g_assert_cmpuint(left.handles, ==, count);
	g_assert_cmpuint(left.mappings, ==, count);
	g_assert_cmpuint(left.abandoned, ==, 0);
}

/* The cache of the old pool has what the first call after the reset asks for. Its memory must not be served. */
static void test_default(gconstpointer data)
{
	enum then then = (enum then)GPOINTER_TO_INT(data);
	struct vpmm_stats stats = { .size = sizeof(stats) };
	int retains = 1;
	drv_context context;
	void *ptr;

	if (!is_child())
		return;
	enter_primary(1);
	for (int i = 0; i < 70; i++) {
		assert_ok(vpmm_malloc(NULL, &ptr, 3 * PAGE, NULL));
		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
		assert_ok(vpmm_free(NULL, ptr, NULL));
		assert_ok(fake.submit(NULL));
		assert_ok(cu.cuDevicePrimaryCtxReset(1));
		if (then == THEN_AGAIN) {
			assert_ok(cu.cuDevicePrimaryCtxRetain(&context, 1));
			retains++;
		}

		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));

		assert_handles(1);
		assert_ok(vpmm_pool_stats(NULL, &stats));
		g_assert_cmpuint(stats.mallocs, ==, 1);
		g_assert_cmpuint(stats.live, ==, PAGE);
		g_assert_cmpint(fake.retained(1), ==, retains + 1);
		assert_ok(vpmm_free(NULL, ptr, NULL));
		assert_ok(vpmm_pool_check(NULL));
	}
	g_assert_cmpint(fake.retained(0), ==, 0);
	assert_ok(vpmm_pool_abandon(NULL));
	assert_ok(cu.cuCtxPopCurrent(&context));
	while (retains--)
		assert_ok(cu.cuDevicePrimaryCtxRelease(1));
	g_assert_false(is_active(1));
	assert_handles(0);
}

/*
 * As cudaDeviceReset() does it: the program gives its retain up as well, and its thread stays in the context. The first
 * pool of the process can come behind that, too.
 */
static void test_default_given_up(void)
{
	drv_context context;
	unsigned int lost;
	void *ptr;

	if (!is_child())
		return;
	for (int i = 0; i < 5; i++) {
		enter_primary(1);
		if (i) {
			assert_ok(vpmm_malloc(NULL, &ptr, 3 * PAGE, NULL));
			assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
			assert_ok(vpmm_free(NULL, ptr, NULL));
		}
		assert_ok(cu.cuDevicePrimaryCtxRelease(1));
		assert_ok(cu.cuDevicePrimaryCtxReset(1));
		lost = fake.lost();

		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));

		/* Tools report calls of the driver that fail. */
		g_assert_cmpuint(fake.lost(), <=, lost + 1);
		assert_handles(1);
		g_assert_cmpint(fake.retained(1), ==, 1);
		assert_ok(vpmm_pool_check(NULL));
		assert_ok(vpmm_free(NULL, ptr, NULL));
		assert_ok(vpmm_pool_abandon(NULL));
		assert_ok(cu.cuCtxPopCurrent(&context));
		g_assert_false(is_active(1));
		assert_handles(0);
	}
}

/* A small request of before and a pointer of before. */
static void test_default_old_pointer(void)
{
	void *old, *small;

	if (!is_child())
		return;
	enter_primary(0);
	assert_ok(vpmm_malloc(NULL, &old, 3 * PAGE, NULL));
	assert_ok(vpmm_malloc(NULL, &small, 100, NULL));
	assert_ok(cu.cuDevicePrimaryCtxReset(0));
	enter_primary(0);

	assert_error(vpmm_free(NULL, old, NULL), EINVAL, "no pool has an allocation");
	assert_error(vpmm_free(NULL, small, NULL), EINVAL, "no pool has an allocation");

	assert_handles(0);
}

/* Later streams look for their caches in the old pool without entering it, wherever there is one of an old stream. */
static void test_default_old_pool(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	drv_stream stream;
	void *ptr, *none = NULL;

	if (!is_child())
		return;
	enter_primary(0);
	for (int i = 0; i < CACHE_KNOWN; i++) {
		assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
		assert_ok(vpmm_malloc(NULL, &ptr, 1000, stream));
	}
	assert_ok(vpmm_lookup(ptr, &allocation));
	assert_ok(cu.cuDevicePrimaryCtxReset(0));
	enter_primary(0);
	assert_ok(vpmm_pool_check(NULL));

	for (int i = 0; i < CACHE_KNOWN; i++) {
		assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
		assert_error(vpmm_malloc(allocation.pool, &none, 1000, stream), ESTALE, "vpmm_malloc");
		assert_error(vpmm_free(allocation.pool, ptr, stream), ESTALE, "vpmm_free");
	}

	g_assert_null(none);
	assert_handles(0);
}

/*
 * A thread that has found its place among those of the default pools, and goes on after a reset, finds the pool of
 * then:
 * no later one, which may be another device's.
 */
static void test_default_place(void)
{
	const struct api_here *found;
	struct api_here before;
	void *ptr;

	if (!is_child())
		return;
	enter_primary(0);
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	found = api_defaults.here[0];
	before = *found;
	assert_ok(cu.cuDevicePrimaryCtxReset(0));
	enter_primary(0);
	assert_ok(vpmm_pool_abandon(NULL));
	enter_primary(1);

	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));

	g_assert_cmpint(api_defaults.here[0]->pool->core.device, ==, 1);
	g_assert_nonnull(before.place);
	g_assert_cmpmem(found, sizeof(*found), &before, sizeof(before));
}

/* Notices the reset, and ends what was opened. */
static gpointer give_up(gpointer opened)
{
	struct backend *be = opened;

	g_assert_cmpint(be->ops->enter(be), ==, -ESTALE);
	assert_ok(be->ops->abandon(be));
	be->ops->leave(be);
	return NULL;
}

/* A thread that has entered the device from outside leaves it after the reset: what the program has retained stays. */
static void test_left_later(void)
{
	struct backend *be;
	drv_context context;

	enter_primary(0);
	assert_ok(backend_cuda.open(0, &be));
	assert_ok(cu.cuCtxPopCurrent(&context));
	assert_ok(be->ops->enter(be));
	assert_ok(cu.cuDevicePrimaryCtxReset(0));
	g_thread_join(g_thread_new("give-up", give_up, be));
	be->ops->leave(be);
	g_assert_cmpuint(fake.depth(), ==, 0);
	g_assert_cmpint(fake.retained(0), ==, 1);
	be->ops->close(be);
	assert_ok(cu.cuDevicePrimaryCtxRelease(0));
}

void cuda_reset_tests(void)
{
	fixture_add_rows("/cuda/reset/destroy", states, test_destroy);
	fixture_add_rows("/cuda/reset/abandon", states, test_abandon);
	fixture_add_rows("/cuda/reset/calls", states, test_calls);
	g_test_add_data_func("/cuda/reset/abandon-early/packed", &states[0], test_abandon_early);
	g_test_add_data_func("/cuda/reset/abandon-early/paged", &states[3], test_abandon_early);
	g_test_add_func("/cuda/reset/last-release", test_last_release);
	cuda_add("/cuda/reset/own-context", test_own_context);
	cuda_add("/cuda/reset/left-later", test_left_later);
	g_test_add_func("/cuda/reset/shut-down", test_shut_down);
	g_test_add_data_func("/cuda/reset/default/again", GINT_TO_POINTER(THEN_AGAIN), test_default);
	g_test_add_data_func("/cuda/reset/default/at-once", GINT_TO_POINTER(THEN_NOTHING), test_default);
	g_test_add_func("/cuda/reset/default/given-up", test_default_given_up);
	g_test_add_func("/cuda/reset/default-old-pointer", test_default_old_pointer);
	g_test_add_func("/cuda/reset/default-old-pool", test_default_old_pool);
	g_test_add_func("/cuda/reset/default-place", test_default_place);
}
