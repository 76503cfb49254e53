// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory under capture: what a graph touches is nobody else's until the graph is gone, and no call harms a capture. */
#include <errno.h>
#include <stdbool.h>

#include "calls/pool.h"
#include "host/capture-fixture.h"

static const struct kind kinds[] = { KINDS_EACH };

static void test_id(void)
{
	struct fixture f;
	uint64_t id = 1, first;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_capture_id(f.pool, f.streams[0], &id));
	g_assert_cmpuint(id, ==, 0);
	first = begin(&f, f.streams[0]);
	finish(f.streams[0]);
	g_assert_cmpuint(begin(&f, f.streams[0]), !=, first);
	finish(f.streams[0]);
	assert_error(vpmm_capture_id(f.pool, f.streams[0], NULL), EINVAL, "id is NULL");
	assert_error(vpmm_capture_id(f.pool, (struct CUstream_st *)0x1234, &id), EINVAL, "vpmm_capture_id");
	fixture_close(&f);
}

/* Whether it is among what a stream is given that asks for much. */
static bool is_to_be_had(struct fixture *f, const char *ptr, size_t size)
{
	size_t tries = size < PAGE ? PAGE / 512 : 8;
	void *got = NULL;

	for (size_t i = 0; i < tries && got != ptr; i++)
		assert_ok(vpmm_malloc(f->pool, &got, size, f->streams[2]));
	return got == ptr;
}

/* Nobody gets it before the graph is gone; then everybody can. */
static void test_freed_in_capture(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t id;
	char *a;

	fixture_open(&f, kind->opts);
	id = begin(&f, f.streams[0]);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	graph = end(f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, >=, kind->size);
	for (int i = 0; i < STREAMS; i++)
		g_assert_true(fixture_malloc_bytes(&f, kind->size, f.streams[i]) != a);

	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_true(is_to_be_had(&f, a, kind->size < PAGE && kind->opts.small ? PAGE : kind->size));
	fixture_close(&f);
}

/* What comes later in the graph may have it. */
static void test_reused_in_capture(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;
	uint64_t id;

	fixture_open(&f, kind->opts);
	id = begin(&f, f.streams[0]);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	g_assert_true(a == b);
	assert_error(vpmm_free(f.pool, a + 1, f.streams[0]), EINVAL, "no allocation");
	fixture_free(&f, b, f.streams[0]);
	assert_error(vpmm_free(f.pool, b, f.streams[0]), EINVAL, "no allocation");
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 2);
	finish(f.streams[0]);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	fixture_close(&f);
}

/* Without a group it is not split: it serves what is no more than an eighth smaller. */
static void test_reused_whole(void)
{
	struct fixture f;
	char *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	begin(&f, f.streams[0]);
	a = fixture_malloc(&f, 8, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 6, f.streams[0]);
	g_assert_true(b != a);
	g_assert_true(fixture_malloc(&f, 7, f.streams[0]) == a);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 8 * PAGE);
	fixture_free(&f, b, f.streams[0]);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* Another stream of the same capture is not behind it for that. */
static void test_not_reused_on_branch(void)
{
	struct fixture f;
	char *a, *b;
	uint64_t id, other;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	id = begin(&f, f.streams[0]);
	assert_ok(vpmm_host_stream_wait(f.streams[1], f.streams[0]));
	assert_ok(vpmm_capture_id(f.pool, f.streams[1], &other));
	g_assert_cmpuint(id, ==, other);
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	g_assert_true(a != b);
	fixture_free(&f, b, f.streams[1]);
	assert_ok(vpmm_host_stream_wait(f.streams[0], f.streams[1]));
	finish(f.streams[0]);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* A result of the graph stays after the capture, and goes back to the graph when it is freed. */
static void test_freed_after_capture(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a;
	uint64_t id;

	fixture_open(&f, kind->opts);
	id = begin(&f, f.streams[0]);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	finish(f.streams[0]);
	fixture_free(&f, a, f.streams[1]);
	assert_error(vpmm_free(f.pool, a, f.streams[1]), EINVAL, "no allocation");
	g_assert_true(fixture_malloc_bytes(&f, kind->size, f.streams[1]) != a);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[2]));
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[1]), f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* It outlives the graph, and is then like any other. */
static void test_freed_after_graph(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a;
	uint64_t id;

	fixture_open(&f, kind->opts);
	id = begin(&f, f.streams[0]);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	finish(f.streams[0]);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_free(&f, a, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* What was allocated before, freed or used in the capture, is touched at each launch as well. */
static void test_from_before(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *freed, *used, *b;
	uint64_t id;

	fixture_open(&f, kind->opts);
	freed = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	used = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	id = begin(&f, f.streams[0]);
	fixture_free(&f, freed, f.streams[0]);
	assert_ok(vpmm_use(f.pool, used, f.streams[0]));
	finish(f.streams[0]);
	fixture_free(&f, used, f.streams[0]);
	for (int i = 0; i < 3; i++) {
		b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
		g_assert_true(b != freed && b != used);
	}
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[1]), f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* Two graphs have it: it takes both to go. */
static void test_of_two_graphs(void)
{
	struct fixture f;
	char *a;
	uint64_t first, second;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	first = begin(&f, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[0]));
	finish(f.streams[0]);
	second = begin(&f, f.streams[1]);
	fixture_free(&f, a, f.streams[1]);
	finish(f.streams[1]);
	assert_ok(vpmm_graph_retire(f.pool, second, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, PAGE);
	assert_ok(vpmm_graph_retire(f.pool, first, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	assert_ok(vpmm_graph_retire(f.pool, first, f.streams[0]));
	fixture_close(&f);
}

/* The same of what is freed when only one of them is gone, or both are; the others have it no longer then. */
static void test_used_by_two_graphs(void)
{
	uint64_t ids[3];
	struct fixture f;
	char *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);
	for (int i = 0; i < 3; i++) {
		ids[i] = begin(&f, f.streams[0]);
		assert_ok(vpmm_use(f.pool, i < 2 ? a : b, f.streams[0]));
		assert_ok(vpmm_use(f.pool, b, f.streams[0]));
		finish(f.streams[0]);
		assert_ok(vpmm_pool_check(f.pool));
	}
	assert_ok(vpmm_graph_retire(f.pool, ids[1], f.streams[0]));
	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, PAGE);
	assert_ok(vpmm_graph_retire(f.pool, ids[0], f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	assert_ok(vpmm_graph_retire(f.pool, ids[2], f.streams[0]));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.graphs), ==, 0);
	fixture_free(&f, b, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/*
 * The last launch is still running when the graph is retired: who takes the memory comes after it. It was freed under
 * capture, or is a result, freed on another stream by now.
 */
static void test_retired_while_running(gconstpointer data)
{
	bool result = GPOINTER_TO_INT(data);
	struct vpmm_host_graph *graph;
	struct fixture f;
	char *a;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	id = begin(&f, f.streams[0]);
	a = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	if (!result)
		fixture_free(&f, a, f.streams[0]);
	graph = end(f.streams[0]);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	if (result)
		fixture_free(&f, a, f.streams[2]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[2]) == a);
	fixture_submit_waits(f.streams[2]);
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_host_stream_complete(f.streams[2], 1));
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_close(&f);
}

static void test_no_regions(void)
{
	void *ptr = NULL;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .page_size = SIZE_MAX });
	begin(&f, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &ptr, 100, f.streams[0]), ENOTSUP, "captured");
	finish(f.streams[0]);
	fixture_close(&f);
}

static void test_too_large(void)
{
	void *ptr = NULL;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	begin(&f, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &ptr, SIZE_MAX / 2, f.streams[0]), ENOMEM, "address");
	finish(f.streams[0]);
	fixture_close(&f);
}

/* A pool that goes while a graph has memory takes it along. */
static void test_destroy(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;

	fixture_open(&f, kind->opts);
	begin(&f, f.streams[0]);
	fixture_free(&f, fixture_malloc_bytes(&f, kind->size, f.streams[0]), f.streams[0]);
	fixture_malloc_bytes(&f, 2 * kind->size, f.streams[0]);
	finish(f.streams[0]);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/capture/id", test_id);
	fixture_add_rows("/capture/freed-inside", kinds, test_freed_in_capture);
	fixture_add_rows("/capture/reused-inside", kinds, test_reused_in_capture);
	g_test_add_func("/capture/whole", test_reused_whole);
	g_test_add_func("/capture/branch", test_not_reused_on_branch);
	fixture_add_rows("/capture/freed-after", kinds, test_freed_after_capture);
	fixture_add_rows("/capture/freed-after-graph", kinds, test_freed_after_graph);
	fixture_add_rows("/capture/from-before", kinds, test_from_before);
	g_test_add_func("/capture/two-graphs", test_of_two_graphs);
	g_test_add_func("/capture/used-by-two-graphs", test_used_by_two_graphs);
	g_test_add_data_func("/capture/retired-while-running", GINT_TO_POINTER(false), test_retired_while_running);
	g_test_add_data_func("/capture/freed-while-running", GINT_TO_POINTER(true), test_retired_while_running);
	g_test_add_func("/capture/no-regions", test_no_regions);
	g_test_add_func("/capture/too-large", test_too_large);
	fixture_add_rows("/capture/destroy", kinds, test_destroy);
	return g_test_run();
}
