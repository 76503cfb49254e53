// SPDX-License-Identifier: LGPL-2.1-or-later
/* What streams keep of what they free: who has it back, who has it when, and what it costs. */
#include <errno.h>
#include <pthread.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "core/cache-flush.h"
#include "host/cache-fixture.h"
#include "support/fault.h"

static void test_hit(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	void *a, *b = NULL;

	open_cached(&f);
	a = fixture_malloc(&f, 3, f.streams[0]);
	lock_acquire(&f.pool->core.lock);
	assert_ok(vpmm_free(f.pool, a, f.streams[0]));
	assert_ok(vpmm_malloc(f.pool, &b, 3 * PAGE - 1, f.streams[0]));
	lock_release(&f.pool->core.lock);

	g_assert_true(b == a);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.mallocs, ==, 2);
	g_assert_cmpuint(stats.frees, ==, 1);
	g_assert_cmpuint(stats.reuses, ==, 1);
	g_assert_cmpuint(stats.live, ==, 3 * PAGE);
	g_assert_cmpuint(records(&f), ==, 1);
	fixture_close(&f);
}

/* No driver call but those that name the stream, and no record either once all is calm. */
static void test_calls(void)
{
	static const enum backend_op none[] = {
		BACKEND_OP_event_record, BACKEND_OP_event_create, BACKEND_OP_event_query, BACKEND_OP_stream_wait,
		BACKEND_OP_map, BACKEND_OP_create, BACKEND_OP_info,
	};
	uint64_t before[G_N_ELEMENTS(none)];
	struct fixture f;
	void *ptr;

	open_cached(&f);
	calm(&f, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(none); i++)
		before[i] = backend_fault_calls(f.pool->core.backend, none[i]);
	for (int i = 0; i < 1000; i++) {
		assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]));
		assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	}

	for (size_t i = 0; i < G_N_ELEMENTS(none); i++)
		g_assert_cmpuint(backend_fault_calls(f.pool->core.backend, none[i]), ==, before[i]);
	fixture_close(&f);
}

/* The last that was freed comes first; another size takes what is cached, merged as if it never was. */
static void test_miss(void)
{
	struct fixture f;
	void *a, *b, *c, *d;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	c = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_true(c == a);
	fixture_free(&f, c, f.streams[0]);
	d = fixture_malloc(&f, 3, f.streams[0]);

	g_assert_true(d == a);
	assert_layout(&f, "[+3][-1][1]");
	g_assert_cmpuint(fixture_stats(&f).grows, ==, 3);
	fixture_close(&f);
}

/* Each miss flushes what was freed behind an event, and the events that have passed serve again. */
static void test_misses_create_no_events(void)
{
	uint64_t created = 0, recorded = 0;
	struct fixture f;

	open_cached(&f);
	for (int i = 0; i < 120; i++) {
		fixture_free(&f, fixture_malloc(&f, (size_t)(2 + i % 2), f.streams[0]), f.streams[0]);
		if (i == 20) {
			created = backend_fault_calls(f.pool->core.backend, BACKEND_OP_event_create);
			recorded = backend_fault_calls(f.pool->core.backend, BACKEND_OP_event_record);
		}
	}

	g_assert_cmpuint(backend_fault_calls(f.pool->core.backend, BACKEND_OP_event_record), >=, recorded + 99);
	g_assert_cmpuint(backend_fault_calls(f.pool->core.backend, BACKEND_OP_event_create), ==, created);
	fixture_close(&f);
}

static void test_foreign_free(void)
{
	struct fixture f;
	void *a;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free(&f, a, f.streams[1]);
	g_assert_true(fixture_malloc(&f, 2, f.streams[1]) == a);
	fixture_free(&f, a, f.streams[1]);

	g_assert_true(fixture_malloc(&f, 2, f.streams[1]) == a);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

/* Who frees another stream's block comes after what that had freed it before. */
static void test_foreign_free_of_marked(void)
{
	struct fixture f;
	void *a;

	open_cached(&f);
	a = reused(&f, 2, f.streams[0]);
	fixture_free(&f, a, f.streams[1]);

	g_assert_true(fixture_malloc(&f, 2, f.streams[1]) == a);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1);
	assert_waits(f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_close(&f);
}

/* Where that was not marked, nobody has the memory until its stream calls again, and then after both. */
static void test_foreign_free_of_unmarked(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	a = fixture_malloc(&f, 1, f.streams[0]);
	calm(&f, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	a = reused(&f, 1, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[1]);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.live, ==, 0);
	assert_error(vpmm_free(f.pool, a, f.streams[0]), EINVAL, "allocation");
	assert_error(vpmm_free(f.pool, a, f.streams[1]), EINVAL, "allocation");
	b = fixture_malloc(&f, 1, f.streams[1]);
	g_assert_true(b != a);
	fixture_complete(f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);

	g_assert_true(b <= a && (char *)a < (char *)b + 2 * PAGE);
	assert_waits(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

/* Once its own stream has recorded an event for whatever reason, and is past it, others have it without that stream. */
static void test_stranded_is_found(void)
{
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	b = fixture_malloc(&f, LIMIT_PAGES + 1, f.streams[0]);
	calm(&f, f.streams[0]);
	a = reused(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[1]);
	fixture_free(&f, b, f.streams[0]);
	fixture_malloc(&f, LIMIT_PAGES + 1, f.streams[2]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[2]) != a);
	fixture_complete(f.streams[0]);

	g_assert_true(fixture_malloc(&f, 1, f.streams[2]) == a);
	fixture_close(&f);
}

/* A mark is seen by others later than an event that was recorded after it, and is the earlier one all the same. */
static void test_order_of_events(void)
{
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[1]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	fixture_free_at_work(&f, a, f.streams[0]);
	fixture_free_at_work(&f, b, f.streams[0]);
	assert_ok(vpmm_host_stream_complete(f.streams[0], 1));

	g_assert_true(fixture_malloc(&f, 2, f.streams[1]) == a);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).steals, ==, 1);
	fixture_close(&f);
}

/* What is flushed is as old as its free, whatever its size. */
static void test_order_of_age(void)
{
	static const size_t order[] = { 3, 7, 1, 8, 2, 6, 4, 5 };
	void *ptrs[G_N_ELEMENTS(order) + 1];
	struct fixture f;
	GList *link;

	open_cached(&f);
	for (size_t pages = 1; pages <= G_N_ELEMENTS(order); pages++) {
		ptrs[pages] = fixture_malloc(&f, pages, f.streams[0]);
		fixture_malloc(&f, 1, f.streams[0]);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(order); i++)
		fixture_free(&f, ptrs[order[i]], f.streams[0]);
	g_free(fixture_layout(&f));

	link = f.pool->core.regions.by_age.head;
	for (size_t i = 0; i < G_N_ELEMENTS(order); i++, link = link->next)
		g_assert_cmpuint(((struct region *)link->data)->size, ==, order[i] * PAGE);
	fixture_close(&f);
}

static void test_double_free(void)
{
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	assert_error(vpmm_free(f.pool, a, f.streams[0]), EINVAL, "vpmm_free: 0x");
	assert_error(vpmm_free(f.pool, a, f.streams[1]), EINVAL, "no allocation of this pool starts there");
	fixture_free(&f, b, f.streams[1]);
	assert_error(vpmm_free(f.pool, b, f.streams[0]), EINVAL, "allocation");
	assert_error(vpmm_free(f.pool, b, f.streams[1]), EINVAL, "allocation");
	assert_error(vpmm_free(f.pool, (char *)a + PAGE, f.streams[0]), EINVAL, "allocation");

	g_assert_cmpuint(fixture_stats(&f).frees, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* Marked memory is as good as any: another stream has it, after its event. */
static void test_marked_is_for_all(void)
{
	struct fixture f;
	void *a;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	assert_ok(vpmm_host_stream_destroy(f.streams[0]));
	assert_ok(vpmm_host_stream_create(&f.streams[0]));

	g_assert_true(fixture_malloc(&f, 2, f.streams[1]) == a);
	g_assert_cmpuint(fixture_stats(&f).grows, ==, 1);
	fixture_close(&f);
}

static void test_unmarked_is_its_own(void)
{
	struct fixture f;
	void *a, *b, *c;

	open_cached(&f);
	calm(&f, f.streams[0]);
	a = reused(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	g_assert_true(b != a);
	g_assert_cmpuint(fixture_stats(&f).grows, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).free, ==, PAGE);
	fixture_malloc(&f, 2, f.streams[0]);
	c = fixture_malloc(&f, 1, f.streams[0]);

	g_assert_true(c != b);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 4 * PAGE);
	fixture_close(&f);
}

/* Its next miss marks what was not, for others to have. */
static void test_unmarked_until_a_miss(void)
{
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	calm(&f, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 4, f.streams[0]);
	fixture_complete(f.streams[0]);
	fixture_free(&f, b, f.streams[0]);

	g_assert_cmpuint(fixture_stats(&f).free, ==, 4 * PAGE);
	fixture_malloc(&f, 4, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).grows, ==, 3);
	fixture_close(&f);
}

/* The legacy stream can be marked by whoever needs its memory, and needs no record of its own. */
static void test_legacy(void)
{
	struct CUstream_st *const handles[] = { NULL, VPMM_HOST_STREAM_LEGACY };
	struct fixture f;
	uint64_t before;
	void *a;

	open_cached(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(handles); i++) {
		a = fixture_malloc(&f, 8, handles[i]);
		before = records(&f);
		assert_ok(vpmm_host_stream_submit(NULL));
		fixture_free(&f, a, handles[!i]);
		g_assert_cmpuint(records(&f), ==, before);
		g_assert_true(fixture_malloc(&f, 8, f.streams[0]) == a);
		assert_waits(f.streams[0]);
		fixture_complete(NULL);
		fixture_complete(f.streams[0]);
		fixture_free(&f, a, f.streams[0]);
		a = reused(&f, 8, handles[i]);
		fixture_free(&f, a, f.streams[0]);
		assert_waits(f.streams[0]);
		fixture_complete(NULL);
		fixture_complete(f.streams[0]);
	}

	g_assert_cmpuint(fixture_stats(&f).grows, ==, 1);
	fixture_close(&f);
}

static gpointer free_on_own_stream(gpointer data)
{
	struct fixture *f = data;

	calm(f, VPMM_HOST_STREAM_PER_THREAD);
	return NULL;
}

/* The handle is the same in each thread, and the stream is not. */
static void test_per_thread(void)
{
	struct vpmm_stats stats;
	struct fixture f;

	open_cached(&f);
	g_thread_join(g_thread_new(NULL, free_on_own_stream, &f));
	fixture_malloc(&f, 1, VPMM_HOST_STREAM_PER_THREAD);
	stats = fixture_stats(&f);

	g_assert_cmpuint(stats.streams, ==, 2);
	g_assert_cmpuint(stats.grows, ==, 2);
	g_assert_cmpuint(stats.free, ==, PAGE);
	fixture_close(&f);
}

static uint64_t id_of(struct fixture *f, struct CUstream_st *stream)
{
	const struct backend_ops *ops = f->pool->core.backend->ops;
	uint64_t id;

	assert_ok(ops->enter(f->pool->core.backend));
	assert_ok(ops->stream_id(f->pool->core.backend, stream, &id));
	ops->leave(f->pool->core.backend);
	return id;
}

/* Of two streams that are known at one place only the one is found there, and both have what they freed. */
static void test_known_at_one_place(void)
{
	struct CUstream_st *other = NULL;
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	while (!other || id_of(&f, other) % CACHE_KNOWN != id_of(&f, f.streams[0]) % CACHE_KNOWN) {
		if (other)
			assert_ok(vpmm_host_stream_destroy(other));
		assert_ok(vpmm_host_stream_create(&other));
	}
	a = fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 1, other);
	for (int i = 0; i < 4; i++) {
		uint64_t central = f.pool->core.central;

		assert_ok(vpmm_free(f.pool, a, f.streams[0]));
		assert_ok(vpmm_free(f.pool, b, other));
		assert_ok(vpmm_malloc(f.pool, &b, PAGE, other));
		assert_ok(vpmm_malloc(f.pool, &a, PAGE, f.streams[0]));
		g_assert_cmpuint(f.pool->core.central, ==, central);
	}
	g_assert_cmpuint(fixture_stats(&f).grows, ==, 2);
	fixture_close(&f);
	assert_ok(vpmm_host_stream_destroy(other));
}

/*
 * What a stream had at least since the maps changed is no more than it has, even if a call of others flushes it then.
 */
static void test_flushed_in_a_period(void)
{
	struct fixture f;
	void *ptrs[3];

	open_cached(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
		ptrs[i] = fixture_malloc(&f, 1 + i, f.streams[0]);
	assert_ok(vpmm_free(f.pool, ptrs[0], f.streams[0]));
	assert_ok(vpmm_free(f.pool, ptrs[1], f.streams[0]));
	mark(&f, f.streams[0]);
	f.pool->core.central++;
	assert_ok(vpmm_free(f.pool, ptrs[2], f.streams[0]));
	lock_acquire(&f.pool->core.lock);
	assert_ok(f.pool->core.backend->ops->enter(f.pool->core.backend));
	cache_flush_all(&f.pool->core);
	f.pool->core.backend->ops->leave(f.pool->core.backend);
	lock_release(&f.pool->core.lock);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).free, ==, 6 * PAGE);
	fixture_close(&f);
}

/* Two pools, one with the cache and one without, have the same to tell, whatever is asked of them. */
static void test_stats(void)
{
	struct vpmm_stats with, without;
	void *ptrs[2][8] = { { NULL } };
	struct fixture f[2];
	GRand *rand = g_rand_new_with_seed(1);

	open_cached(&f[0]);
	fixture_open_faulty(&f[1], (struct vpmm_opts){ FIXTURE_OPTS });
	for (int round = 0; round < 2000; round++) {
		int i = g_rand_int_range(rand, 0, 8);
		size_t pages = (size_t)g_rand_int_range(rand, 1, 4);

		for (int p = 0; p < 2; p++) {
			if (ptrs[p][i]) {
				assert_ok(vpmm_free(f[p].pool, ptrs[p][i], f[p].streams[0]));
				ptrs[p][i] = NULL;
			} else {
				assert_ok(vpmm_malloc(f[p].pool, &ptrs[p][i], pages * PAGE, f[p].streams[0]));
			}
		}
		if (g_rand_int_range(rand, 0, 3))
			continue;
		with = fixture_stats(&f[0]);
		without = fixture_stats(&f[1]);
		g_assert_cmpuint(with.live, ==, without.live);
		g_assert_cmpuint(with.mallocs, ==, without.mallocs);
		g_assert_cmpuint(with.frees, ==, without.frees);
		g_assert_cmpuint(with.peak_live, ==, without.peak_live);
		g_assert_cmpuint(with.mapped, ==, with.live + with.free);
		g_assert_cmpuint(with.reuses + with.defrags, <=, with.mallocs);
		assert_ok(vpmm_pool_check(f[0].pool));
	}
	g_rand_free(rand);
	vpmm_pool_destroy(f[1].pool);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(f[1].streams[i]));
	g_string_free(f[1].log, TRUE);
	fixture_close(&f[0]);
}

/* The sign of the most recent malloc, whoever has served it, and nothing where the most recent call was a free. */
static void test_dump(void)
{
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	assert_layout(&f, "[2][+1]");
	fixture_free(&f, a, f.streams[0]);
	assert_layout(&f, "[-2][1]");
	fixture_malloc(&f, 2, f.streams[0]);
	assert_layout(&f, "[+2][1]");
	fixture_free(&f, a, f.streams[0]);
	fixture_malloc(&f, 2, f.streams[0]);
	assert_layout(&f, "[+2][1]");
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	fixture_malloc(&f, 2, f.streams[0]);
	fixture_close(&f);
}

/* What a calm stream has cached without a record shows as free. */
static void test_dump_of_unmarked(void)
{
	struct fixture f;

	open_cached(&f);
	calm(&f, f.streams[0]);
	assert_layout(&f, "[-1]");
	g_assert_cmpuint(f.pool->core.regions.bytes[REGION_MALLOC], ==, PAGE);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/cache/hit", test_hit);
	g_test_add_func("/cache/calls", test_calls);
	g_test_add_func("/cache/miss", test_miss);
	g_test_add_func("/cache/misses-create-no-events", test_misses_create_no_events);
	g_test_add_func("/cache/foreign-free", test_foreign_free);
	g_test_add_func("/cache/foreign-free-of-marked", test_foreign_free_of_marked);
	g_test_add_func("/cache/foreign-free-of-unmarked", test_foreign_free_of_unmarked);
	g_test_add_func("/cache/stranded-is-found", test_stranded_is_found);
	g_test_add_func("/cache/order-of-events", test_order_of_events);
	g_test_add_func("/cache/order-of-age", test_order_of_age);
	g_test_add_func("/cache/double-free", test_double_free);
	g_test_add_func("/cache/marked-is-for-all", test_marked_is_for_all);
	g_test_add_func("/cache/unmarked-is-its-own", test_unmarked_is_its_own);
	g_test_add_func("/cache/unmarked-until-a-miss", test_unmarked_until_a_miss);
	g_test_add_func("/cache/legacy", test_legacy);
	g_test_add_func("/cache/per-thread", test_per_thread);
	g_test_add_func("/cache/known-at-one-place", test_known_at_one_place);
	g_test_add_func("/cache/flushed-in-a-period", test_flushed_in_a_period);
	g_test_add_func("/cache/stats", test_stats);
	g_test_add_func("/cache/dump", test_dump);
	g_test_add_func("/cache/dump-of-unmarked", test_dump_of_unmarked);
	cache_life_tests();
	cache_limit_tests();
	return g_test_run();
}
