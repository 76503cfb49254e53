// SPDX-License-Identifier: LGPL-2.1-or-later
/* What is live, and the most that was: to the byte, against what the program itself has counted. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"

#define MANY 16
#define BLOCKS 96
#define STEPS 3000
#define PIECE 512

/* Bytes, as rounded and as requested: now, and the most so far. */
struct count {
	uint64_t live;
	uint64_t peak;
};

static void count_add(struct count *count, uint64_t bytes)
{
	count->live += bytes;
	count->peak = MAX(count->peak, count->live);
}

struct held {
	void *ptr;
	size_t size;
	struct CUstream_st *stream;
};

/* A program of one thread, with a few sizes, so that its streams' caches serve most of it. */
struct program {
	struct fixture f;
	const struct kind *kind;
	GRand *rand;
	struct CUstream_st *streams[MANY];
	size_t sizes[6];
	struct held held[BLOCKS];
	struct count rounded;
	struct count requested;
};

/* A kind of pool, and the number of streams. */
struct kind {
	const char *name;
	struct vpmm_opts opts;
	int streams;
	size_t unit;		/* sizes are rounded up to it */
	bool driver;		/* serves what is less than a page, which does not count as rounded */
};

#define ROUNDED_TO_PAGES .unit = PAGE, .driver = true

static const struct kind kinds[] = {
	{ "1", { FIXTURE_PACKED }, 1, PIECE },
	{ "2", { FIXTURE_PACKED }, 2, PIECE },
	{ "3", { FIXTURE_PACKED }, 3, PIECE },
	{ "8", { FIXTURE_PACKED }, 8, PIECE },
	{ "16", { FIXTURE_PACKED }, 16, PIECE },
	{ "keep", { FIXTURE_PACKED, .keep = 8 * PAGE }, 5, PIECE },
	{ "uncached", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS }, 2, PIECE },
	{ "driver", { FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER }, 4, PIECE, true },
	{ "paged", { FIXTURE_OPTS }, 2, ROUNDED_TO_PAGES },
};

static bool is_small(const struct program *p, size_t size)
{
	return p->kind->driver && size < PAGE;
}

static uint64_t round_up(const struct program *p, size_t size)
{
	return is_small(p, size) ? 0 : (size + p->kind->unit - 1) / p->kind->unit * p->kind->unit;
}

static struct CUstream_st *any_stream(struct program *p)
{
	return p->streams[g_rand_int_range(p->rand, 0, p->kind->streams)];
}

/* Of one of a few sizes as rounded, and any size as requested. */
static size_t any_size(struct program *p)
{
	return p->sizes[g_rand_int_range(p->rand, 0, G_N_ELEMENTS(p->sizes))] -
	       (size_t)g_rand_int_range(p->rand, 0, PIECE);
}

static void take(struct program *p, struct held *h)
{
	*h = (struct held){ .size = any_size(p), .stream = any_stream(p) };
	assert_ok(vpmm_malloc(p->f.pool, &h->ptr, h->size, h->stream));
	count_add(&p->rounded, round_up(p, h->size));
	count_add(&p->requested, h->size);
}

static void drop(struct program *p, struct held *h)
{
	/* The driver's allocator wants a stream that is behind the allocation. */
	bool elsewhere = g_rand_int_range(p->rand, 0, 8) == 0 && !is_small(p, h->size);

	assert_ok(vpmm_free(p->f.pool, h->ptr, elsewhere ? any_stream(p) : h->stream));
	p->rounded.live -= round_up(p, h->size);
	p->requested.live -= h->size;
	h->ptr = NULL;
}

/* In place, or as an allocation and then a free. */
static void resize(struct program *p, struct held *h)
{
	void *before = h->ptr;
	size_t size = any_size(p);

	assert_ok(vpmm_realloc(p->f.pool, &h->ptr, size, h->stream));
	if (h->ptr != before) {
		count_add(&p->rounded, round_up(p, size));
		count_add(&p->requested, size);
		p->rounded.live -= round_up(p, h->size);
		p->requested.live -= h->size;
	} else {
		p->rounded.live -= round_up(p, h->size);
		p->requested.live -= h->size;
		count_add(&p->rounded, round_up(p, size));
		count_add(&p->requested, size);
	}
	h->size = size;
}

/* What changes nothing that is live. */
static void disturb(struct program *p)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct held *h = &p->held[g_rand_int_range(p->rand, 0, BLOCKS)];

	switch (g_rand_int_range(p->rand, 0, 6)) {
	case 0:
		assert_ok(vpmm_pool_trim(p->f.pool, p->rounded.live, NULL));
		break;
	case 1:
		assert_ok(vpmm_pool_query(p->f.pool, any_size(p), any_stream(p), &forecast));
		break;
	case 2:
		assert_ok(vpmm_stream_retire(p->f.pool, any_stream(p)));
		break;
	case 3:
		assert_ok(vpmm_host_stream_submit(any_stream(p)));
		break;
	case 4:
		/* It may wait for another. */
		vpmm_host_stream_complete(any_stream(p), UINT_MAX);
		break;
	default:
		/* The free of a small one that others use is deferred with the driver's allocator. */
		if (h->ptr && !is_small(p, h->size))
			assert_ok(vpmm_use(p->f.pool, h->ptr, any_stream(p)));
		break;
	}
}

static void compare(struct program *p)
{
	struct vpmm_stats stats = fixture_stats(&p->f);

	g_assert_cmpuint(stats.live, ==, p->rounded.live);
	g_assert_cmpuint(stats.peak_live, ==, p->rounded.peak);
	g_assert_cmpuint(stats.requested, ==, p->requested.live);
	g_assert_cmpuint(stats.peak_requested, ==, p->requested.peak);
	assert_ok(vpmm_pool_check(p->f.pool));
}

/* Mallocs prevail for a while, and then frees, so that there is one peak after another. */
static void step(struct program *p, int number)
{
	struct held *h = &p->held[g_rand_int_range(p->rand, 0, BLOCKS)];
	bool grows = number / 100 % 2 == 0;

	if (g_rand_int_range(p->rand, 0, 30) == 0)
		disturb(p);
	else if (h->ptr && g_rand_int_range(p->rand, 0, 10) == 0)
		resize(p, h);
	else if (h->ptr && (!grows || g_rand_int_range(p->rand, 0, 3) == 0))
		drop(p, h);
	else if (!h->ptr && (grows || g_rand_int_range(p->rand, 0, 3) == 0))
		take(p, h);
}

static void open_program(struct program *p, const struct kind *kind, guint32 seed)
{
	*p = (struct program){ .kind = kind, .rand = g_rand_new_with_seed(seed) };
	fixture_open(&p->f, kind->opts);
	for (int i = 0; i < kind->streams; i++)
		assert_ok(vpmm_host_stream_create(&p->streams[i]));
	for (size_t i = 0; i < G_N_ELEMENTS(p->sizes); i++)
		p->sizes[i] = (size_t)g_rand_int_range(p->rand, 1, i % 2 ? 16 : 8192) * PIECE;
}

static void close_program(struct program *p)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (p->held[i].ptr)
			drop(p, &p->held[i]);
	}
	compare(p);
	/* Some wait for others. */
	for (int i = 0; i < p->kind->streams * p->kind->streams; i++)
		vpmm_host_stream_complete(p->streams[i % p->kind->streams], UINT_MAX);
	fixture_close_beside(&p->f);
	for (int i = 0; i < p->kind->streams; i++)
		assert_ok(vpmm_host_stream_destroy(p->streams[i]));
	fixture_assert_nothing_left();
	g_rand_free(p->rand);
}

static void test_random(gconstpointer data)
{
	for (guint32 seed = 0; seed < 4; seed++) {
		struct program p;

		open_program(&p, data, seed);
		for (int i = 0; i < STEPS; i++) {
			step(&p, i);
			if (i % 50 == 0)
				compare(&p);
		}
		close_program(&p);
	}
}

/* A new peak that nothing but caches serves, on two streams. */
static void test_hits(void)
{
	struct fixture f;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 3, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc_bytes(&f, 2 * PAGE - 100, f.streams[1]);
	fixture_free(&f, b, f.streams[1]);
	a = fixture_malloc_bytes(&f, 3 * PAGE - 10, f.streams[0]);
	b = fixture_malloc_bytes(&f, 2 * PAGE - 1, f.streams[1]);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, 5 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).peak_requested, ==, 5 * PAGE - 11);
	fixture_close(&f);
}

/* A stream frees, and another allocates as much from its cache, in turn: the most that is live stays what it is. */
static void test_in_turn(void)
{
	struct fixture f;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	for (int i = 0; i < 100; i++) {
		b = fixture_malloc(&f, 1, f.streams[1]);
		fixture_free(&f, b, f.streams[1]);
		a = fixture_malloc(&f, 1, f.streams[0]);
		fixture_free(&f, a, f.streams[0]);
	}
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, PAGE);
	g_assert_cmpuint(fixture_stats(&f).peak_requested, ==, PAGE);
	fixture_close(&f);
}

/* A cache keeps what it knows of the peak when it goes to another stream. */
static void test_streams_that_go(void)
{
	struct CUstream_st *stream;
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 200; i++) {
		assert_ok(vpmm_host_stream_create(&stream));
		a = fixture_malloc(&f, 1, stream);
		fixture_free(&f, a, stream);
		a = fixture_malloc(&f, 1, stream);
		fixture_free(&f, a, stream);
		if (i % 2)
			assert_ok(vpmm_stream_retire(f.pool, stream));
		assert_ok(vpmm_host_stream_destroy(stream));
	}
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, PAGE);
	fixture_close(&f);
}

/* A block that a capture uses again has the size of its latest request, and what a graph keeps is live. */
static void test_capture(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t id = 0;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	assert_ok(vpmm_capture_id(f.pool, f.streams[0], &id));
	a = fixture_malloc_bytes(&f, PAGE - 50, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, PAGE - 200, f.streams[0]) == a);
	g_assert_cmpuint(fixture_stats(&f).requested, ==, PAGE - 200);
	fixture_free(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, PAGE - 7, f.streams[0]) == a);
	fixture_free(&f, a, f.streams[0]);
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	g_assert_cmpuint(fixture_stats(&f).requested, ==, PAGE - 7);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).requested, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).peak_requested, ==, PAGE - 7);
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, PAGE);
	vpmm_host_graph_destroy(graph);
	fixture_close(&f);
}

/* What the caches of two streams serve after a reset counts from what is live then. */
static void test_reset(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 8, f.streams[0]);
	fixture_malloc_bytes(&f, 2 * PAGE - 9, f.streams[1]);
	b = fixture_malloc(&f, 3, f.streams[1]);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	assert_ok(vpmm_pool_reset_peaks(f.pool));
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.peak_live, ==, 2 * PAGE);
	g_assert_cmpuint(stats.peak_requested, ==, 2 * PAGE - 9);
	g_assert_cmpuint(stats.peak_mapped, ==, stats.mapped);
	g_assert_cmpuint(stats.peak_taken, ==, stats.mapped + stats.small_mapped);

	b = fixture_malloc(&f, 3, f.streams[1]);
	fixture_free(&f, b, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, 5 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).peak_requested, ==, 5 * PAGE - 9);
	fixture_close(&f);
}

/* What the pool may hold follows the most that was ever live. */
static void test_reset_policy(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 8, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	assert_ok(vpmm_pool_reset_peaks(f.pool));
	g_assert_cmpuint(account_most(&f.pool->core.account), ==, 8 * PAGE);
	assert_ok(vpmm_pool_reset_peaks(f.pool));
	g_assert_cmpuint(account_most(&f.pool->core.account), ==, 8 * PAGE);
	fixture_malloc(&f, 9, f.streams[0]);
	g_assert_cmpuint(account_most(&f.pool->core.account), ==, 9 * PAGE);
	fixture_close(&f);
}

/* The driver's allocator keeps its own peak, which goes back further. */
static void test_reset_small(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER });
	a = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).peak_small, >=, PAGE / 2);
	fixture_free(&f, a, f.streams[0]);
	fixture_complete(f.streams[0]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	assert_ok(vpmm_pool_reset_peaks(f.pool));
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.small_mapped, ==, 0);
	g_assert_cmpuint(stats.peak_small, ==, 0);
	g_assert_cmpuint(stats.peak_taken, ==, 0);
	g_assert_cmpuint(stats.peak_requested, ==, 0);

	fixture_free(&f, fixture_malloc_bytes(&f, 1000, f.streams[0]), f.streams[0]);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.peak_small, ==, stats.small_mapped);
	g_assert_cmpuint(stats.peak_requested, ==, 1000);
	fixture_close(&f);
}

/* Where the driver does not tell what its allocator holds, nothing changes. */
static void test_reset_fails(void)
{
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_free(&f, fixture_malloc(&f, 4, f.streams[0]), f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_small_held, 0, 1, -EIO);
	assert_error(vpmm_pool_reset_peaks(f.pool), EIO, "vpmm_pool_reset_peaks");
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, 4 * PAGE);
	fixture_close(&f);
}

#define THREADS 6
#define ROUNDS 200
#define EACH 24

/*
 * Threads that all allocate between two barriers, and all free between the next two. In whatever order they do that,
 * the most is live at the end of the former.
 */
struct tide {
	struct vpmm_pool *pool;
	pthread_barrier_t *barrier;
	struct CUstream_st *stream;
	guint32 seed;
	struct held held[EACH];
	uint64_t rounded;
	uint64_t requested;
};

static void tide_rise(struct tide *t, GRand *rand)
{
	for (int i = 0; i < EACH; i++) {
		struct held *h = &t->held[i];

		if (h->ptr || g_rand_boolean(rand))
			continue;
		h->size = (size_t)(i % 3 + 1) * 64 * PIECE - (size_t)g_rand_int_range(rand, 0, PIECE);
		assert_ok(vpmm_malloc(t->pool, &h->ptr, h->size, t->stream));
		t->rounded += (size_t)(i % 3 + 1) * 64 * PIECE;
		t->requested += h->size;
	}
}

static void tide_fall(struct tide *t, GRand *rand)
{
	for (int i = 0; i < EACH; i++) {
		struct held *h = &t->held[i];

		if (!h->ptr || g_rand_boolean(rand))
			continue;
		assert_ok(vpmm_free(t->pool, h->ptr, t->stream));
		h->ptr = NULL;
		t->rounded -= (size_t)(i % 3 + 1) * 64 * PIECE;
		t->requested -= h->size;
	}
}

static gpointer tide_run(gpointer data)
{
	struct tide *t = data;
	GRand *rand = g_rand_new_with_seed(t->seed);

	for (int i = 0; i < ROUNDS; i++) {
		tide_rise(t, rand);
		pthread_barrier_wait(t->barrier);
		/* The test reads the statistics here. */
		pthread_barrier_wait(t->barrier);
		tide_fall(t, rand);
		pthread_barrier_wait(t->barrier);
	}
	g_rand_free(rand);
	return NULL;
}

static void tide_compare(struct fixture *f, const struct tide *tides, struct count *rounded, struct count *requested)
{
	struct vpmm_stats stats = fixture_stats(f);

	rounded->live = requested->live = 0;
	for (int i = 0; i < THREADS; i++) {
		count_add(rounded, tides[i].rounded);
		count_add(requested, tides[i].requested);
	}
	g_assert_cmpuint(stats.live, ==, rounded->live);
	g_assert_cmpuint(stats.peak_live, ==, rounded->peak);
	g_assert_cmpuint(stats.requested, ==, requested->live);
	g_assert_cmpuint(stats.peak_requested, ==, requested->peak);
	assert_ok(vpmm_pool_check(f->pool));
}

/* @data: how many streams the threads have */
static void test_tides(gconstpointer data)
{
	struct count rounded = { 0 }, requested = { 0 };
	int streams = GPOINTER_TO_INT(data);
	struct tide tides[THREADS] = { 0 };
	pthread_barrier_t barrier;
	GThread *threads[THREADS];
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++) {
		tides[i] = (struct tide){ .pool = f.pool, .barrier = &barrier, .seed = (guint32)i };
		tides[i].stream = f.streams[i % streams];
		threads[i] = g_thread_new("tide", tide_run, &tides[i]);
	}
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		tide_compare(&f, tides, &rounded, &requested);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	for (int i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	pthread_barrier_destroy(&barrier);
	fixture_close(&f);
}

#define TOKENS 3
#define TURNS 20000

/* Threads that allocate only after another has freed as much: at no time there is more than the tokens allow. */
struct turns {
	struct vpmm_pool *pool;
	sem_t *tokens;
	struct CUstream_st *stream;
};

static gpointer turns_run(gpointer data)
{
	const struct turns *t = data;
	void *ptr;

	for (int i = 0; i < TURNS; i++) {
		sem_wait(t->tokens);
		assert_ok(vpmm_malloc(t->pool, &ptr, PAGE - 100, t->stream));
		assert_ok(vpmm_free(t->pool, ptr, t->stream));
		sem_post(t->tokens);
	}
	return NULL;
}

static void test_turns(void)
{
	struct turns turns[THREADS];
	GThread *threads[THREADS];
	void *ptrs[TOKENS];
	struct fixture f;
	sem_t tokens;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < TOKENS; i++)
		ptrs[i] = fixture_malloc_bytes(&f, PAGE - 100, f.streams[i]);
	for (int i = 0; i < TOKENS; i++)
		fixture_free(&f, ptrs[i], f.streams[i]);
	sem_init(&tokens, 0, TOKENS);
	for (int i = 0; i < THREADS; i++) {
		turns[i] = (struct turns){ .pool = f.pool, .tokens = &tokens, .stream = f.streams[i % STREAMS] };
		threads[i] = g_thread_new("turns", turns_run, &turns[i]);
	}
	for (int i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	g_assert_cmpuint(fixture_stats(&f).peak_live, ==, TOKENS * PAGE);
	g_assert_cmpuint(fixture_stats(&f).peak_requested, ==, TOKENS * (PAGE - 100));
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).requested, ==, 0);
	sem_destroy(&tokens);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/peaks/random", kinds, test_random);
	g_test_add_func("/peaks/hits", test_hits);
	g_test_add_func("/peaks/in-turn", test_in_turn);
	g_test_add_func("/peaks/streams-that-go", test_streams_that_go);
	g_test_add_func("/peaks/capture", test_capture);
	g_test_add_func("/peaks/reset", test_reset);
	g_test_add_func("/peaks/reset/policy", test_reset_policy);
	g_test_add_func("/peaks/reset/small", test_reset_small);
	g_test_add_func("/peaks/reset/fails", test_reset_fails);
	g_test_add_data_func("/peaks/threads/own-streams", GINT_TO_POINTER(STREAMS), test_tides);
	g_test_add_data_func("/peaks/threads/shared-stream", GINT_TO_POINTER(1), test_tides);
	g_test_add_func("/peaks/threads/in-turn", test_turns);
	return g_test_run();
}
