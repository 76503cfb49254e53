// SPDX-License-Identifier: LGPL-2.1-or-later
/* Graphs of a group compute what they would alone, and keep what they have had until they are retired. */
#include <errno.h>
#include <string.h>

#include "calls/pool.h"
#include "host/capture-group-fixture.h"
#include "support/fault.h"

static const struct kind kinds[] = { KINDS_EACH };

/* Three graphs; the second has had half of what the first freed, and the third half of that. */
static void capture_three(struct fixture *f, uint64_t *ids, char **ptr)
{
	char *part;

	ids[0] = capture_scratch(f, 8 * PAGE, ptr);
	for (size_t i = 1; i < 3; i++) {
		ids[i] = capture_scratch(f, (8 >> i) * PAGE, &part);
		g_assert_true(part == *ptr);
	}
}

/* An order in which graphs are retired, and the pages that are still kept after each. */
static const struct retirement {
	const char *name;
	int order[3];
	size_t pages[3];
} retirements[] = {
	{ "first-to-last", { 0, 1, 2 }, { 4, 2, 0 } },
	{ "first-last-second", { 0, 2, 1 }, { 4, 4, 0 } },
	{ "second-first-third", { 1, 0, 2 }, { 8, 2, 0 } },
	{ "second-third-first", { 1, 2, 0 }, { 8, 8, 0 } },
	{ "third-first-second", { 2, 0, 1 }, { 8, 4, 0 } },
	{ "last-to-first", { 2, 1, 0 }, { 8, 8, 0 } },
};

/* Each part is kept as long as there is a graph that has had it, and nobody else gets it meanwhile. */
static void test_retired(gconstpointer data)
{
	const struct retirement *way = data;
	struct fixture f;
	uint64_t ids[3];
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	capture_three(&f, ids, &ptr);
	for (int i = 0; i < 3; i++) {
		retire(&f, ids[way->order[i]], f.streams[i]);
		g_assert_cmpuint(fixture_stats(&f).held, ==, way->pages[i] * PAGE);
		if (way->pages[i])
			g_assert_false(reaches(&f, ptr, way->pages[i] * PAGE, f.streams[3]));
	}
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.graphs), ==, 0);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.groups), ==, 0);
	g_assert_true(reaches(&f, ptr, 2 * PAGE, f.streams[3]));
	fixture_close(&f);
}

/* A part that was merged with others stays with all graphs that have had any of them. */
static void test_merged_of_two(void)
{
	struct fixture f;
	uint64_t ids[3];
	char *x, *y, *got;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ids[0] = begin_in(&f, f.streams[0], GROUP);
	fixture_free(&f, fixture_malloc(&f, 5, f.streams[0]), f.streams[0]);
	x = fixture_malloc(&f, 3, f.streams[0]);
	y = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_true(y == x + 3 * PAGE);
	fixture_free(&f, x, f.streams[0]);
	fixture_free(&f, y, f.streams[0]);
	finish(f.streams[0]);
	ids[1] = capture_scratch(&f, 2 * PAGE, &got);
	g_assert_true(got == y);
	ids[2] = capture_scratch(&f, 5 * PAGE, &got);
	g_assert_true(got == x);
	retire(&f, ids[0], f.streams[0]);
	retire(&f, ids[2], f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, >=, 2 * PAGE);
	g_assert_false(reaches(&f, y, 2 * PAGE, f.streams[1]));
	retire(&f, ids[1], f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* A graph has allocated and freed a block, and the next of its group has it, under capture. */
static char *pass_on(struct fixture *f, struct vpmm_host_graph **graph, uint64_t *first)
{
	char *ptr;

	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED });
	*first = begin_in(f, f->streams[0], GROUP);
	ptr = fixture_malloc(f, 1, f->streams[0]);
	fixture_free_at_work(f, ptr, f->streams[0]);
	*graph = end(f->streams[0]);
	begin_in(f, f->streams[0], GROUP);
	g_assert_true(fixture_malloc(f, 1, f->streams[0]) == ptr);
	return ptr;
}

/* The last launch of a graph that is retired still runs: the others of the group get its memory when it ends. */
static void test_retired_while_running(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t first;
	char *a;

	a = pass_on(&f, &graph, &first);
	fixture_free(&f, a, f.streams[0]);
	finish(f.streams[0]);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	retire(&f, first, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, PAGE);
	g_assert_true(capture_result(&f, PAGE) != a);
	fixture_complete(f.streams[1]);
	g_assert_true(capture_result(&f, PAGE) == a);
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_close(&f);
}

/*
 * A block that a retired graph had before is resized under capture: no stream was named, so the copy becomes a part of
 * the graph. The host waits for the retired graph's last launch, and the same capture gets the old block again.
 */
static void test_realloc_after_retired(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t first;
	char *a, *b;

	for (int running = 0; running < 2; running++) {
		a = b = pass_on(&f, &graph, &first);
		assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
		if (!running)
			fixture_complete(f.streams[1]);
		retire(&f, first, f.streams[1]);
		assert_ok(vpmm_realloc(f.pool, (void **)&b, 2 * PAGE, f.streams[0]));
		g_assert_true(b != a);
		g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
		finish(f.streams[0]);
		fixture_complete(f.streams[1]);
		assert_ok(vpmm_host_graph_destroy(graph));
		fixture_close(&f);
	}
}

/* Such a block is used by a stream that is named, as any other, until that one was retired and is past it. */
static void test_realloc_named(void)
{
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	begin_in(&f, f.streams[0], GROUP);
	a = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[1]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_error(vpmm_realloc(f.pool, (void **)&a, 2 * PAGE, f.streams[0]), EBUSY, "other streams");
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_error(vpmm_realloc(f.pool, (void **)&a, 2 * PAGE, f.streams[0]), EBUSY, "other streams");
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_realloc(f.pool, (void **)&a, 2 * PAGE, f.streams[0]));
	finish(f.streams[0]);
	fixture_close(&f);
}

/* What one launch computes: a scratch block is filled with a number, and each byte of it is added up in the result. */
struct task {
	unsigned char *scratch;
	unsigned char *result;
	size_t size;
	unsigned char number;
};

static void fill_scratch(void *data)
{
	const struct task *task = data;

	memset(task->scratch, task->number, task->size);
}

static void add_up(void *data)
{
	const struct task *task = data;

	*task->result = 0;
	for (size_t i = 0; i < task->size; i += task->size / 16)
		*task->result = (unsigned char)(*task->result + task->scratch[i]);
}

static struct vpmm_host_graph *capture_task(struct fixture *f, struct task *task)
{
	struct CUstream_st *stream = f->streams[0];

	begin_in(f, stream, GROUP);
	task->scratch = (unsigned char *)fixture_malloc_bytes(f, task->size, stream);
	task->result = (unsigned char *)fixture_malloc_bytes(f, 512, stream);
	assert_ok(vpmm_host_stream_launch(stream, fill_scratch, task));
	assert_ok(vpmm_host_stream_launch(stream, add_up, task));
	fixture_free(f, task->scratch, stream);
	return end(stream);
}

/* Launched in the order in which they joined, graphs of a group compute what they would by themselves. */
static void test_contents(gconstpointer data)
{
	const struct kind *kind = data;
	struct task tasks[3] = { { .size = 16 * kind->size, .number = 1 }, { .size = 8 * kind->size, .number = 3 },
				 { .size = 4 * kind->size, .number = 5 } };
	struct vpmm_host_graph *graphs[3];
	struct fixture f;
	int rounds = kind->size < PAGE ? 1000 : 10;

	fixture_open(&f, kind->opts);
	for (int i = 0; i < 3; i++) {
		graphs[i] = capture_task(&f, &tasks[i]);
		g_assert_true(tasks[i].scratch >= tasks[0].scratch &&
			      tasks[i].scratch + tasks[i].size <= tasks[0].scratch + tasks[0].size);
	}
	for (int i = 0; i < rounds; i++) {
		for (int j = 0; j < 3; j++)
			assert_ok(vpmm_host_graph_launch(graphs[j], f.streams[1]));
		fixture_complete(f.streams[1]);
		for (int j = 0; j < 3; j++)
			g_assert_cmpuint(*tasks[j].result, ==, 16 * tasks[j].number);
	}
	for (int i = 0; i < 3; i++)
		assert_ok(vpmm_host_graph_destroy(graphs[i]));
	fixture_close(&f);
}

/* With scrubbing, a graph sees nothing of another's at its first launch. */
static void test_scrubbed(gconstpointer data)
{
	const struct kind *mode = data;
	struct task secret = { .size = PAGE, .number = FIXTURE_SECRET };
	struct vpmm_host_graph *graphs[2];
	struct fixture f;
	char *seen;

	fixture_open(&f, mode->opts);
	graphs[0] = capture_task(&f, &secret);
	begin_in(&f, f.streams[0], GROUP);
	seen = fixture_malloc(&f, 1, f.streams[0]);
	g_assert_true(seen == (char *)secret.scratch);
	graphs[1] = end(f.streams[0]);
	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_host_graph_launch(graphs[i], f.streams[0]));
	fixture_complete(f.streams[0]);
	g_assert_true(fixture_is_clear(seen, PAGE));
	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_host_graph_destroy(graphs[i]));
	fixture_close(&f);
}

/* If it cannot be cleared, the group keeps it, and the next request has it. */
static void test_clear_fails(void)
{
	void *b = NULL;
	struct fixture f;
	char *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .scrub = VPMM_SCRUB_STREAM });
	capture_scratch(&f, 4 * PAGE, &a);
	begin_in(&f, f.streams[0], GROUP);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_clear, 0, 1, -EIO);
	assert_error(vpmm_malloc(f.pool, &b, PAGE, f.streams[0]), EIO, "clearing");
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_null(b);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 4 * PAGE);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* A retire that fails changes nothing, and can be repeated. */
static void test_retire_fails(void)
{
	struct fixture f;
	uint64_t ids[3];
	char *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	capture_three(&f, ids, &a);
	for (int i = 0; i < 3; i++) {
		uint64_t held = fixture_stats(&f).held;

		backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 1, -EIO);
		assert_error(vpmm_graph_retire(f.pool, ids[i], f.streams[0]), EIO, "vpmm_graph_retire");
		g_assert_cmpuint(fixture_stats(&f).held, ==, held);
		retire(&f, ids[i], f.streams[0]);
	}
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* A pool that goes takes its groups along. */
static void test_destroyed(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a;

	fixture_open(&f, kind->opts);
	capture_scratch(&f, 4 * kind->size, &a);
	begin_in(&f, f.streams[0], GROUP);
	fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free(&f, fixture_malloc_bytes(&f, kind->size, f.streams[0]), f.streams[0]);
	finish(f.streams[0]);
	begin_in(&f, f.streams[0], GROUP);
	finish(f.streams[0]);
	fixture_close(&f);
}

static const struct kind scrubs[] = {
	{ "stream", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_STREAM } },
	{ "always", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS } },
	{ "paged", { FIXTURE_OPTS, .scrub = VPMM_SCRUB_STREAM } },
};

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/capture-group/merged-of-two", test_merged_of_two);
	fixture_add_rows("/capture-group/retired", retirements, test_retired);
	g_test_add_func("/capture-group/retired-while-running", test_retired_while_running);
	g_test_add_func("/capture-group/realloc-after-retired", test_realloc_after_retired);
	g_test_add_func("/capture-group/realloc-named", test_realloc_named);
	fixture_add_rows("/capture-group/contents", kinds, test_contents);
	fixture_add_rows("/capture-group/scrubbed", scrubs, test_scrubbed);
	g_test_add_func("/capture-group/clear-fails", test_clear_fails);
	g_test_add_func("/capture-group/retire-fails", test_retire_fails);
	fixture_add_rows("/capture-group/destroyed", kinds, test_destroyed);
	return g_test_run();
}
