// SPDX-License-Identifier: LGPL-2.1-or-later
/* Captures of the host backend's streams: what they record, and what they are invalidated by. */
#include "host/host-bench.h"

static struct vpmm_host_graph *const untouched = (struct vpmm_host_graph *)&untouched;

static uint64_t capture_id(struct backend *be, struct CUstream_st *stream)
{
	uint64_t id = UNTOUCHED;

	assert_ok(ops->stream_capture(be, stream, &id));
	return id;
}

static struct vpmm_host_graph *end(struct CUstream_st *stream)
{
	struct vpmm_host_graph *graph = untouched;

	assert_ok(vpmm_host_capture_end(stream, &graph));
	return graph;
}

static void assert_invalid(struct CUstream_st *stream, const char *why)
{
	struct vpmm_host_graph *graph = untouched;

	assert_refused(vpmm_host_capture_end(stream, &graph), -EINVAL, "the capture is invalid");
	g_assert_nonnull(strstr(error_get(), why));
	g_assert_true(graph == untouched);
}

static void append(void *data)
{
	GString *trace = data;

	g_string_append_c(trace, 'a');
}

static void append_b(void *data)
{
	g_string_append_c(data, 'b');
}

static void append_c(void *data)
{
	g_string_append_c(data, 'c');
}

/* What is captured does not run, and every launch is one piece of work for each that was. */
static void test_graph(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new();
	GString *trace = g_string_new(NULL);
	struct vpmm_host_graph *graph;

	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_stream_launch(s, append, trace));
	assert_ok(vpmm_host_stream_submit(s));
	assert_ok(vpmm_host_stream_launch(s, append_b, trace));
	g_assert_cmpuint(pending(s), ==, 0);
	graph = end(s);
	g_assert_cmpstr(trace->str, ==, "");

	assert_ok(vpmm_host_graph_launch(graph, s));
	assert_ok(vpmm_host_graph_launch(graph, t));
	g_assert_cmpuint(pending(s), ==, 3);
	assert_ok(vpmm_host_stream_complete(s, 2));
	g_assert_cmpstr(trace->str, ==, "a");
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_host_stream_complete(s, 1));
	assert_ok(vpmm_host_stream_complete(t, 3));
	g_assert_cmpstr(trace->str, ==, "abab");
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
	g_string_free(trace, TRUE);
}

/* A stream that waits for a captured one is captured with it, and what it captures is to be waited for. */
static void test_fork_and_join(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new(), *u = stream_new();
	GString *trace = g_string_new(NULL);
	struct backend *be = open_entered(0);
	struct vpmm_host_graph *graph;
	uint64_t id;

	assert_ok(vpmm_host_capture_begin(s));
	id = capture_id(be, s);
	assert_ok(vpmm_host_stream_launch(s, append, trace));
	assert_ok(vpmm_host_stream_wait(t, s));
	assert_ok(vpmm_host_stream_wait(u, t));
	g_assert_cmpuint(capture_id(be, t), ==, id);
	g_assert_cmpuint(capture_id(be, u), ==, id);
	assert_ok(vpmm_host_stream_launch(u, append_b, trace));
	assert_ok(vpmm_host_stream_launch(t, append_c, trace));
	assert_ok(vpmm_host_stream_wait(t, u));
	assert_ok(vpmm_host_stream_wait(s, t));
	graph = end(s);
	g_assert_cmpuint(capture_id(be, s) + capture_id(be, t) + capture_id(be, u), ==, 0);

	assert_ok(vpmm_host_graph_launch(graph, u));
	assert_ok(vpmm_host_stream_complete(u, UINT_MAX));
	g_assert_cmpstr(trace->str, ==, "abc");
	assert_ok(vpmm_host_graph_destroy(graph));
	close_left(be);
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
	assert_ok(vpmm_host_stream_destroy(u));
	g_string_free(trace, TRUE);
}

static void test_not_joined(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new();

	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_stream_wait(t, s));
	assert_ok(vpmm_host_stream_submit(t));
	assert_invalid(s, "did not wait for stream");
	/* One that joined and did nothing need not be waited for. */
	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_stream_wait(t, s));
	assert_ok(vpmm_host_graph_destroy(end(s)));
	assert_ok(vpmm_host_stream_submit(t));
	g_assert_cmpuint(pending(t), ==, 1);
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
}

/* A graph that is launched on a captured stream becomes part of what is captured. */
static void test_graph_in_graph(void)
{
	struct CUstream_st *s = stream_new();
	struct vpmm_host_graph *inner, *outer;

	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_stream_submit(s));
	inner = end(s);
	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_graph_launch(inner, s));
	assert_ok(vpmm_host_graph_launch(inner, s));
	outer = end(s);
	g_assert_cmpuint(pending(s), ==, 0);
	assert_ok(vpmm_host_graph_destroy(inner));
	assert_ok(vpmm_host_graph_launch(outer, s));
	g_assert_cmpuint(pending(s), ==, 2);
	assert_ok(vpmm_host_graph_destroy(outer));
	assert_ok(vpmm_host_stream_destroy(s));
}

/* What was submitted before goes on meanwhile, and what is cleared is cleared in the order of the graph. */
static void test_clear(void)
{
	struct CUstream_st *s = stream_new();
	struct backend *be = open_entered(0);
	uint64_t va = small(be, 512, s);
	struct vpmm_host_graph *graph;
	char *bytes = (char *)va;

	memset(bytes, 1, 512);
	assert_ok(vpmm_host_stream_submit(s));
	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_stream_submit(s));
	assert_ok(ops->clear(be, va, 100, s));
	assert_ok(vpmm_host_stream_complete(s, UINT_MAX));
	graph = end(s);
	g_assert_cmpint(bytes[0], ==, 1);
	assert_ok(vpmm_host_graph_launch(graph, s));
	g_assert_cmpint(bytes[0], ==, 1);
	assert_ok(vpmm_host_stream_complete(s, 1));
	g_assert_cmpint(bytes[99], ==, 0);
	g_assert_cmpint(bytes[100], ==, 1);

	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(ops->small_free(be, va, s));
	assert_ok(vpmm_host_stream_destroy(s));
	close_left(be);
}

static void test_ids(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new();
	struct backend *be = open_entered(0);
	uint64_t id = UNTOUCHED, last = 0;

	for (int i = 0; i < 10; i++) {
		assert_ok(vpmm_host_capture_begin(s));
		assert_refused(ops->stream_id(be, s, &id), -EBUSY, "being captured");
		g_assert_cmpuint(id, ==, UNTOUCHED);
		g_assert_cmpuint(capture_id(be, s), >, last);
		last = capture_id(be, s);
		g_assert_cmpuint(capture_id(be, t), ==, 0);
		assert_ok(vpmm_host_graph_destroy(end(s)));
	}
	close_left(be);
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
}

/* What invalidates: everything that a driver could not make part of a graph. */

static struct backend_event *recorded;

static int invalid_record(struct backend *be, struct CUstream_st *s, struct CUstream_st *t)
{
	(void)t;
	return ops->event_record(be, recorded, s);
}

static int invalid_record_legacy(struct backend *be, struct CUstream_st *s, struct CUstream_st *t)
{
	(void)s, (void)t;
	return ops->event_record(be, recorded, NULL);
}

static int invalid_event(struct backend *be, struct CUstream_st *s, struct CUstream_st *t)
{
	(void)t;
	return ops->stream_wait(be, s, recorded);
}

static int invalid_wait(struct backend *be, struct CUstream_st *s, struct CUstream_st *t)
{
	(void)be;
	return vpmm_host_stream_wait(s, t);
}

static int invalid_wait_of_legacy(struct backend *be, struct CUstream_st *s, struct CUstream_st *t)
{
	(void)be, (void)t;
	return vpmm_host_stream_wait(NULL, s);
}

static int invalid_wait_for_legacy(struct backend *be, struct CUstream_st *s, struct CUstream_st *t)
{
	(void)be, (void)s;
	return vpmm_host_stream_wait(t, NULL);
}

static int invalid_launch_legacy(struct backend *be, struct CUstream_st *s, struct CUstream_st *t)
{
	(void)be, (void)s, (void)t;
	return vpmm_host_stream_submit(NULL);
}

static void test_invalidated(void)
{
	int (*const calls[])(struct backend *be, struct CUstream_st *s, struct CUstream_st *t) = {
		invalid_record, invalid_record_legacy, invalid_event, invalid_wait,
		invalid_wait_of_legacy, invalid_wait_for_legacy, invalid_launch_legacy,
	};
	struct CUstream_st *s = stream_new(), *t = stream_new();
	struct backend *be = open_entered(0);
	uint64_t id;

	assert_ok(ops->event_create(be, &recorded));
	assert_ok(ops->event_record(be, recorded, t));
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		assert_ok(vpmm_host_capture_begin(s));
		id = capture_id(be, s);
		assert_refused(calls[i](be, s, t), -EBUSY, "captured");
		/* It is a capture until its end all the same. */
		g_assert_cmpuint(capture_id(be, s), ==, id);
		g_assert_cmpuint(capture_id(be, t), ==, 0);
		assert_refused(vpmm_host_stream_submit(s), -EBUSY, "invalid");
		assert_refused(vpmm_host_stream_wait(t, s), -EBUSY, "captured");
		assert_invalid(s, "captured");
		assert_ok(vpmm_host_stream_submit(s));
		assert_ok(vpmm_host_stream_complete(s, 1));
	}
	ops->event_destroy(be, recorded);
	close_left(be);
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
}

/* Two captures cannot become one. */
static void test_merge(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new();

	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_capture_begin(t));
	assert_refused(vpmm_host_stream_wait(s, t), -EBUSY, "not into the same graph");
	assert_invalid(s, "outside");
	assert_invalid(t, "outside");
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
}

/* To be asked what is asked before anything is done leaves a capture as it is. */
static void test_harmless(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new();
	struct backend *be = open_entered(0), *other = NULL;
	uint64_t id = UNTOUCHED;

	set("80G", "2", "64");
	assert_ok(vpmm_host_capture_begin(s));
	assert_refused(ops->stream_capture(be, NULL, &id), -EBUSY, "legacy");
	assert_refused(ops->stream_id(be, NULL, &id), -EBUSY, "legacy");
	assert_refused(ops->small_alloc(be, 100, s, &id), -EBUSY, "captured");
	g_assert_cmpuint(id, ==, UNTOUCHED);
	assert_ok(ops->stream_id(be, t, &id));
	assert_ok(vpmm_host_stream_submit(t));
	/* Another device has another default stream. */
	assert_ok(ops->open(1, &other));
	assert_ok(ops->enter(other));
	assert_ok(ops->stream_id(other, NULL, &id));
	g_assert_cmpuint(capture_id(other, NULL), ==, 0);
	assert_ok(ops->sync(other));
	ops->leave(other);
	ops->close(other);
	assert_ok(vpmm_host_graph_destroy(end(s)));
	g_assert_cmpuint(capture_id(be, NULL), ==, 0);
	close_left(be);
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
}

static void test_destroyed(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new(), *u = stream_new();
	struct backend *be = open_entered(0);

	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_stream_wait(t, s));
	assert_ok(vpmm_host_stream_destroy(t));
	assert_invalid(s, "destroyed");
	/* Nobody can end it any more. */
	assert_ok(vpmm_host_capture_begin(s));
	assert_ok(vpmm_host_stream_wait(u, s));
	assert_ok(vpmm_host_stream_destroy(s));
	g_assert_cmpuint(capture_id(be, u), ==, 0);
	g_assert_cmpuint(capture_id(be, NULL), ==, 0);
	close_left(be);
	assert_ok(vpmm_host_stream_destroy(u));
}

static gpointer capture_own(gpointer data)
{
	(void)data;
	assert_ok(vpmm_host_capture_begin(VPMM_HOST_STREAM_PER_THREAD));
	return NULL;
}

/* A thread that ends takes the capture of its stream along. */
static void test_thread_ends(void)
{
	struct backend *be = open_entered(0);

	g_thread_join(g_thread_new("capture", capture_own, NULL));
	g_assert_cmpuint(capture_id(be, NULL), ==, 0);
	g_assert_cmpuint(capture_id(be, VPMM_HOST_STREAM_PER_THREAD), ==, 0);
	close_left(be);
}

static void test_bad(void)
{
	struct CUstream_st *s = stream_new(), *t = stream_new(), *bad = (struct CUstream_st *)&s;
	struct vpmm_host_graph *graph = untouched;

	assert_refused(vpmm_host_capture_begin(bad), -EINVAL, "vpmm_host_capture_begin");
	assert_refused(vpmm_host_capture_begin(NULL), -EINVAL, "legacy");
	assert_ok(vpmm_host_capture_begin(s));
	assert_refused(vpmm_host_capture_begin(s), -EINVAL, "already");
	assert_ok(vpmm_host_stream_wait(t, s));
	assert_refused(vpmm_host_capture_begin(t), -EINVAL, "already");
	assert_refused(vpmm_host_capture_end(t, &graph), -EINVAL, "no capture was begun");
	assert_refused(vpmm_host_capture_end(bad, &graph), -EINVAL, "vpmm_host_capture_end");
	assert_refused(vpmm_host_capture_end(s, NULL), -EINVAL, "graph is NULL");
	g_assert_true(graph == untouched);
	graph = end(s);
	assert_refused(vpmm_host_capture_end(s, &graph), -EINVAL, "no capture was begun");
	assert_refused(vpmm_host_graph_launch(NULL, s), -EINVAL, "graph is NULL");
	assert_refused(vpmm_host_graph_launch(graph, bad), -EINVAL, "vpmm_host_graph_launch");
	assert_refused(vpmm_host_graph_destroy(NULL), -EINVAL, "graph is NULL");
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_host_stream_destroy(s));
	assert_ok(vpmm_host_stream_destroy(t));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/host/capture/graph", test_graph);
	g_test_add_func("/host/capture/fork-and-join", test_fork_and_join);
	g_test_add_func("/host/capture/not-joined", test_not_joined);
	g_test_add_func("/host/capture/graph-in-graph", test_graph_in_graph);
	g_test_add_func("/host/capture/clear", test_clear);
	g_test_add_func("/host/capture/ids", test_ids);
	g_test_add_func("/host/capture/invalidated", test_invalidated);
	g_test_add_func("/host/capture/merge", test_merge);
	g_test_add_func("/host/graphs.harmless", test_harmless);
	g_test_add_func("/host/capture/destroyed", test_destroyed);
	g_test_add_func("/host/capture/thread-ends", test_thread_ends);
	g_test_add_func("/host/capture/bad", test_bad);
	return g_test_run();
}
