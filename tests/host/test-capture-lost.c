// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory of captures that fail, and of graphs that nobody retires: it comes back by itself, and not before its time. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "calls/pool.h"
#include "host/capture-group-fixture.h"
#include "host/tag-fixture.h"
#include "support/fault.h"

static const struct kind kinds[] = { KINDS_EACH };

/* Without what the driver's allocator serves. */
static const struct kind own_kinds[] = { KIND_PACKED, KIND_SLAB, KIND_PAGED };

/* What is kept for graphs, after a call that takes notice of those that are gone. */
static uint64_t kept(struct fixture *f)
{
	assert_ok(vpmm_pool_trim(f->pool, 0, NULL));
	assert_ok(vpmm_pool_check(f->pool));
	return fixture_stats(f).held;
}

static void destroy(struct vpmm_host_graph *graph)
{
	assert_ok(vpmm_host_graph_destroy(graph));
}

/* All that the pool had is to be had again, and nothing is known any more of a graph. */
static void assert_all_back(struct fixture *f)
{
	g_assert_cmpuint(kept(f), ==, 0);
	g_assert_cmpuint(fixture_stats(f).live, ==, 0);
	g_assert_cmpuint(g_hash_table_size(f->pool->pending.graphs), ==, 0);
	g_assert_cmpuint(g_hash_table_size(f->pool->pending.groups), ==, 0);
}

/* A capture with a block that is allocated and freed under it, whose id nobody asks for. */
static void begin_scratch(struct fixture *f, size_t size, struct CUstream_st *stream)
{
	char *ptr;

	assert_ok(vpmm_host_capture_begin(stream));
	ptr = fixture_malloc_bytes(f, size, stream);
	fixture_free_at_work(f, ptr, stream);
}

static struct vpmm_host_graph *capture_scratch_here(struct fixture *f, size_t size)
{
	begin_scratch(f, size, f->streams[0]);
	return end(f->streams[0]);
}

/* A call that cannot be captured invalidates the capture. */
static void fail(struct CUstream_st *stream)
{
	struct vpmm_host_graph *graph;

	g_assert_cmpint(vpmm_host_stream_submit(NULL), ==, -EBUSY);
	g_assert_cmpint(vpmm_host_capture_end(stream, &graph), ==, -EINVAL);
}

/* Failed captures one after another, as of a program that tries again: they take no more than one. */
static void test_failed(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	uint64_t first = 0;

	fixture_open(&f, kind->opts);
	for (int i = 0; i < 5; i++) {
		begin_scratch(&f, kind->size, f.streams[0]);
		first = first ?: fixture_stats(&f).mapped;
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, first);
		fail(f.streams[0]);
	}
	assert_all_back(&f);
	fixture_close(&f);
}

/* What such a capture has not freed is freed as any other block. */
static void test_failed_live(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fail(f.streams[0]);
	fixture_free(&f, ptr, f.streams[1]);
	assert_all_back(&f);
	fixture_close(&f);
}

static void test_given_up(gconstpointer data)
{
	const struct kind *kind = data;
	struct CUstream_st *stream;
	struct fixture f;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_stream_create(&stream));
	begin_scratch(&f, kind->size, stream);
	assert_ok(vpmm_host_stream_destroy(stream));
	assert_all_back(&f);
	fixture_close(&f);
}

static void test_destroyed(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graph;
	struct fixture f;

	fixture_open(&f, kind->opts);
	graph = capture_scratch_here(&f, kind->size);
	g_assert_cmpuint(kept(&f), >=, kind->size);
	destroy(graph);
	assert_all_back(&f);
	fixture_close(&f);
}

/* As long as a launch is not over, its memory is the graph's. */
static void test_running(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graph;
	struct fixture f;

	fixture_open(&f, kind->opts);
	graph = capture_scratch_here(&f, kind->size);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	assert_ok(vpmm_host_graph_launch(graph, f.streams[2]));
	destroy(graph);
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_host_stream_complete(f.streams[2], 1));
	g_assert_cmpuint(kept(&f), >=, kind->size);
	fixture_complete(f.streams[2]);
	assert_all_back(&f);
	fixture_close(&f);
}

/* A graph that was launched into a capture lives on in the graph of that. */
static void test_part(void)
{
	struct vpmm_host_graph *inner, *outer;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	inner = capture_scratch_here(&f, PAGE);
	begin_scratch(&f, 2 * PAGE, f.streams[0]);
	assert_ok(vpmm_host_graph_launch(inner, f.streams[0]));
	outer = end(f.streams[0]);
	destroy(inner);
	g_assert_cmpuint(kept(&f), ==, 3 * PAGE);
	destroy(outer);
	assert_all_back(&f);

	inner = capture_scratch_here(&f, PAGE);
	begin_scratch(&f, 2 * PAGE, f.streams[0]);
	assert_ok(vpmm_host_graph_launch(inner, f.streams[0]));
	fail(f.streams[0]);
	g_assert_cmpuint(kept(&f), ==, PAGE);
	destroy(inner);
	assert_all_back(&f);
	fixture_close(&f);
}

/* A block from before waits for each graph that uses it, and for the streams that do. */
static void test_used(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graphs[2];
	struct fixture f;
	char *ptr;

	fixture_open(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	for (int i = 0; i < 2; i++) {
		assert_ok(vpmm_host_capture_begin(f.streams[0]));
		assert_ok(vpmm_use(f.pool, ptr, f.streams[0]));
		graphs[i] = end(f.streams[0]);
	}
	assert_ok(vpmm_use(f.pool, ptr, f.streams[2]));
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	destroy(graphs[1]);
	kept(&f);
	fixture_free(&f, ptr, f.streams[1]);
	g_assert_cmpuint(kept(&f), >=, kind->size);
	destroy(graphs[0]);
	fixture_complete(f.streams[2]);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_all_back(&f);
	fixture_close(&f);
}

/* A block freed under the capture, with an earlier use that no event covers, is no other stream's yet. */
static void test_behind_uncovered(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, 1, f.streams[1]);
	fixture_free_at_work(&f, ptr, f.streams[1]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[1]) == ptr);
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	fixture_free(&f, ptr, f.streams[0]);
	graph = end(f.streams[0]);
	destroy(graph);
	kept(&f);
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	g_assert_false(reaches(&f, ptr, PAGE, f.streams[2]));
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

/*
 * A block from before, freed under a capture whose graph is never launched: nothing is ordered behind what was
 * submitted to it before, so nobody gets it until the device has been waited for. A request does so rather than fail.
 */
static void test_from_before(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	unsigned int pending;
	struct fixture f;
	char *ptr;

	opts.limit = MAX(kind->size / PAGE, 1) * PAGE;
	fixture_open(&f, opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	fixture_free(&f, ptr, f.streams[0]);
	destroy(end(f.streams[0]));
	g_assert_cmpuint(kept(&f), >=, kind->size);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 1);
	ptr = fixture_malloc(&f, MAX(kind->size / PAGE, 1), f.streams[2]);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 0);
	fixture_free(&f, ptr, f.streams[2]);
	assert_all_back(&f);
	fixture_close(&f);
}

/*
 * Part of a block was a result before a capture of the group freed it, so work that was not captured may still be at
 * it. The same is true of the whole block that a later capture has put together from it.
 */
static void test_merged(void)
{
	struct vpmm_host_graph *graphs[4];
	char *all, *result, *again;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 2 * PAGE });
	begin_in(&f, f.streams[0], GROUP);
	all = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free(&f, all, f.streams[0]);
	graphs[0] = end(f.streams[0]);
	begin_in(&f, f.streams[0], GROUP);
	result = fixture_malloc(&f, 1, f.streams[0]);
	graphs[1] = end(f.streams[0]);
	begin_in(&f, f.streams[0], GROUP);
	fixture_free(&f, result, f.streams[0]);
	graphs[2] = end(f.streams[0]);
	begin_in(&f, f.streams[0], GROUP);
	again = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_true(again == all);
	fixture_free(&f, again, f.streams[0]);
	graphs[3] = end(f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(graphs); i++)
		destroy(graphs[i]);
	g_assert_cmpuint(kept(&f), ==, 2 * PAGE);
	fixture_free(&f, fixture_malloc(&f, 2, f.streams[1]), f.streams[1]);
	assert_all_back(&f);
	fixture_close(&f);
}

static void malloc_idle(struct fixture *f, void *other)
{
	void *ptr;

	(void)other;
	assert_ok(vpmm_malloc_flags(f->pool, &ptr, PAGE, f->streams[1], VPMM_IDLE));
}

static void free_captured(struct fixture *f, void *other)
{
	assert_ok(vpmm_host_capture_begin(f->streams[1]));
	fixture_free(f, other, f->streams[1]);
	finish(f->streams[1]);
}

/* A call that takes notice of graphs that are gone, and the bytes that it leaves to another graph. */
static const struct call {
	const char *name;
	void (*call)(struct fixture *f, void *other);
	size_t left;
} calls[] = {
	{ "malloc-idle", malloc_idle, 0 },
	{ "free-captured", free_captured, PAGE },
};

static void test_noticed(gconstpointer data)
{
	const struct call *row = data;
	struct fixture f;
	void *other;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	other = fixture_malloc(&f, 1, f.streams[1]);
	destroy(capture_scratch_here(&f, 2 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 2 * PAGE);
	row->call(&f, other);
	g_assert_cmpuint(fixture_stats(&f).held, ==, row->left);
	fixture_close(&f);
}

/* A graph may be retired when it is gone: the stream is behind all of its work, so nobody waits for the device. */
static void test_retired_late(gconstpointer data)
{
	const struct kind *kind = data;
	unsigned int pending;
	struct fixture f;
	uint64_t id;
	char *ptr;

	fixture_open(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	id = begin(&f, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	destroy(end(f.streams[0]));
	g_assert_cmpuint(kept(&f), >=, kind->size);
	retire(&f, id, f.streams[1]);
	g_assert_cmpuint(kept(&f), ==, 0);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 1);
	fixture_complete(f.streams[1]);
	assert_all_back(&f);
	fixture_close(&f);
}

/* Graphs of a group read what others have left, so their memory comes back when all of them are gone. */
static void test_group(void)
{
	struct vpmm_host_graph *graphs[3];
	struct fixture f;
	uint64_t last = 0;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 3; i++) {
		last = begin_in(&f, f.streams[0], GROUP);
		fixture_free(&f, fixture_malloc(&f, (size_t)i + 1, f.streams[0]), f.streams[0]);
		graphs[i] = end(f.streams[0]);
	}
	destroy(graphs[2]);
	destroy(graphs[0]);
	g_assert_cmpuint(kept(&f), >=, 3 * PAGE);
	destroy(graphs[1]);
	assert_all_back(&f);

	for (int i = 0; i < 3; i++) {
		last = begin_in(&f, f.streams[0], GROUP);
		fixture_free(&f, fixture_malloc(&f, (size_t)i + 1, f.streams[0]), f.streams[0]);
		graphs[i] = end(f.streams[0]);
	}
	destroy(graphs[0]);
	destroy(graphs[1]);
	g_assert_cmpuint(kept(&f), >=, 3 * PAGE);
	retire(&f, last, f.streams[0]);
	assert_all_back(&f);
	destroy(graphs[2]);
	assert_all_back(&f);
	fixture_close(&f);
}

/* A capture that is in the group by its id alone keeps the memory of the others, until it is retired. */
static void test_group_keeper(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_capture_group(f.pool, UINT64_MAX, GROUP));
	begin_in(&f, f.streams[0], GROUP);
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
	graph = end(f.streams[0]);
	destroy(graph);
	g_assert_cmpuint(kept(&f), ==, PAGE);
	retire(&f, UINT64_MAX, f.streams[0]);
	assert_all_back(&f);
	fixture_close(&f);
}

/* A graph that was retired is nothing to the pool when it goes. */
static void test_retired(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	id = begin(&f, f.streams[0]);
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
	graph = end(f.streams[0]);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	retire(&f, id, f.streams[1]);
	destroy(graph);
	g_assert_cmpuint(kept(&f), ==, 0);
	fixture_complete(f.streams[1]);
	assert_all_back(&f);
	fixture_close(&f);
}

/* A graph that cannot be watched is retired, or else keeps what it has; the capture does not notice. */
static void test_unwatched(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	uint64_t id;
	char *ptr;

	fixture_open_faulty(&f, kind->opts);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_graph_watch, 0, UINT_MAX, -ENOTSUP);
	id = begin(&f, f.streams[0]);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	destroy(end(f.streams[0]));
	g_assert_cmpuint(kept(&f), >=, kind->size);
	retire(&f, id, f.streams[0]);
	assert_all_back(&f);

	backend_fault_arm(f.pool->core.backend, BACKEND_OP_graph_watch, 0, 1, -EIO);
	begin_scratch(&f, kind->size, f.streams[0]);
	destroy(end(f.streams[0]));
	assert_all_back(&f);
	fixture_close(&f);
}

/* A capture that uses two pools tells both. */
static void test_two_pools(void)
{
	struct fixture f, g;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_open(&g, (struct vpmm_opts){ FIXTURE_OPTS });
	begin_scratch(&f, PAGE, f.streams[0]);
	ptr = fixture_malloc(&g, 1, f.streams[0]);
	fixture_free(&g, ptr, f.streams[0]);
	destroy(end(f.streams[0]));
	assert_all_back(&f);
	assert_all_back(&g);
	fixture_close_beside(&f);
	fixture_close(&g);
}

/* A pool can go before the graphs that it has memory of. */
static void test_outlives_pool(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	graph = capture_scratch_here(&f, PAGE);
	begin_scratch(&f, PAGE, f.streams[0]);
	fixture_close(&f);
	destroy(graph);
}

/* A request waits for the last launch of a graph that is destroyed, rather than fail. */
static void test_waited_for(void)
{
	struct vpmm_host_graph *graph, *other;
	struct fixture f;
	void *none = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
	other = capture_scratch_here(&f, PAGE);
	graph = capture_scratch_here(&f, 3 * PAGE);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	destroy(graph);
	assert_error(vpmm_malloc(f.pool, &none, 4 * PAGE, f.streams[0]), ENOMEM, "limit");
	fixture_free(&f, fixture_malloc(&f, 3, f.streams[0]), f.streams[0]);
	destroy(other);
	assert_all_back(&f);
	fixture_close(&f);
}

/* The report comes after the wait for frees, and nothing else keeps the request waiting then. */
static void test_reported_between_waits(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
	graph = capture_scratch_here(&f, 3 * PAGE);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	destroy(graph);
	fixture_free(&f, fixture_malloc(&f, 3, f.streams[0]), f.streams[0]);
	assert_all_back(&f);
	fixture_close(&f);
}

static unsigned int sleeps;

/* Replaces GLib's in the library too, and counts: the pool sleeps while it waits for a report of the backend. */
void g_usleep(gulong us)
{
	(void)us;
	sleeps++;
}

/*
 * A request that pending frees can serve does not wait for a graph that can still be launched. A request that would
 * fail does wait, and the next one waits less.
 */
static void test_not_waited_for(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	unsigned int first;
	void *ptr, *none = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE, .export_as = VPMM_EXPORT_FD });
	graph = capture_scratch_here(&f, 2 * PAGE);
	fixture_free_at_work(&f, fixture_malloc(&f, 2, f.streams[1]), f.streams[1]);
	sleeps = 0;
	assert_ok(vpmm_malloc_flags(f.pool, &ptr, 2 * PAGE, f.streams[0], VPMM_SHAREABLE));
	g_assert_cmpuint(sleeps, ==, 0);
	assert_error(vpmm_malloc(f.pool, &none, PAGE, f.streams[0]), ENOMEM, "limit");
	first = sleeps;
	g_assert_cmpuint(first, >, 0);
	assert_error(vpmm_malloc(f.pool, &none, PAGE, f.streams[0]), ENOMEM, "limit");
	g_assert_cmpuint(sleeps, >, first);
	g_assert_cmpuint(sleeps, <, 2 * first);
	fixture_free(&f, ptr, f.streams[0]);
	destroy(graph);
	assert_all_back(&f);
	fixture_close(&f);
}

/* How often the pool sleeps before a request fails for memory that a graph has. */
static unsigned int sleeps_until_failure(struct fixture *f)
{
	struct vpmm_host_graph *graph = capture_scratch_here(f, PAGE);
	void *none = NULL;

	sleeps = 0;
	assert_error(vpmm_malloc(f->pool, &none, 4 * PAGE, f->streams[0]), ENOMEM, "limit");
	destroy(graph);
	return sleeps;
}

/* A request that was served without such a wait does not shorten the next one. */
static void test_wait_not_needed(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f, fresh;
	unsigned int after, alone;

	fixture_open(&fresh, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
	graph = capture_scratch_here(&f, 3 * PAGE);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	destroy(graph);
	fixture_free(&f, fixture_malloc(&f, 3, f.streams[0]), f.streams[0]);
	after = sleeps_until_failure(&f);
	alone = sleeps_until_failure(&fresh);
	g_assert_cmpuint(after, ==, alone);
	fixture_close_beside(&f);
	fixture_close(&fresh);
}

#define ROUNDS 200

static void *capture_and_destroy(void *data)
{
	struct fixture *f = data;
	struct vpmm_host_graph *graph;
	struct CUstream_st *stream;

	assert_ok(vpmm_host_stream_create(&stream));
	for (int i = 0; i < ROUNDS; i++) {
		void *ptr;

		assert_ok(vpmm_host_capture_begin(stream));
		assert_ok(vpmm_malloc(f->pool, &ptr, PAGE, stream));
		assert_ok(vpmm_free(f->pool, ptr, stream));
		assert_ok(vpmm_host_capture_end(stream, &graph));
		assert_ok(vpmm_host_graph_launch(graph, stream));
		destroy(graph);
		assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
	}
	assert_ok(vpmm_host_stream_destroy(stream));
	return NULL;
}

/* It is told on one thread what another has asked for, at any time. */
static void test_threads(void)
{
	GThread *threads[3];
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("capture", capture_and_destroy, &f);
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
	assert_all_back(&f);
	fixture_close(&f);
}

/*
 * A request without a tag has the memory of a graph that had one, as soon as that is gone; and waits for the report of
 * one that may be.
 */
static void test_tag(void)
{
	vpmm_tag tag = tag_get("lost", VPMM_TAG_PAUSABLE);
	struct vpmm_host_graph *graph;
	struct fixture f;
	void *none = NULL;

	for (int launched = 0; launched < 2; launched++) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
		vpmm_tag_set(tag);
		graph = capture_scratch_here(&f, 3 * PAGE);
		vpmm_tag_set(0);
		sleeps = 0;
		assert_error(vpmm_malloc(f.pool, &none, 3 * PAGE, f.streams[0]), ENOMEM, "limit");
		g_assert_cmpuint(sleeps, >, 0);
		if (launched)
			assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
		destroy(graph);
		fixture_free(&f, fixture_malloc(&f, 3, f.streams[0]), f.streams[0]);
		assert_all_back(&f);
		fixture_close(&f);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/capture-lost/failed", kinds, test_failed);
	fixture_add_rows("/capture-lost/failed-live", kinds, test_failed_live);
	fixture_add_rows("/capture-lost/given-up", kinds, test_given_up);
	fixture_add_rows("/capture-lost/destroyed", kinds, test_destroyed);
	fixture_add_rows("/capture-lost/running", kinds, test_running);
	fixture_add_rows("/capture-lost/used", kinds, test_used);
	fixture_add_rows("/capture-lost/unwatched", kinds, test_unwatched);
	fixture_add_rows("/capture-lost/from-before", own_kinds, test_from_before);
	fixture_add_rows("/capture-lost/retired-late", own_kinds, test_retired_late);
	g_test_add_func("/capture-lost/merged", test_merged);
	fixture_add_rows("/capture-lost/noticed", calls, test_noticed);
	g_test_add_func("/capture-lost/part", test_part);
	g_test_add_func("/capture-lost/behind-uncovered", test_behind_uncovered);
	g_test_add_func("/capture-lost/group", test_group);
	g_test_add_func("/capture-lost/group-keeper", test_group_keeper);
	g_test_add_func("/capture-lost/retired", test_retired);
	g_test_add_func("/capture-lost/two-pools", test_two_pools);
	g_test_add_func("/capture-lost/outlives-pool", test_outlives_pool);
	g_test_add_func("/capture-lost/waited-for", test_waited_for);
	g_test_add_func("/capture-lost/reported-between-waits", test_reported_between_waits);
	g_test_add_func("/capture-lost/tag", test_tag);
	g_test_add_func("/capture-lost/not-waited-for", test_not_waited_for);
	g_test_add_func("/capture-lost/wait-not-needed", test_wait_not_needed);
	g_test_add_func("/capture-lost/threads", test_threads);
	return g_test_run();
}
