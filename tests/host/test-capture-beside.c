// SPDX-License-Identifier: LGPL-2.1-or-later
/* Captures beside streams that go on: what is pending is not for a graph, and no call harms a capture. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "calls/pool.h"
#include "host/capture-fixture.h"

static const struct kind kinds[] = { KINDS_EACH };

/* Memory that other streams still work on is not for a graph: it is launched whenever, and waits for nobody. */
static void test_takes_nothing_pending(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	begin(&f, f.streams[0]);
	for (int i = 0; i < 4; i++)
		fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* Whatever is asked of the pool meanwhile, by this stream or another, the capture goes on. */
static void test_goes_on(gconstpointer data)
{
	const struct kind *kind = data;
	struct CUstream_st *gone;
	struct fixture f;
	void *ptrs[8];
	char *layout;
	uint64_t id;

	fixture_open(&f, kind->opts);
	for (int i = 0; i < 8; i++)
		ptrs[i] = fixture_malloc_bytes(&f, kind->size, f.streams[i % STREAMS]);
	id = begin(&f, f.streams[0]);
	for (int i = 0; i < 8; i++)
		fixture_free(&f, ptrs[i], f.streams[(i + 1) % STREAMS]);
	for (int i = 0; i < 8; i++)
		ptrs[i] = fixture_malloc_bytes(&f, (size_t)(i + 1) * kind->size, f.streams[i % STREAMS]);
	assert_ok(vpmm_host_stream_create(&gone));
	assert_ok(vpmm_stream_retire(f.pool, gone));
	assert_ok(vpmm_host_stream_destroy(gone));
	layout = fixture_layout(&f);
	g_free(layout);
	assert_error(vpmm_stream_retire(f.pool, f.streams[0]), EBUSY, "vpmm_stream_retire");
	assert_error(vpmm_graph_retire(f.pool, id, f.streams[0]), EBUSY, "vpmm_graph_retire");
	for (int i = 0; i < 8; i++)
		fixture_free(&f, ptrs[i], f.streams[i % 3]);
	finish(f.streams[0]);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* An allocation that another stream uses is freed in a capture: both the stream and the graph count. */
static void test_used_outside_too(void)
{
	struct fixture f;
	char *a;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[1]));
	assert_ok(vpmm_use(f.pool, a, f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	id = begin(&f, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	finish(f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, PAGE);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	fixture_submit_waits(f.streams[0]);
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_host_stream_complete(f.streams[0], 1));
	fixture_close(&f);
}

/*
 * What a stream was at before it joined the capture is no part of the graph, whether it was retired then or not. If it
 * was not, no event tells before it calls again.
 */
static void test_used_before_joining(gconstpointer data)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	bool retired = GPOINTER_TO_INT(data);
	struct fixture f;
	char *a;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[1]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	if (retired)
		assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	id = begin(&f, f.streams[0]);
	assert_ok(vpmm_host_stream_wait(f.streams[1], f.streams[0]));
	fixture_free(&f, a, f.streams[0]);
	assert_ok(vpmm_host_stream_wait(f.streams[0], f.streams[1]));
	finish(f.streams[0]);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, retired ? 0 : PAGE);
	assert_ok(vpmm_pool_query(f.pool, 1, f.streams[1], &forecast));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_true(fixture_malloc(&f, 1, f.streams[2]) == a);
	fixture_submit_waits(f.streams[2]);
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_host_stream_complete(f.streams[2], 1));
	fixture_close(&f);
}

/*
 * A block that a branch of the capture uses too is not reused by the stream that frees it: the branch is still at work.
 * Nor is a block that a branch frees, as the stream need not come after the earlier users of that.
 */
static void test_not_reused_beside_branch(gconstpointer data)
{
	bool branch_frees = GPOINTER_TO_INT(data);
	struct fixture f;
	char *a;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	id = begin(&f, f.streams[0]);
	assert_ok(vpmm_host_stream_wait(f.streams[1], f.streams[0]));
	a = fixture_malloc(&f, 1, f.streams[0]);
	if (branch_frees) {
		fixture_free_at_work(&f, a, f.streams[0]);
		g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	} else {
		assert_ok(vpmm_use(f.pool, a, f.streams[1]));
		assert_ok(vpmm_host_stream_submit(f.streams[1]));
	}
	fixture_free(&f, a, f.streams[branch_frees]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[branch_frees]) != a);
	assert_ok(vpmm_host_stream_wait(f.streams[0], f.streams[1]));
	finish(f.streams[0]);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* What nobody knows the end of has to be waited for, and the captures of others go on meanwhile. */
static void test_exhausted_beside(void)
{
	struct fixture f;
	void *a, *b;

	g_setenv("VPMM_HOST_CAPACITY", "1G", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc_bytes(&f, 32768, f.streams[0]);
	b = fixture_malloc_bytes(&f, ((size_t)1 << 30) - PAGE, f.streams[1]);
	for (int i = 0; i < 100; i++) {
		fixture_free(&f, a, f.streams[0]);
		a = fixture_malloc_bytes(&f, 32768, f.streams[0]);
	}
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	begin(&f, f.streams[2]);
	b = fixture_malloc_bytes(&f, ((size_t)1 << 30) - PAGE, f.streams[3]);
	a = fixture_malloc_bytes(&f, PAGE, f.streams[3]);
	g_assert_true(a && b);
	finish(f.streams[2]);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* A pool that ends beside a capture leaves nothing, with a block that is freed and one that is not. */
static void test_destroy_beside(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graph;
	struct fixture f;

	fixture_open(&f, kind->opts);
	fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free(&f, fixture_malloc_bytes(&f, kind->size, f.streams[0]), f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	assert_ok(vpmm_host_capture_begin(f.streams[1]));
	vpmm_pool_destroy(f.pool);
	assert_ok(vpmm_host_capture_end(f.streams[1], &graph));
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_pool_create(&f.pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
	fixture_close(&f);
}

#define STEPS 5
#define WORDS 512
#define LAUNCHES 1000

/* A step of a chain: what the step before has left, and one more. */
struct step {
	uint64_t *from;
	uint64_t *to;
	uint64_t *input;
};

static void run_step(void *data)
{
	struct step *step = data;

	for (int i = 0; i < WORDS; i++)
		step->to[i] = (step->from ? step->from[i] : *step->input) + 1;
}

static void scribble(void *data)
{
	memset(*(char **)data, 0xa5, WORDS * sizeof(uint64_t));
}

/* Temporaries live in the graph as in a program: each is freed as soon as the next step has read it. */
static uint64_t *capture_chain(struct fixture *f, struct CUstream_st *stream, struct step *steps, uint64_t *input)
{
	for (int i = 0; i < STEPS; i++) {
		steps[i].from = i ? steps[i - 1].to : NULL;
		steps[i].input = input;
		steps[i].to = (uint64_t *)fixture_malloc_bytes(f, WORDS * sizeof(uint64_t), stream);
		assert_ok(vpmm_host_stream_launch(stream, run_step, &steps[i]));
		if (i)
			fixture_free(f, steps[i].from, stream);
	}
	return steps[STEPS - 1].to;
}

/* A thousand launches beside streams that allocate, write and free all the time. */
static void test_replay(gconstpointer data)
{
	struct vpmm_opts opts = ((const struct kind *)data)->opts;
	struct vpmm_host_graph *graph;
	struct step steps[STEPS] = { 0 };
	uint64_t input, id, *output;
	struct fixture f;

	fixture_open(&f, opts);
	id = begin(&f, f.streams[0]);
	output = capture_chain(&f, f.streams[0], steps, &input);
	graph = end(f.streams[0]);
	for (int i = 0; i < LAUNCHES; i++) {
		char *other;

		input = (uint64_t)i;
		assert_ok(vpmm_malloc(f.pool, (void **)&other, WORDS * sizeof(uint64_t) * (size_t)(1 + i % 3),
				      f.streams[1 + i % 2]));
		assert_ok(vpmm_host_stream_launch(f.streams[1 + i % 2], scribble, &other));
		assert_ok(vpmm_host_graph_launch(graph, f.streams[i % 2 ? 0 : 3]));
		fixture_complete(f.streams[1 + i % 2]);
		fixture_complete(f.streams[i % 2 ? 0 : 3]);
		assert_ok(vpmm_free(f.pool, other, f.streams[1 + i % 2]));
		for (int word = 0; word < WORDS; word++)
			g_assert_cmpuint(output[word], ==, (uint64_t)i + STEPS);
	}
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	fixture_free(&f, output, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/capture-beside/nothing-pending", kinds, test_takes_nothing_pending);
	fixture_add_rows("/capture-beside/goes-on", kinds, test_goes_on);
	g_test_add_func("/capture-beside/used-outside-too", test_used_outside_too);
	g_test_add_data_func("/capture-beside/used-before-joining", GINT_TO_POINTER(false), test_used_before_joining);
	g_test_add_data_func("/capture-beside/retired-before-joining", GINT_TO_POINTER(true), test_used_before_joining);
	g_test_add_data_func("/capture-beside/branch-uses", GINT_TO_POINTER(false), test_not_reused_beside_branch);
	g_test_add_data_func("/capture-beside/branch-frees", GINT_TO_POINTER(true), test_not_reused_beside_branch);
	fixture_add_rows("/capture-beside/replay", kinds, test_replay);
	g_test_add_func("/capture-beside/exhausted-beside", test_exhausted_beside);
	fixture_add_rows("/capture-beside/destroy-beside", kinds, test_destroy_beside);
	return g_test_run();
}
