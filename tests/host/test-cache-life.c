// SPDX-License-Identifier: LGPL-2.1-or-later
/* Caches of streams when calls fail, processes fork, pools, threads, streams and sizes come and go. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "host/cache-fixture.h"
#include "support/fault.h"

/* A record that fails leaves the memory allocated, and the error is the record's. */
static void test_record_fails(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_event_create, BACKEND_OP_event_record };
	struct fixture f;
	void *a;

	open_cached(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		backend_fault_arm(f.pool->core.backend, ops[i], 0, 1, -EIO);
		assert_error(vpmm_free(f.pool, a, f.streams[0]), EIO, "vpmm_free: 0x");
		assert_ok(vpmm_pool_check(f.pool));
		g_assert_cmpuint(fixture_stats(&f).live, ==, 2 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).frees, ==, 0);
	}
	fixture_free(&f, a, f.streams[0]);

	g_assert_true(fixture_malloc(&f, 2, f.streams[0]) == a);
	fixture_close(&f);
}

/* A flush that fails loses nothing: what is cached stays, and the malloc does without. */
static void test_flush_fails(void)
{
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	calm(&f, f.streams[0]);
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 1, -EIO);
	b = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_true(b != a);
	g_assert_cmpuint(fixture_stats(&f).free, ==, PAGE);

	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	fixture_close(&f);
}

/* The same on the legacy stream, for another stream; and of what was stranded, by its own. */
static void test_foreign_flush_fails(void)
{
	struct fixture f;
	void *a, *b;

	open_cached(&f);
	a = fixture_malloc(&f, 1, NULL);
	fixture_free(&f, a, NULL);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 2, -EIO);
	g_assert_true(fixture_malloc(&f, 1, f.streams[1]) != a);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 0, 0);
	g_assert_true(fixture_malloc(&f, 1, NULL) == a);
	calm(&f, f.streams[0]);
	b = reused(&f, 1, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 2, -EIO);
	fixture_malloc(&f, 2, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 0, 0);
	g_assert_cmpuint(fixture_stats(&f).free, ==, PAGE);

	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == b);
	fixture_close(&f);
}

/* Blocks of ever other sizes, which go elsewhere each time, leave nothing behind. */
static void test_many_sizes(void)
{
	struct fixture f;
	GHashTableIter iter;
	gpointer stream;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < 5000; i++) {
		size_t size = PAGE + i * CORE_PIECE;

		assert_ok(vpmm_malloc(f.pool, &a, size, f.streams[0]));
		assert_ok(vpmm_free(f.pool, a, f.streams[0]));
		assert_ok(vpmm_malloc(f.pool, &a, size, f.streams[0]));
		assert_ok(vpmm_free(f.pool, a, f.streams[1]));
		fixture_complete(f.streams[0]);
		fixture_complete(f.streams[1]);
	}
	g_hash_table_iter_init(&iter, f.pool->core.streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &stream))
		g_assert_cmpuint(((struct stream *)stream)->cache->bins.used, <=, 1100);
	fixture_close(&f);
}

/* One stream among many that do nothing has a peak, and not only when somebody looks. */
static void test_peak_among_many(void)
{
	enum { MANY = 20 };
	struct CUstream_st *streams[MANY];
	struct vpmm_stats stats;
	struct fixture f;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < MANY; i++) {
		assert_ok(vpmm_host_stream_create(&streams[i]));
		fixture_free(&f, fixture_malloc(&f, 1, streams[i]), streams[i]);
	}
	assert_ok(vpmm_malloc(f.pool, &a, 32 * PAGE, streams[0]));
	assert_ok(vpmm_malloc(f.pool, &b, 64 * PAGE, streams[0]));
	assert_ok(vpmm_free(f.pool, b, streams[0]));
	assert_ok(vpmm_free(f.pool, a, streams[0]));
	assert_ok(vpmm_malloc(f.pool, &a, 3 * PAGE, streams[0]));
	assert_ok(vpmm_free(f.pool, a, streams[0]));
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.peak_live, ==, 96 * PAGE);
	fixture_close(&f);
	for (int i = 0; i < MANY; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
}

static void test_fork(void)
{
	struct fixture f;
	void *a, *b = NULL;
	int status;
	pid_t pid;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	f.pool->core.settings.cache = true;
	f.pool->core.direct = true;
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	pid = fork();
	if (!pid)
		_exit(vpmm_malloc(f.pool, &b, PAGE, f.streams[0]) == -EBUSY && !b &&
		      vpmm_free(f.pool, a, f.streams[0]) == -EBUSY ? 0 : 1);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);

	g_assert_cmpint(status, ==, 0);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	fixture_close(&f);
}

/* Nothing but the device as a whole tells that a stream without an event is done; it is asked only then. */
static void test_destroy(void)
{
	struct fixture f;
	unsigned int pending[2];

	for (int unmarked = 0; unmarked < 2; unmarked++) {
		open_cached(&f);
		if (unmarked)
			calm(&f, f.streams[0]);
		reused(&f, 1, f.streams[0]);
		assert_ok(vpmm_host_stream_submit(f.streams[1]));
		vpmm_pool_destroy(f.pool);
		for (int i = 0; i < 2; i++)
			assert_ok(vpmm_host_stream_pending(f.streams[i], &pending[i]));

		g_assert_cmpuint(pending[0], ==, 0);
		g_assert_cmpuint(pending[1], ==, !unmarked);
		for (int i = 0; i < STREAMS; i++)
			assert_ok(vpmm_host_stream_destroy(f.streams[i]));
		g_string_free(f.log, TRUE);
		fixture_assert_nothing_left();
	}
}

/* A pool that comes where another was has nothing of its caches. */
static void test_new_pool(void)
{
	struct fixture f;

	for (int i = 0; i < 3; i++) {
		open_cached(&f);
		assert_ok(vpmm_free(f.pool, fixture_malloc(&f, 1, NULL), NULL));
		g_assert_cmpuint(fixture_stats(&f).grows, ==, 1);
		fixture_close(&f);
	}
}

#define THREADS 6
#define ROUNDS 400
#define SHELF 16

/* What threads hand to each other: whoever takes it frees it, on whatever stream. */
struct shop {
	struct fixture *f;
	pthread_mutex_t lock;
	void *shelf[SHELF];
};

struct worker {
	struct shop *shop;
	guint32 seed;
	GThread *thread;
};

static void *swap(struct shop *shop, int i, void *ptr)
{
	void *had;

	pthread_mutex_lock(&shop->lock);
	had = shop->shelf[i];
	shop->shelf[i] = ptr;
	pthread_mutex_unlock(&shop->lock);
	return had;
}

static gpointer hammer(gpointer data)
{
	struct worker *w = data;
	struct fixture *f = w->shop->f;
	GRand *rand = g_rand_new_with_seed(w->seed);
	struct CUstream_st *streams[] = {
		f->streams[w->seed % STREAMS], NULL, VPMM_HOST_STREAM_PER_THREAD, f->streams[0],
	};
	void *own[4] = { NULL };

	for (int round = 0; round < ROUNDS; round++) {
		struct CUstream_st *stream = streams[g_rand_int_range(rand, 0, G_N_ELEMENTS(streams))];
		int i = g_rand_int_range(rand, 0, 4);
		void *ptr = own[i];

		if (!g_rand_int_range(rand, 0, 6))
			own[i] = ptr = swap(w->shop, g_rand_int_range(rand, 0, SHELF), ptr);
		if (ptr) {
			memset(ptr, (int)w->seed, 64);
			assert_ok(vpmm_free(f->pool, ptr, stream));
			own[i] = NULL;
		} else {
			assert_ok(vpmm_malloc(f->pool, &own[i], (size_t)g_rand_int_range(rand, 1, 3) * PAGE, stream));
			memset(own[i], (int)w->seed, 64);
		}
		if (!g_rand_int_range(rand, 0, 50))
			fixture_stats(f);
		if (!g_rand_int_range(rand, 0, 100))
			assert_ok(vpmm_pool_check(f->pool));
	}
	for (int i = 0; i < 4; i++)
		assert_ok(vpmm_free(f->pool, own[i], f->streams[1]));
	g_rand_free(rand);
	return NULL;
}

static void test_threads(void)
{
	struct shop shop = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct worker workers[THREADS];
	struct fixture f;

	open_cached(&f);
	shop.f = &f;
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .shop = &shop, .seed = (guint32)i + 1 };
		workers[i].thread = g_thread_new(NULL, hammer, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		g_thread_join(workers[i].thread);
	for (int i = 0; i < SHELF; i++)
		assert_ok(vpmm_free(f.pool, shop.shelf[i], NULL));

	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, fixture_stats(&f).frees);
	fixture_close(&f);
}

void cache_life_tests(void)
{
	g_test_add_func("/cache/record-fails", test_record_fails);
	g_test_add_func("/cache/flush-fails", test_flush_fails);
	g_test_add_func("/cache/foreign-flush-fails", test_foreign_flush_fails);
	g_test_add_func("/cache/many-sizes", test_many_sizes);
	g_test_add_func("/cache/peak-among-many", test_peak_among_many);
	g_test_add_func("/cache/fork", test_fork);
	g_test_add_func("/cache/destroy", test_destroy);
	g_test_add_func("/cache/new-pool", test_new_pool);
	g_test_add_func("/cache/threads", test_threads);
}
