// SPDX-License-Identifier: LGPL-2.1-or-later
/* One pool, many threads: each on streams of its own, on its per-thread stream, and all on one stream. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calls/check.h"
#include "calls/pool.h"
#include "support/fixture.h"

#define THREADS 8
#define ROUNDS 300
#define HELD 6

struct worker {
	struct fixture *f;
	struct CUstream_st *stream;
	GThread *thread;
	guint32 seed;
};

static void fill(char *ptr, size_t size, char value)
{
	memset(ptr, value, 64);
	memset(ptr + size - 64, value, 64);
}

static void verify(const char *ptr, size_t size, char value)
{
	for (int i = 0; i < 64; i++) {
		g_assert_cmpint(ptr[i], ==, value);
		g_assert_cmpint(ptr[size - 1 - (size_t)i], ==, value);
	}
}

/* Its work is done by the time it frees, so it may touch the memory itself. */
static gpointer work(gpointer data)
{
	struct worker *w = data;
	GRand *rand = g_rand_new_with_seed(w->seed);
	struct {
		void *ptr;
		size_t size;
	} held[HELD] = { { NULL, 0 } };

	for (int round = 0; round < ROUNDS; round++) {
		int i = g_rand_int_range(rand, 0, HELD);
		char value = (char)(w->seed * HELD + (guint32)i);

		if (held[i].ptr) {
			verify(held[i].ptr, held[i].size, value);
			assert_ok(vpmm_free(w->f->pool, held[i].ptr, w->stream));
			held[i].ptr = NULL;
		} else {
			held[i].size = g_rand_boolean(rand) ? (size_t)g_rand_int_range(rand, 1, 6) * PAGE - 1024 :
				       4096;
			assert_ok(vpmm_malloc(w->f->pool, &held[i].ptr, held[i].size, w->stream));
			fill(held[i].ptr, held[i].size, value);
		}
	}
	for (int i = 0; i < HELD; i++)
		assert_ok(vpmm_free(w->f->pool, held[i].ptr, w->stream));
	g_rand_free(rand);
	return NULL;
}

/* Looks on while the others work. */
static gpointer look(gpointer data)
{
	struct worker *w = data;
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	FILE *out = tmpfile();

	g_assert_nonnull(out);
	for (int round = 0; round < 20; round++) {
		assert_ok(vpmm_pool_check(w->f->pool));
		assert_ok(vpmm_pool_dump(w->f->pool, out));
		fixture_stats(w->f);
		assert_ok(vpmm_pool_query(w->f->pool, (size_t)round * PAGE, w->stream, &forecast));
	}
	fclose(out);
	return NULL;
}

static void run_workers(struct vpmm_opts opts, struct CUstream_st *(*choose)(struct fixture *f, int i))
{
	struct worker workers[THREADS + 1];
	struct fixture f;

	fixture_open(&f, opts);
	for (int i = 0; i <= THREADS; i++) {
		workers[i] = (struct worker){ .f = &f, .seed = (guint32)i, .stream = choose(&f, i) };
		workers[i].thread = g_thread_new(NULL, i < THREADS ? work : look, &workers[i]);
	}
	for (int i = 0; i <= THREADS; i++)
		g_thread_join(workers[i].thread);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, 0);
	fixture_close(&f);
}

/* What a stream does with an allocation; it belongs to the last that it does. */
struct use {
	char *ptr;
	size_t size;
	char value;
};

static void run_fill(void *data)
{
	struct use *use = data;

	fill(use->ptr, use->size, use->value);
}

static void run_verify(void *data)
{
	struct use *use = data;

	verify(use->ptr, use->size, use->value);
	g_free(use);
}

static void drop_use(struct worker *w, struct use **use)
{
	void *ptr = *use ? (*use)->ptr : NULL;

	if (*use)
		assert_ok(vpmm_host_stream_launch(w->stream, run_verify, *use));
	*use = NULL;
	assert_ok(vpmm_free(w->f->pool, ptr, w->stream));
}

/* Frees while its work is pending, and has memory only because others who run short wait for what is pending. */
static gpointer struggle(gpointer data)
{
	struct worker *w = data;
	GRand *rand = g_rand_new_with_seed(w->seed);
	struct use *held[3] = { NULL };
	int failed = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct use **use = &held[g_rand_int_range(rand, 0, G_N_ELEMENTS(held))];
		size_t size = (size_t)g_rand_int_range(rand, 1, 4) * PAGE;
		void *ptr;
		int err;

		drop_use(w, use);
		if (!g_rand_int_range(rand, 0, 20))
			assert_ok(vpmm_pool_trim(w->f->pool, 0, NULL));
		err = vpmm_malloc(w->f->pool, &ptr, size, w->stream);
		g_assert_true(!err || err == -ENOMEM);
		failed += !!err;
		if (err)
			continue;
		*use = g_new(struct use, 1);
		**use = (struct use){ .ptr = ptr, .size = size, .value = (char)(w->seed * ROUNDS + (guint32)round) };
		assert_ok(vpmm_host_stream_launch(w->stream, run_fill, *use));
	}
	for (size_t i = 0; i < G_N_ELEMENTS(held); i++)
		drop_use(w, &held[i]);
	g_rand_free(rand);
	return GINT_TO_POINTER(failed);
}

static void run_short(struct vpmm_opts opts)
{
	struct worker workers[STREAMS];
	struct fixture f;
	int failed = 0;

	opts.limit = 12 * PAGE;
	fixture_open(&f, opts);
	for (int i = 0; i < STREAMS; i++) {
		workers[i] = (struct worker){ .f = &f, .seed = (guint32)i, .stream = f.streams[i] };
		workers[i].thread = g_thread_new(NULL, struggle, &workers[i]);
	}
	for (int i = 0; i < STREAMS; i++)
		failed += GPOINTER_TO_INT(g_thread_join(workers[i].thread));
	g_assert_cmpint(failed, <, STREAMS * ROUNDS);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, 12 * PAGE);
	fixture_close(&f);
}

static void test_short(void)
{
	run_short((struct vpmm_opts){ FIXTURE_PACKED });
	run_short((struct vpmm_opts){ FIXTURE_PACKED, .keep = 6 * PAGE });
	run_short((struct vpmm_opts){ FIXTURE_OPTS });
}

static struct CUstream_st *several_share(struct fixture *f, int i)
{
	return f->streams[i % STREAMS];
}

static struct CUstream_st *all_share(struct fixture *f, int i)
{
	(void)i;
	return f->streams[0];
}

static struct CUstream_st *per_thread(struct fixture *f, int i)
{
	(void)f;
	(void)i;
	return VPMM_HOST_STREAM_PER_THREAD;
}

static const struct {
	const char *name;
	struct vpmm_opts opts;
} modes[] = {
	{ "pages", { FIXTURE_OPTS } },
	{ "extents", { FIXTURE_PACKED } },
};

static void test_several(gconstpointer opts)
{
	run_workers(*(const struct vpmm_opts *)opts, several_share);
}

static void test_one(gconstpointer opts)
{
	run_workers(*(const struct vpmm_opts *)opts, all_share);
}

static void test_per_thread(gconstpointer opts)
{
	run_workers(*(const struct vpmm_opts *)opts, per_thread);
}

#define HANDED 200

/* What one thread hands to another; of POSIX, as GLib's own locking is invisible to ThreadSanitizer. */
struct handing {
	struct fixture *f;
	pthread_mutex_t lock;
	pthread_cond_t more;
	void *ptrs[HANDED];
	int count;
};

static gpointer take(gpointer data)
{
	struct handing *h = data;

	for (int i = 0; i < HANDED; i++) {
		pthread_mutex_lock(&h->lock);
		while (h->count <= i)
			pthread_cond_wait(&h->more, &h->lock);
		pthread_mutex_unlock(&h->lock);
		verify(h->ptrs[i], PAGE, (char)i);
		assert_ok(vpmm_free(h->f->pool, h->ptrs[i], h->f->streams[1]));
	}
	return NULL;
}

/* Memory is allocated by one thread for one stream, and freed by another on another. */
static void test_handing(gconstpointer opts)
{
	struct handing h = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };
	struct fixture f;
	GThread *taker;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	h.f = &f;
	taker = g_thread_new(NULL, take, &h);
	for (int i = 0; i < HANDED; i++) {
		void *ptr;

		assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]));
		fill(ptr, PAGE, (char)i);
		pthread_mutex_lock(&h.lock);
		h.ptrs[i] = ptr;
		h.count++;
		pthread_cond_signal(&h.more);
		pthread_mutex_unlock(&h.lock);
	}
	g_thread_join(taker);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* More than a thread remembers, and each goes now and then, so that others come upon it. */
#define RETIRED 20
#define RETIRE_EACH 3
#define CALLS 3000

struct retiring {
	struct fixture *f;
	struct CUstream_st *streams[RETIRED];
};

/* Streams go while other threads look for them; what they find is for ThreadSanitizer to judge. */
static gpointer call_and_retire(gpointer data)
{
	struct retiring *r = data;
	void *ptr;

	for (int round = 0; round < CALLS; round++) {
		struct CUstream_st *stream = r->streams[g_random_int_range(0, RETIRED)];

		assert_ok(vpmm_malloc(r->f->pool, &ptr, 4096, stream));
		assert_ok(vpmm_free(r->f->pool, ptr, stream));
		if (!(round % RETIRE_EACH))
			assert_ok(vpmm_stream_retire(r->f->pool, stream));
	}
	return NULL;
}

static void test_retire_beside(void)
{
	GThread *threads[THREADS];
	struct retiring r;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	r.f = &f;
	for (int i = 0; i < RETIRED; i++)
		assert_ok(vpmm_host_stream_create(&r.streams[i]));
	for (int i = 0; i < THREADS; i++)
		threads[i] = g_thread_new(NULL, call_and_retire, &r);
	for (int i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, THREADS * CALLS);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, THREADS * CALLS);
	for (int i = 0; i < RETIRED; i++)
		assert_ok(vpmm_host_stream_destroy(r.streams[i]));
	fixture_close(&f);
}

/* A call of a thread whose cancellation is pending all the while. */
struct cancelled {
	struct fixture *f;
	void *ptr;
	FILE *out;
	void (*call)(struct cancelled *c);
	bool done;
};

static void call_malloc(struct cancelled *c)
{
	assert_ok(vpmm_malloc(c->f->pool, &c->ptr, 3 * PAGE, c->f->streams[0]));
}

static void call_free(struct cancelled *c)
{
	assert_ok(vpmm_free(c->f->pool, c->ptr, c->f->streams[1]));
}

static void call_stats(struct cancelled *c)
{
	fixture_stats(c->f);
}

static void call_trim(struct cancelled *c)
{
	size_t released = 0;

	assert_ok(vpmm_pool_trim(c->f->pool, 0, &released));
	g_assert_cmpuint(released, ==, 3 * PAGE);
}

static void call_create(struct cancelled *c)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .pages = 4 };

	assert_ok(vpmm_pool_create((struct vpmm_pool **)&c->ptr, &opts));
}

static void call_destroy(struct cancelled *c)
{
	vpmm_pool_destroy(c->ptr);
}

static void call_dump(struct cancelled *c)
{
	vpmm_pool_dump(c->f->pool, c->out);
}

static void *be_cancelled(void *data)
{
	struct cancelled *c = data;

	pthread_cancel(pthread_self());
	c->call(c);
	c->done = true;
	pthread_testcancel();
	return NULL;
}

static void run_cancelled(struct cancelled *c)
{
	pthread_t thread;
	void *result;
	int err;

	c->done = false;
	err = pthread_create(&thread, NULL, be_cancelled, c);
	g_assert_cmpint(err, ==, 0);
	g_assert_cmpint(pthread_join(thread, &result), ==, 0);
	g_assert_true(result == PTHREAD_CANCELED);
	/* A lock that the thread has left behind would be waited for without end. */
	g_assert_cmpint(pthread_mutex_trylock(&c->f->pool->core.lock.mutex), ==, 0);
	pthread_mutex_unlock(&c->f->pool->core.lock.mutex);
	assert_ok(vpmm_pool_check(c->f->pool));
}

/* A thread that is cancelled finishes the call that it is in. */
static void test_cancelled(void)
{
	void (*const calls[])(struct cancelled *c) = {
		call_malloc, call_free, call_stats, call_trim, call_create, call_destroy,
	};
	struct fixture f;
	struct cancelled c = { .f = &f };

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		c.call = calls[i];
		run_cancelled(&c);
		g_assert_true(c.done);
	}
	fixture_free(&f, fixture_malloc(&f, 3, f.streams[0]), f.streams[0]);
	fixture_close(&f);
}

/* A dump waits for whoever reads it; a thread that is cancelled there leaves the pool to the others. */
static void test_cancelled_dump(void)
{
	static const char nothing[4096];
	struct fixture f;
	struct cancelled c = { .f = &f, .call = call_dump };
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	g_assert_cmpint(pipe(ends), ==, 0);
	g_assert_cmpint(fcntl(ends[1], F_SETFL, O_NONBLOCK), ==, 0);
	while (write(ends[1], nothing, sizeof(nothing)) > 0)
		;
	g_assert_cmpint(fcntl(ends[1], F_SETFL, 0), ==, 0);
	c.out = fdopen(ends[1], "w");
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 3, f.streams[0]);
	run_cancelled(&c);
	g_assert_false(c.done);
	fixture_malloc(&f, 3, f.streams[0]);
	close(ends[0]);
	fclose(c.out);
	fixture_close(&f);
}

/* A debug build ends the program that comes to the inside of a pool, or of a cache, without the lock of it. */
NO_LOCK_ANALYSIS static void without_lock(bool of_cache)
{
#ifdef VPMM_DEBUG
	struct fixture f;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, 0);
		g_test_trap_assert_failed();
		g_test_trap_assert_stderr(of_cache ? "*cache.lock is not held*" : "*core.lock is not held*");
		return;
	}
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, NULL);
	if (of_cache)
		cache_mark_legacy(f.pool->core.streams.sole->cache);
	else
		check_pool(f.pool);
#else
	g_test_skip("locks are checked in a debug build, configure --enable-debug");
#endif
}

static void test_pool_without_lock(void)
{
	without_lock(false);
}

static void test_cache_without_lock(void)
{
	without_lock(true);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		GTestDataFunc run;
	} tests[] = {
		{ "several-streams", test_several }, { "one-stream", test_one },
		{ "per-thread-stream", test_per_thread }, { "handing-on", test_handing },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(modes) * G_N_ELEMENTS(tests); i++) {
		size_t mode = i / G_N_ELEMENTS(tests), test = i % G_N_ELEMENTS(tests);
		char *path = g_strdup_printf("/threads/%s/%s", modes[mode].name, tests[test].name);

		g_test_add_data_func(path, &modes[mode].opts, tests[test].run);
		g_free(path);
	}
	g_test_add_func("/threads/short-of-memory", test_short);
	g_test_add_func("/threads/retire-beside", test_retire_beside);
	g_test_add_func("/threads/cancelled", test_cancelled);
	g_test_add_func("/threads/cancelled-dump", test_cancelled_dump);
	g_test_add_func("/threads/pool-without-lock", test_pool_without_lock);
	g_test_add_func("/threads/cache-without-lock", test_cache_without_lock);
	return g_test_run();
}
