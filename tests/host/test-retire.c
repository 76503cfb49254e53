// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams that are destroyed, with and without a word, and whose handles come back as those of others. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>

#include "calls/pool.h"
#include "support/fault.h"
#include "support/kinds.h"
#include "support/setting.h"

/* Of so many rounds the second half must not need what the first did not. */
#define ROUNDS 4000
#define CHURN 16

static const struct kind kinds[] = { KINDS_SERVING(FIXTURE_PACKED, FIXTURE_OPTS, PAGE) };

/*
 * Memory that a stream has freed without an event is for that stream alone; all can have it once the stream is retired.
 * Work of the stream may still be pending then, and the next user comes after it.
 */
static void test_gives_all_back(gconstpointer data)
{
	bool at_work = GPOINTER_TO_INT(data);
	struct CUstream_st *stream;
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_host_stream_create(&stream));
	a = fixture_malloc(&f, 1, stream);
	if (at_work)
		assert_ok(vpmm_host_stream_submit(stream));
	fixture_free(&f, a, stream);
	g_assert_true(fixture_malloc(&f, 1, f.streams[1]) != a);
	assert_ok(vpmm_stream_retire(f.pool, stream));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).streams, ==, at_work ? 2 : 1);
	if (!at_work)
		assert_ok(vpmm_host_stream_destroy(stream));
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	if (at_work) {
		fixture_submit_waits(f.streams[0]);
		fixture_complete(stream);
		assert_ok(vpmm_host_stream_complete(f.streams[0], 1));
		assert_ok(vpmm_host_stream_destroy(stream));
	}
	fixture_close(&f);
}

/* What was allocated for it outlives it, and is freed on another. */
static void test_outlived(gconstpointer data)
{
	const struct kind *kind = data;
	struct CUstream_st *stream;
	struct fixture f;
	void *a;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_stream_create(&stream));
	a = fixture_malloc_bytes(&f, kind->size, stream);
	assert_ok(vpmm_stream_retire(f.pool, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
	fixture_free(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, kind->size, f.streams[0]) == a);
	fixture_close(&f);
}

/* A free waits for a captured stream. One that cannot be recorded when it is retired has not been retired. */
static void test_unrecorded(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	void *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[1]));
	assert_ok(vpmm_host_capture_begin(f.streams[1]));
	fixture_free(&f, a, f.streams[0]);
	assert_ok(vpmm_host_capture_end(f.streams[1], &graph));
	assert_ok(vpmm_host_graph_destroy(graph));
	g_assert_cmpuint(fixture_stats(&f).held, ==, PAGE);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 2, -ENOMEM);
	g_assert_cmpint(vpmm_stream_retire(f.pool, f.streams[1]), ==, -ENOMEM);
	g_assert_cmpuint(fixture_stats(&f).held, ==, PAGE);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

/* It is used again all the same: nothing is lost, and nothing of before is in the way. */
static void test_used_again(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	void *a;

	fixture_open(&f, kind->opts);
	for (int i = 0; i < 3; i++) {
		a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
		fixture_free(&f, a, f.streams[0]);
		assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
		assert_ok(vpmm_pool_check(f.pool));
	}
	g_assert_cmpuint(fixture_stats(&f).grows, <=, 1);
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, 3);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 3);
	fixture_close(&f);
}

static void test_unknown_stream(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_stream_retire(f.pool, f.streams[3]));
	assert_error(vpmm_stream_retire(f.pool, (struct CUstream_st *)0x1234), EINVAL, "vpmm_stream_retire");
	fixture_close(&f);
}

/* One round of streams that come, work and go. */
static void churn(struct vpmm_pool *pool, size_t size, bool retire)
{
	struct CUstream_st *streams[CHURN];
	void *ptrs[CHURN], *extra;

	for (int i = 0; i < CHURN; i++) {
		assert_ok(vpmm_host_stream_create(&streams[i]));
		assert_ok(vpmm_malloc(pool, &ptrs[i], size, streams[i]));
		assert_ok(vpmm_malloc(pool, &extra, 2 * size, streams[i]));
		assert_ok(vpmm_free(pool, extra, streams[i]));
	}
	for (int i = 0; i < CHURN; i++) {
		assert_ok(vpmm_free(pool, ptrs[i], streams[i % 3 ? i : (i + 1) % CHURN]));
		if (retire)
			assert_ok(vpmm_stream_retire(pool, streams[i]));
	}
	for (int i = 0; i < CHURN; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
}

static size_t bytes_in_use(void)
{
	return mallinfo2().uordblks;
}

static void churn_many(struct fixture *f, size_t size, bool retire)
{
	guint rounds = setting_at_most("VPMM_TEST_STEPS", ROUNDS);
	size_t before = 0;

	for (guint i = 0; i < rounds; i++) {
		churn(f->pool, size, retire);
		if (i == rounds / 2)
			before = bytes_in_use();
	}
	assert_ok(vpmm_pool_check(f->pool));
	g_assert_cmpuint(fixture_stats(f).streams, <=, 256);
	g_assert_cmpuint(bytes_in_use(), <=, before + before / 4);
}

static void test_churn(gconstpointer data)
{
	const struct kind *kind = data;

	for (int retire = 0; retire < 2; retire++) {
		struct fixture f;

		fixture_open(&f, kind->opts);
		churn_many(&f, kind->size, retire);
		fixture_close(&f);
	}
}

/* A thread may hold on to what it knew of a stream that was forgotten meanwhile, and the stream is still there. */
static void test_forgotten_and_known(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
	for (int i = 0; i < 8; i++)
		churn(f.pool, PAGE, true);
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	fixture_close(&f);
}

static gpointer pairs_per_thread(gpointer data)
{
	struct fixture *f = data;
	void *ptr;

	for (int i = 0; i < 20; i++) {
		assert_ok(vpmm_malloc(f->pool, &ptr, PAGE, VPMM_HOST_STREAM_PER_THREAD));
		assert_ok(vpmm_free(f->pool, ptr, VPMM_HOST_STREAM_PER_THREAD));
	}
	return NULL;
}

/* The per-thread streams of threads that have ended are like any that were destroyed without a word. */
static void test_ended_threads(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 400; i++)
		g_thread_join(g_thread_new("pairs", pairs_per_thread, &f));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).streams, <=, 256);
	fixture_close(&f);
}

#define EPOCHS 10000
#define EPOCH_BLOCKS 12
#define EPOCH_SIZE (32 * PAGE)
#define KEPT 3
#define LAG 8

/* How the stream of an epoch ends, and who else uses its memory. */
static const struct ending {
	const char *name;
	bool retired;
	bool used;
} endings[] = {
	{ "retired", .retired = true },
	{ "destroyed" },
	{ "used-and-retired", .retired = true, .used = true },
	{ "used-and-destroyed", .used = true },
};

/**
 * struct epochs - a program with a stream for each epoch
 * @f: the pool
 * @ending: how its streams end
 * @rand: sizes and order
 * @streams: the last of them, whose work is pending, by epoch
 * @beside: a stream that uses all memory too
 * @kept: what an epoch leaves for the next to free
 * @live: bytes
 * @peak: the most that @live has been
 */
struct epochs {
	struct fixture f;
	const struct ending *ending;
	GRand *rand;
	struct CUstream_st *streams[LAG];
	struct CUstream_st *beside;
	struct epoch_block {
		void *ptr;
		size_t size;
	} kept[KEPT];
	size_t live;
	size_t peak;
};

static struct epoch_block epoch_malloc(struct epochs *e, struct CUstream_st *stream)
{
	gint32 units = g_rand_int_range(e->rand, EPOCH_SIZE / 512 / 4, EPOCH_SIZE / 512);
	struct epoch_block block = { .size = (size_t)units * 512 };

	assert_ok(vpmm_malloc(e->f.pool, &block.ptr, block.size, stream));
	assert_ok(vpmm_host_stream_submit(stream));
	e->live += block.size;
	e->peak = MAX(e->peak, e->live);
	return block;
}

static void epoch_free(struct epochs *e, struct epoch_block *block, struct CUstream_st *stream)
{
	if (!block->ptr)
		return;
	if (e->ending->used)
		assert_ok(vpmm_use(e->f.pool, block->ptr, e->beside));
	assert_ok(vpmm_free(e->f.pool, block->ptr, stream));
	e->live -= block->size;
	block->ptr = NULL;
}

/* The oldest stream that is at work is done, and goes. */
static void epoch_end(struct epochs *e, struct CUstream_st **stream)
{
	if (!*stream)
		return;
	assert_ok(vpmm_host_stream_complete(*stream, UINT_MAX));
	assert_ok(vpmm_host_stream_destroy(*stream));
	assert_ok(vpmm_host_stream_complete(e->beside, 1));
	*stream = NULL;
}

static void epoch(struct epochs *e, unsigned int number)
{
	struct CUstream_st **stream = &e->streams[number % LAG], *before = e->streams[(number + LAG - 1) % LAG];
	struct epoch_block blocks[EPOCH_BLOCKS];

	epoch_end(e, stream);
	assert_ok(vpmm_host_stream_create(stream));
	if (before)
		assert_ok(vpmm_host_stream_wait(*stream, before));
	for (int i = 0; i < EPOCH_BLOCKS; i++) {
		blocks[i] = epoch_malloc(e, *stream);
		if (g_rand_boolean(e->rand))
			epoch_free(e, &blocks[g_rand_int_range(e->rand, 0, i + 1)], *stream);
	}
	for (int i = 0; i < KEPT; i++)
		epoch_free(e, &e->kept[i], *stream);
	for (int i = 0; i < EPOCH_BLOCKS; i++) {
		if (i >= KEPT)
			epoch_free(e, &blocks[i], *stream);
		else
			e->kept[i] = blocks[i];
	}
	assert_ok(vpmm_host_stream_submit(e->beside));
	if (e->ending->retired)
		assert_ok(vpmm_stream_retire(e->f.pool, *stream));
}

/* What one stream has freed serves the next, although both are at work, and nothing is left behind. */
static void test_one_after_another(gconstpointer data)
{
	struct epochs e = { .ending = data, .rand = g_rand_new_with_seed(7) };
	guint epochs = setting_at_most("VPMM_TEST_STEPS", EPOCHS);
	struct vpmm_stats stats;

	fixture_open(&e.f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	assert_ok(vpmm_host_stream_create(&e.beside));
	for (guint i = 0; i < epochs; i++)
		epoch(&e, i);
	assert_ok(vpmm_pool_check(e.f.pool));
	stats = fixture_stats(&e.f);
	g_test_message("%" PRIu64 " bytes of %zu", stats.peak_taken, e.peak);
	g_assert_cmpuint(stats.peak_taken, <=, e.peak + e.peak / 50);
	g_assert_cmpuint(stats.held, ==, 0);
	g_assert_cmpuint(stats.streams, <=, 256);
	for (guint i = epochs; i < epochs + LAG; i++)
		epoch_end(&e, &e.streams[i % LAG]);
	for (int i = 0; i < KEPT; i++)
		epoch_free(&e, &e.kept[i], e.beside);
	fixture_complete(e.beside);
	assert_ok(vpmm_host_stream_destroy(e.beside));
	g_rand_free(e.rand);
	fixture_close(&e.f);
}

#define THREADS 4
#define THREAD_ROUNDS 1500

/* Streams of its own that come and go, each with pairs that its cache serves. */
static gpointer churn_in_thread(gpointer data)
{
	struct fixture *f = data;
	struct CUstream_st *stream;
	void *ptr;

	for (int i = 0; i < THREAD_ROUNDS; i++) {
		assert_ok(vpmm_host_stream_create(&stream));
		for (int pair = 0; pair < 4; pair++) {
			assert_ok(vpmm_malloc(f->pool, &ptr, (size_t)(1 + pair % 2) * 4096, stream));
			assert_ok(vpmm_free(f->pool, ptr, stream));
		}
		if (i % 2)
			assert_ok(vpmm_stream_retire(f->pool, stream));
		assert_ok(vpmm_host_stream_destroy(stream));
	}
	return NULL;
}

/* A thread may be about to ask a cache that goes to another stream meanwhile. */
static void test_churn_threads(void)
{
	GThread *threads[THREADS];
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("churn", churn_in_thread, &f);
	for (int i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, 4 * THREADS * THREAD_ROUNDS);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 4 * THREADS * THREAD_ROUNDS);
	g_assert_cmpuint(fixture_stats(&f).streams, <=, 512);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/retire/gives-all-back", GINT_TO_POINTER(false), test_gives_all_back);
	g_test_add_data_func("/retire/with-work", GINT_TO_POINTER(true), test_gives_all_back);
	fixture_add_rows("/retire/outlived", kinds, test_outlived);
	fixture_add_rows("/retire/used-again", kinds, test_used_again);
	g_test_add_func("/retire/unrecorded", test_unrecorded);
	g_test_add_func("/retire/unknown", test_unknown_stream);
	fixture_add_rows("/retire/churn", kinds, test_churn);
	fixture_add_rows("/retire/one-after-another", endings, test_one_after_another);
	g_test_add_func("/retire/forgotten-and-known", test_forgotten_and_known);
	g_test_add_func("/retire/ended-threads", test_ended_threads);
	g_test_add_func("/retire/churn-threads", test_churn_threads);
	return g_test_run();
}
