// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Calls that another thread makes while a tag is about to be paused or resumed, or is paused, leave its memory alone.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/arena.h"
#include "calls/budget.h"
#include "host/budget-fixture.h"
#include "host/tag-fixture.h"

#define BLOCKS 16

/**
 * struct beside - a pool with a tag that is paused and resumed
 * @f: the pool
 * @tag: the tag
 * @blocks: of the tag, with contents; the upper half is freed meanwhile
 * @plain: of no tag; the first is freed meanwhile
 * @peer: whether the other device can access the memory by the end
 */
struct beside {
	struct fixture f;
	vpmm_tag tag;
	void *blocks[BLOCKS];
	void *plain[4];
	bool peer;
};

static int beside_malloc(struct beside *it)
{
	void *ptr;
	int err = vpmm_malloc(it->f.pool, &ptr, 5 * PAGE, it->f.streams[1]);

	return err ? err : vpmm_free(it->f.pool, ptr, it->f.streams[1]);
}

/* The other memory of the pool is asked for before such a request fails. */
static int beside_exhaust(struct beside *it)
{
	struct vpmm_stats stats = fixture_stats(&it->f);
	void *ptr;
	int err;

	assert_ok(vpmm_pool_set_limit(it->f.pool, stats.mapped + PAGE));
	err = vpmm_malloc(it->f.pool, &ptr, BLOCKS * PAGE / 2, it->f.streams[1]);
	assert_ok(vpmm_pool_set_limit(it->f.pool, 0));
	return err ? err : vpmm_free(it->f.pool, ptr, it->f.streams[1]);
}

static int beside_malloc_tagged(struct beside *it)
{
	vpmm_tag before = vpmm_tag_set(it->tag);
	void *ptr;

	g_assert_cmpint(vpmm_malloc(it->f.pool, &ptr, PAGE, it->f.streams[1]), ==, -EBUSY);
	g_assert_cmpint(vpmm_malloc_growable(it->f.pool, &ptr, PAGE, 4 * PAGE, it->f.streams[1]), ==, -EBUSY);
	vpmm_tag_set(before);
	return 0;
}

static int beside_free(struct beside *it)
{
	void *ptr = it->plain[0];

	it->plain[0] = NULL;
	return vpmm_free(it->f.pool, ptr, it->f.streams[0]);
}

static int beside_realloc(struct beside *it)
{
	void *ptr = it->blocks[0];

	g_assert_cmpint(vpmm_realloc(it->f.pool, &ptr, 3 * PAGE, it->f.streams[0]), ==, -EBUSY);
	return vpmm_realloc(it->f.pool, &it->plain[1], 9 * PAGE, it->f.streams[0]);
}

static int beside_use(struct beside *it)
{
	return vpmm_use(it->f.pool, it->blocks[0], it->f.streams[1]);
}

static int beside_retire(struct beside *it)
{
	return vpmm_stream_retire(it->f.pool, it->f.streams[2]);
}

static int beside_graph_retire(struct beside *it)
{
	return vpmm_graph_retire(it->f.pool, 12345, it->f.streams[1]);
}

static int beside_trim(struct beside *it)
{
	return vpmm_pool_trim(it->f.pool, 0, NULL);
}

static int beside_trim_some(struct beside *it)
{
	size_t released;

	return vpmm_pool_trim(it->f.pool, 4 * PAGE, &released);
}

static int beside_query(struct beside *it)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	vpmm_tag before = vpmm_tag_set(it->tag);
	int err = vpmm_pool_query(it->f.pool, 7 * PAGE, it->f.streams[0], &forecast);

	vpmm_tag_set(before);
	return err;
}

static int beside_look(struct beside *it)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };

	free(fixture_dump(&it->f));
	tag_stats(it->f.pool, it->tag);
	fixture_stats(&it->f);
	assert_ok(vpmm_pool_check(it->f.pool));
	assert_ok(vpmm_pool_reset_peaks(it->f.pool));
	return vpmm_lookup(it->blocks[0], &allocation);
}

static int beside_limit(struct beside *it)
{
	assert_ok(vpmm_pool_set_limit(it->f.pool, PAGE));
	return vpmm_pool_set_limit(it->f.pool, 0);
}

static int beside_tag_limit(struct beside *it)
{
	assert_ok(vpmm_tag_limit(it->f.pool, it->tag, PAGE));
	return vpmm_tag_limit(it->f.pool, it->tag, 0);
}

static int beside_peers(struct beside *it)
{
	const int device = 1;
	int err = vpmm_pool_set_peers(it->f.pool, &device, 1);

	return err ? err : vpmm_pool_set_peers(it->f.pool, NULL, 0);
}

/* It fails, or the memory that comes back is accessible as well. */
static int beside_peers_stay(struct beside *it)
{
	const int device = 1;
	int err = vpmm_pool_set_peers(it->f.pool, &device, 1);

	it->peer = !err;
	return err;
}

static int beside_prepare(struct beside *it)
{
	return vpmm_pause_prepare(it->f.pool, it->tag);
}

static int beside_shareable(struct beside *it)
{
	void *ptr;
	int err = vpmm_malloc_flags(it->f.pool, &ptr, PAGE, it->f.streams[0], VPMM_SHAREABLE);

	return err ? err : vpmm_free(it->f.pool, ptr, it->f.streams[0]);
}

/* What another pool of a budget asks for. */
static int beside_budget(struct beside *it)
{
	struct vpmm_pool *arena = arena_of(pool_tags(it->f.pool), it->tag);
	struct backend *be = arena->core.backend;

	assert_ok(be->ops->enter(be));
	lock_acquire(&arena->core.lock);
	pool_budget_give(arena, BLOCKS * PAGE);
	lock_release(&arena->core.lock);
	be->ops->leave(be);
	return 0;
}

static const struct call {
	const char *name;
	int (*call)(struct beside *it);
} calls[] = {
	{ "malloc", beside_malloc },
	{ "exhaust", beside_exhaust },
	{ "malloc-tagged", beside_malloc_tagged },
	{ "free", beside_free },
	{ "realloc", beside_realloc },
	{ "use", beside_use },
	{ "stream-retire", beside_retire },
	{ "graph-retire", beside_graph_retire },
	{ "trim", beside_trim },
	{ "trim-some", beside_trim_some },
	{ "query", beside_query },
	{ "look", beside_look },
	{ "limit", beside_limit },
	{ "tag-limit", beside_tag_limit },
	{ "peers", beside_peers },
	{ "peers-stay", beside_peers_stay },
	{ "prepare", beside_prepare },
	{ "shareable", beside_shareable },
	{ "budget", beside_budget },
};

/* The call that another thread makes when the device copies next; NULL: none. */
static const struct call *pending;
static struct beside *beside;
static const struct backend_ops *plain_ops;

static void *make_call(void *data)
{
	const struct call *call = data;
	int err;

	assert_ok(vpmm_pool_check(beside->f.pool));
	for (unsigned int i = BLOCKS / 2; i < BLOCKS; i++)
		assert_ok(vpmm_free(beside->f.pool, beside->blocks[i], beside->f.streams[i % 2]));
	err = call->call(beside);
	if (err && err != -EBUSY && err != -ENOMEM && err != -ENOTSUP)
		g_error("%s: %s", call->name, vpmm_last_error());
	return NULL;
}

/* No lock is held here by who pauses or resumes. */
static int copy_beside(struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream)
{
	const struct call *call = pending;
	pthread_t thread;

	pending = NULL;
	if (call) {
		g_assert_cmpint(pthread_create(&thread, NULL, make_call, (void *)call), ==, 0);
		g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
	}
	return plain_ops->copy(be, to, from, size, stream);
}

/* Blocks with contents, some of them gathered from pieces that lie apart, so that there are old mappings. */
static void fill(struct beside *it)
{
	vpmm_tag before = vpmm_tag_set(it->tag);
	void *ptr;

	for (unsigned int i = 0; i < BLOCKS; i++)
		assert_ok(vpmm_malloc(it->f.pool, &it->blocks[i], PAGE, it->f.streams[0]));
	for (unsigned int i = 0; i < BLOCKS; i += 2)
		assert_ok(vpmm_free(it->f.pool, it->blocks[i], it->f.streams[0]));
	assert_ok(vpmm_malloc(it->f.pool, &ptr, BLOCKS / 2 * PAGE, it->f.streams[0]));
	assert_ok(vpmm_free(it->f.pool, ptr, it->f.streams[0]));
	for (unsigned int i = 0; i < BLOCKS; i += 2)
		assert_ok(vpmm_malloc(it->f.pool, &it->blocks[i], PAGE, it->f.streams[0]));
	/* The pause gives that back. */
	assert_ok(vpmm_malloc(it->f.pool, &ptr, BLOCKS / 2 * PAGE, it->f.streams[0]));
	assert_ok(vpmm_free(it->f.pool, ptr, it->f.streams[0]));
	vpmm_tag_set(before);
	for (unsigned int i = 0; i < BLOCKS; i++)
		tag_fill(it->blocks[i], PAGE, i);
	for (unsigned int i = 0; i < G_N_ELEMENTS(it->plain); i++)
		it->plain[i] = fixture_malloc(&it->f, 3, it->f.streams[0]);
	fixture_complete(it->f.streams[0]);
}

/* What a call is made beside. */
enum moment {
	WHILE_PAUSING,
	WHILE_PAUSED,
	WHILE_RESUMING,
	MOMENTS
};

static void try_call(const struct call *call, enum moment moment, const struct vpmm_opts *opts)
{
	struct beside it = { .tag = tag_get("a", VPMM_TAG_PAUSABLE) };
	struct backend_ops hooked;
	struct backend *be;

	fixture_open(&it.f, *opts);
	be = it.f.pool->core.backend;
	plain_ops = be->ops;
	hooked = *plain_ops;
	hooked.copy = copy_beside;
	fill(&it);
	beside = &it;
	be->ops = &hooked;
	pending = moment == WHILE_PAUSING ? call : NULL;
	assert_ok(vpmm_pause(it.f.pool, it.tag, 0));
	if (moment == WHILE_PAUSED)
		make_call((void *)call);
	pending = moment == WHILE_RESUMING ? call : NULL;
	assert_ok(vpmm_resume(it.f.pool, it.tag, it.f.streams[0]));
	g_assert_null(pending);
	be->ops = plain_ops;
	assert_ok(vpmm_pool_check(it.f.pool));
	for (unsigned int i = 0; i < BLOCKS / 2; i++) {
		g_assert_true(tag_is_filled(it.blocks[i], PAGE, i));
		g_assert_cmpint(!vpmm_host_check_access(1, it.blocks[i], PAGE), ==, it.peer);
		fixture_free(&it.f, it.blocks[i], it.f.streams[0]);
	}
	fixture_close(&it.f);
}

static void test_call(gconstpointer data)
{
	const struct vpmm_opts opts[] = {
		{ FIXTURE_PACKED, .extent_max = PAGE, .keep = 8 * PAGE },
		{ FIXTURE_PACKED, .budget = "beside:2G", .budget_thread = VPMM_BUDGET_THREAD_OFF },
		{ FIXTURE_OPTS },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		for (enum moment moment = 0; moment < MOMENTS; moment++)
			try_call(data, moment, &opts[i]);
	}
}

/* A thread frees the upper half of the blocks, and sets a limit after each. */
static void *free_and_limit(void *data)
{
	struct beside *it = data;

	for (unsigned int i = BLOCKS; i-- > BLOCKS / 2;) {
		assert_ok(vpmm_free(it->f.pool, it->blocks[i], it->f.streams[0]));
		assert_ok(vpmm_pool_set_limit(it->f.pool, PAGE));
	}
	assert_ok(vpmm_pool_set_limit(it->f.pool, 0));
	return NULL;
}

/* The same at any moment. */
static void test_limits(void)
{
	struct beside it = { .tag = tag_get("a", VPMM_TAG_PAUSABLE) };

	fixture_open(&it.f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	for (int round = 0; round < 40; round++) {
		pthread_t thread;

		for (unsigned int i = 0; i < BLOCKS; i++)
			it.blocks[i] = tag_malloc(it.f.pool, it.tag, PAGE, i, it.f.streams[0]);
		fixture_complete(it.f.streams[0]);
		if (round % 2)
			assert_ok(vpmm_pause(it.f.pool, it.tag, 0));
		g_assert_cmpint(pthread_create(&thread, NULL, free_and_limit, &it), ==, 0);
		/* The limit may be too low for a resume just then. */
		if (!(round % 2))
			assert_ok(vpmm_pause(it.f.pool, it.tag, 0));
		else if (vpmm_resume(it.f.pool, it.tag, it.f.streams[0]))
			g_assert_cmpint(errno, ==, ENOMEM);
		g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
		assert_ok(vpmm_resume(it.f.pool, it.tag, it.f.streams[0]));
		for (unsigned int i = 0; i < BLOCKS / 2; i++) {
			g_assert_true(tag_is_filled(it.blocks[i], PAGE, i));
			fixture_free(&it.f, it.blocks[i], it.f.streams[0]);
		}
	}
	fixture_close(&it.f);
}

static void *pause_beside(void *data)
{
	struct beside *it = data;

	assert_ok(vpmm_pause(it->f.pool, it->tag, 0));
	return NULL;
}

/* How often the backend is to be entered before another thread pauses the tag. */
static unsigned int enters_left;

static int enter_beside(struct backend *be)
{
	pthread_t thread;

	if (enters_left && !--enters_left) {
		g_assert_cmpint(pthread_create(&thread, NULL, pause_beside, beside), ==, 0);
		g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
	}
	return plain_ops->enter(be);
}

/* @enters: up to the pause. Return: whether the call entered the backend so often. */
static bool try_zero(unsigned int flags, unsigned int enters)
{
	struct beside it = { .tag = tag_get("a", VPMM_TAG_PAUSABLE) };
	struct backend_ops hooked;
	struct backend *be;
	void *ptr = NULL;
	bool paused;
	int err;

	fixture_open(&it.f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = it.f.pool->core.backend;
	plain_ops = be->ops;
	hooked = *plain_ops;
	hooked.enter = enter_beside;
	/* The arena is there, and has memory. */
	fixture_free(&it.f, tag_malloc(it.f.pool, it.tag, 4 * PAGE, 1, it.f.streams[0]), it.f.streams[0]);
	beside = &it;
	enters_left = enters;
	be->ops = &hooked;
	vpmm_tag_set(it.tag);
	err = vpmm_malloc_flags(it.f.pool, &ptr, 2 * PAGE, it.f.streams[0], flags);
	vpmm_tag_set(0);
	be->ops = plain_ops;
	paused = !enters_left;
	enters_left = 0;
	if (err)
		assert_error(err, EBUSY, "paused");
	else
		assert_ok(vpmm_free(it.f.pool, ptr, it.f.streams[0]));
	assert_ok(vpmm_pool_check(it.f.pool));
	g_assert_cmpuint(tag_stats(it.f.pool, it.tag).live, ==, 0);
	assert_ok(vpmm_resume(it.f.pool, it.tag, VPMM_STREAM_ANY));
	assert_ok(vpmm_pool_check(it.f.pool));
	fixture_close(&it.f);
	return paused;
}

/*
 * A pause at any moment of an allocation that is cleared: the block was there before and is paused, or there is none.
 */
static void test_zero(void)
{
	static const unsigned int flags[] = { VPMM_ZERO, VPMM_ZERO | VPMM_IDLE };

	for (size_t i = 0; i < G_N_ELEMENTS(flags); i++) {
		unsigned int enters = 1;

		while (try_zero(flags[i], enters))
			enters++;
		g_assert_cmpuint(enters, >, 2);
	}
}

/* After a reset of the peaks, memory of a paused tag counts from its resume on, also if a pause follows at once. */
static void test_peaks(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct vpmm_stats stats;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	tag_malloc(f.pool, tag, 8 * PAGE, 1, f.streams[0]);
	fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	assert_ok(vpmm_pool_reset_peaks(f.pool));
	for (int i = 0; i < 2; i++) {
		stats = fixture_stats(&f);
		g_assert_cmpuint(stats.mapped, ==, 2 * PAGE);
		g_assert_cmpuint(stats.peak_mapped, ==, stats.mapped);
		g_assert_cmpuint(stats.peak_taken, ==, stats.mapped);
		g_assert_cmpuint(stats.peak_live, ==, 10 * PAGE);
	}
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	assert_ok(vpmm_pause(f.pool, tag, 0));
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.peak_mapped, >=, 8 * PAGE);
	g_assert_cmpuint(stats.peak_taken, ==, 10 * PAGE);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	int result;

	budget_folder();
	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/pause-beside", calls, test_call);
	g_test_add_func("/pause-beside/limits", test_limits);
	g_test_add_func("/pause-beside/zero", test_zero);
	g_test_add_func("/pause-beside/peaks", test_peaks);
	result = g_test_run();
	budget_remove_folder();
	return result;
}
