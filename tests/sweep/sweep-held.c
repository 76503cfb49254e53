// SPDX-License-Identifier: LGPL-2.1-or-later
/* More situations and actions: memory that others use, streams that go, captures, and memory that is cleared. */
#include <errno.h>

#include "calls/pool.h"
#include "sweep/sweep-scenes.h"

/* With so many streams, a pool looks for those that are idle when it meets another. */
#define CROWD 64

/* Actions */

static int act_use(struct sweep *s)
{
	return vpmm_use(s->pool, s->ptr, s->streams[2]);
}

static int act_use_captured(struct sweep *s)
{
	return vpmm_use(s->pool, s->ptr, s->streams[0]);
}

static int act_retire(struct sweep *s)
{
	return vpmm_stream_retire(s->pool, s->streams[0]);
}

static int act_retire_graph(struct sweep *s)
{
	return vpmm_graph_retire(s->pool, s->graph, s->streams[1]);
}

static int act_retire_graph_captured(struct sweep *s)
{
	return vpmm_graph_retire(s->pool, s->graph, s->streams[0]);
}

static int act_capture_id(struct sweep *s)
{
	uint64_t id;

	return vpmm_capture_id(s->pool, s->streams[0], &id);
}

static int act_zero(struct sweep *s)
{
	return sweep_zero(s, s->number, 0);
}

static int act_idle(struct sweep *s)
{
	return sweep_idle(s, s->number, 0, 0);
}

static int act_idle_zero(struct sweep *s)
{
	return sweep_idle(s, s->number, 0, VPMM_ZERO);
}

/* On the default stream, which cannot be recorded beside a capture */

static int act_free_default(struct sweep *s)
{
	return sweep_free(s, s->ptr, SWEEP_DEFAULT);
}

static int act_use_default(struct sweep *s)
{
	return vpmm_use(s->pool, s->ptr, NULL);
}

/* What another stream uses */

static void stage_used_small(struct sweep *s)
{
	s->ptr = sweep_have(s, 1000, 0);
	use(s, s->ptr, 1);
	s->number = 1000;
}

static void stage_user_retired(struct sweep *s)
{
	stage_used(s);
	sweep_busy(s, 1);
	assert_ok(vpmm_stream_retire(s->pool, s->streams[1]));
}

static gpointer use_per_thread(gpointer data)
{
	struct sweep *s = data;

	assert_ok(vpmm_use(s->pool, s->ptr, STREAM_PER_THREAD));
	return NULL;
}

static void use_elsewhere(struct sweep *s)
{
	g_thread_join(g_thread_new("user", use_per_thread, s));
}

static void stage_user_silent(struct sweep *s)
{
	stage_used(s);
	use_elsewhere(s);
}

/* What another stream used, and the program has freed */

static void stage_held(struct sweep *s)
{
	stage_used(s);
	sweep_busy(s, 1);
	sweep_drop(s, s->ptr, 0);
	sweep_finish(s, 1);
}

static void stage_held_small(struct sweep *s)
{
	stage_used_small(s);
	sweep_busy(s, 1);
	sweep_drop(s, s->ptr, 0);
	sweep_finish(s, 1);
}

/* Nearly all that there may be is held for two streams at work. */
static void stage_held_all(struct sweep *s)
{
	sweep_have(s, PAGE, 0);
	s->ptr = sweep_have(s, 5 * PAGE, 2);
	use(s, s->ptr, 1);
	sweep_busy(s, 1);
	sweep_busy(s, 2);
	sweep_drop(s, s->ptr, 2);
	s->number = 6 * PAGE;
}

/* The same, and for a stream that nobody can mark. */
static void stage_held_silent(struct sweep *s)
{
	sweep_have(s, PAGE, 0);
	s->ptr = sweep_have(s, 5 * PAGE, 2);
	use_elsewhere(s);
	use(s, s->ptr, 1);
	sweep_busy(s, 1);
	sweep_drop(s, s->ptr, 2);
	s->number = 6 * PAGE;
}

/* Streams that go */

static void stage_cached_unmarked(struct sweep *s)
{
	void *a, *b;

	sweep_have(s, PAGE, 1);
	a = sweep_have(s, 2 * PAGE, 0);
	b = sweep_have(s, PAGE, 0);
	calm(s, 0);
	sweep_drop(s, a, 0);
	sweep_drop(s, b, 0);
}

static void stage_user_goes(struct sweep *s)
{
	s->ptr = sweep_have(s, 2 * PAGE, 1);
	use(s, s->ptr, 0);
	sweep_busy(s, 0);
}

/* Two streams' memory, of which one is done, and the other has some that the first had before. */
static void stage_stranded_goes(struct sweep *s)
{
	void *a = sweep_reuse(s);

	sweep_drop(s, a, 1);
}

static void stage_freed(struct sweep *s)
{
	void *a = sweep_have(s, 2 * PAGE, 0);

	sweep_have(s, PAGE, 1);
	sweep_busy(s, 0);
	sweep_drop(s, a, 0);
}

/* Streams that came, worked, and went without a word; some had memory at the same time. */
static void stage_crowd(struct sweep *s)
{
	struct CUstream_st *streams[CROWD];
	void *ptrs[CROWD];

	for (int i = 0; i < CROWD; i++) {
		assert_ok(s->on->device->stream_create(&streams[i]));
		assert_ok(vpmm_malloc(s->pool, &ptrs[i], PAGE, streams[i]));
		if (i % 16)
			assert_ok(vpmm_free(s->pool, ptrs[i], streams[i]));
	}
	for (int i = 0; i < CROWD; i++) {
		if (!(i % 16))
			assert_ok(vpmm_free(s->pool, ptrs[i], streams[i]));
		assert_ok(s->on->device->stream_destroy(streams[i]));
	}
	s->number = PAGE;
}

/* Captures */

/* Something is free, and something is another stream's. */
static void stage_capture(struct sweep *s)
{
	void *a = sweep_have(s, 2 * PAGE, 0), *b = sweep_have(s, 3 * PAGE, 1);

	s->ptr = sweep_have(s, PAGE, 0);
	sweep_drop(s, a, 0);
	sweep_drop(s, b, 1);
	sweep_capture(s, 0);
	s->number = 7 * PAGE;
}

static void stage_capture_small(struct sweep *s)
{
	s->ptr = sweep_have(s, 1000, 0);
	sweep_capture(s, 0);
	s->number = 512;
}

/* Pieces of several streams, some at work, are what a request in a capture finds. */
static void stage_capture_pieces(struct sweep *s)
{
	sweep_have_pieces(s, 1);
	sweep_capture(s, 0);
	s->number = 5 * PAGE;
}

/* What was freed in a capture serves the next request in it. */
static void stage_capture_freed(struct sweep *s)
{
	sweep_capture(s, 0);
	sweep_drop(s, sweep_have(s, 2 * PAGE, 0), 0);
	s->number = 2 * PAGE;
}

static int act_capture_group(struct sweep *s)
{
	return vpmm_capture_group(s->pool, s->graph, 1);
}

/* An earlier graph of the group has freed two adjacent blocks. The one that is being captured needs parts of both. */
static void stage_capture_shared(struct sweep *s)
{
	void *a, *b;

	sweep_capture(s, 0);
	assert_ok(act_capture_group(s));
	a = sweep_have(s, 2 * PAGE, 0);
	b = sweep_have(s, 3 * PAGE, 0);
	sweep_drop(s, a, 0);
	sweep_drop(s, b, 0);
	sweep_end(s, 0);
	sweep_capture(s, 0);
	assert_ok(act_capture_group(s));
	s->number = 4 * PAGE;
}

/* The graph that is retired has had a part of what another of its group has freed, and still has some. */
static void stage_graph_shared(struct sweep *s)
{
	stage_capture_shared(s);
	sweep_drop(s, sweep_have(s, 4 * PAGE, 0), 0);
	s->ptr = sweep_have(s, PAGE, 0);
	sweep_end(s, 0);
}

static void stage_capture_used(struct sweep *s)
{
	stage_used_busy(s);
	sweep_capture(s, 0);
}

/* In a capture, memory comes from what is held for a stream at work. */
static void stage_capture_held(struct sweep *s)
{
	stage_held_all(s);
	sweep_capture(s, 0);
}

static void stage_capture_held_silent(struct sweep *s)
{
	stage_held_silent(s);
	sweep_capture(s, 0);
}

static void stage_captured_small(struct sweep *s)
{
	s->ptr = sweep_have(s, 1000, 1);
	sweep_capture(s, 0);
	use(s, s->ptr, 0);
	sweep_end(s, 0);
}

/* A graph has memory that was freed in its capture, after it and not at all, and some that others work on. */
static void stage_graph(struct sweep *s)
{
	void *a = sweep_have(s, 2 * PAGE, 2), *b, *c, *small = sweep_have(s, 1000, 2);

	use(s, a, 3);
	sweep_capture(s, 0);
	b = sweep_have(s, PAGE, 0);
	c = sweep_have(s, 2 * PAGE, 0);
	s->ptr = sweep_have(s, 3 * PAGE, 0);
	use(s, small, 0);
	sweep_busy(s, 3);
	sweep_drop(s, a, 0);
	sweep_drop(s, b, 0);
	sweep_end(s, 0);
	sweep_drop(s, c, 2);
	sweep_drop(s, small, 2);
}

/* Another stream works on what was freed in the capture, from before it was allocated. */
/* What the graph had is to be had again, as nobody can launch it any more. */
static void stage_graph_gone(struct sweep *s)
{
	stage_graph(s);
	sweep_finish(s, 3);
	sweep_destroy_graphs(s);
	s->number = 2 * PAGE;
}

static void stage_graph_gone_captured(struct sweep *s)
{
	stage_graph_gone(s);
	sweep_capture(s, 0);
}

static void stage_graph_behind(struct sweep *s)
{
	void *a = sweep_have(s, 4 * PAGE, 1);

	sweep_have(s, PAGE, 0);
	sweep_busy(s, 1);
	sweep_drop(s, a, 1);
	s->ptr = sweep_have(s, 3 * PAGE + 512, 2);
	sweep_capture(s, 0);
	sweep_drop(s, s->ptr, 0);
	sweep_end(s, 0);
}

static int act_retire_graph_aside(struct sweep *s)
{
	return vpmm_graph_retire(s->pool, s->graph, s->streams[3]);
}

/* Memory that is cleared */

static void stage_clear_large(struct sweep *s)
{
	sweep_have(s, PAGE, 0);
	s->number = 3 * PAGE + 512;
}

static void stage_clear_small(struct sweep *s)
{
	sweep_have(s, 512, 0);
	s->number = 1000;
}

static void stage_clear_passed(struct sweep *s)
{
	void *a = sweep_have(s, 4 * PAGE, 1);

	sweep_have(s, PAGE, 0);
	sweep_busy(s, 1);
	sweep_drop(s, a, 1);
	sweep_finish(s, 1);
	s->number = 4 * PAGE;
}

static void stage_clear_cached(struct sweep *s)
{
	sweep_drop(s, sweep_have(s, PAGE, 0), 0);
	s->number = PAGE;
}

static void stage_clear_captured(struct sweep *s)
{
	sweep_capture(s, 0);
	sweep_drop(s, sweep_have(s, PAGE, 0), 0);
	s->number = PAGE;
}

static void stage_clear_captured_first(struct sweep *s)
{
	sweep_capture(s, 0);
	s->number = 2 * PAGE;
}

/* A capture beside the default stream */

static void stage_beside(struct sweep *s)
{
	s->ptr = sweep_have(s, 2 * PAGE, 1);
	s->number = 2 * PAGE;
	sweep_capture(s, 0);
}

static void stage_beside_small(struct sweep *s)
{
	s->ptr = sweep_have(s, 1000, 1);
	sweep_capture(s, 0);
}

static void stage_beside_used(struct sweep *s)
{
	s->ptr = sweep_have(s, 2 * PAGE, 1);
	use(s, s->ptr, 2);
	sweep_capture(s, 0);
}

/* The capture has ended, so the free can be done. */
static void stage_beside_over(struct sweep *s)
{
	stage_beside(s);
	sweep_drop(s, s->ptr, SWEEP_DEFAULT);
	sweep_end(s, 0);
}

#define LIMIT .opts = { .limit = 8 * PAGE }, .gives = true
#define LIMIT_BLOCK .opts = { .limit = 8 * PAGE, .reuse = VPMM_REUSE_BLOCK }, .gives = true, .waits = true
#define SCRUB_STREAM .opts = { .scrub = VPMM_SCRUB_STREAM }, .keeps = true
#define SCRUB_ALWAYS .opts = { .scrub = VPMM_SCRUB_ALWAYS }, .keeps = true

const struct sweep_scene sweep_held_scenes[] = {
	{ "use", ALL, OP(stream_id), stage_used_busy, act_use },
	{ "use-small", ALL, OP(stream_id), stage_used_small, act_use },
	{ "used", ALL, OP(event_record), stage_used, act_free },
	{ "used-small", ALL, OP(event_record), stage_used_small, act_free },
	{ "used-busy", ALL, OP(event_query), stage_used_busy, act_free },
	{ "used-retired", ALL, OP(event_record), stage_user_retired, act_free },
	{ "used-silent", ALL, OP(event_record), stage_user_silent, act_free },
	{ "used-any", ALL, OP(event_record_all), stage_used_busy, act_free_any, .waits = true },
	{ "used-any-small", ALL, OP(event_record_all), stage_used_small, act_free_any, .waits = true },
	{ "graph-any", ALL, OP(sync), stage_captured, act_free_any, .waits = true },
	{ "held", ALL, OP(event_query), stage_held, act_malloc },
	{ "held-small", PAGED, OP(event_query), stage_held_small, act_malloc },
	{ "held-driver", PAGED, OP(small_free), stage_held_small, act_malloc },
	{ "held-meet", ALL, OP(stream_wait), stage_held_all, act_malloc, LIMIT },
	{ "held-meet-wait", ALL, OP(event_sync), stage_held_all, act_malloc, LIMIT_BLOCK },
	{ "held-silent", ALL, OP(sync), stage_held_silent, act_malloc, LIMIT, .waits = true },
	{ "retire", CACHED, OP(event_record), stage_cached_unmarked, act_retire },
	{ "retire-uses", ALL, OP(event_record), stage_user_goes, act_retire },
	{ "retire-stranded", CACHED, OP(event_record), stage_stranded_goes, act_retire },
	{ "retire-busy", UNCACHED, OP(event_query), stage_freed, act_retire },
	{ "retire-captured", ALL, OP(stream_id), stage_capture_own, act_retire, .result = -EBUSY },
	{ "crowd", SWEEP_PACKED | SWEEP_PAGED, OP(event_query), stage_crowd, act_malloc },
	{ "capture-id", SWEEP_PACKED, OP(stream_capture), stage_capture_own, act_capture_id },
	{ "capture", ALL, OP(create), stage_capture, act_malloc },
	{ "capture-small", ALL, OP(stream_capture), stage_capture_small, act_malloc },
	{ "capture-pieces", ALL, OP(stream_capture), stage_capture_pieces, act_malloc, .waits = true },
	{ "capture-reuse", ALL, OP(stream_capture), stage_capture_freed, act_malloc },
	{ "capture-group", ALL, OP(enter), stage_capture_freed, act_capture_group },
	{ "capture-shared", ALL, OP(stream_capture), stage_capture_shared, act_malloc },
	{ "capture-shared-scrub", ALL, OP(clear), stage_capture_shared, act_malloc, SCRUB_STREAM },
	{ "capture-held", ALL, OP(event_sync), stage_capture_held, act_malloc, LIMIT, .waits = true },
	{ "capture-held-silent", ALL, OP(sync), stage_capture_held_silent, act_malloc, LIMIT,
	  .waits = true },
	{ "beside-free", ALL, OP(stream_capture), stage_beside, act_free_default },
	{ "beside-free-small", ALL, OP(stream_capture), stage_beside_small, act_free_default },
	{ "beside-free-used", ALL, OP(event_record), stage_beside_used, act_free_default },
	{ "beside-use", ALL, OP(stream_capture), stage_beside, act_use_default },
	{ "beside-done", ALL, OP(event_record), stage_beside_over, act_malloc },
	{ "capture-free", ALL, OP(stream_capture), stage_capture, act_free },
	{ "capture-free-own", ALL, OP(stream_capture), stage_capture_own, act_free },
	{ "capture-free-small", ALL, OP(stream_capture), stage_capture_small, act_free },
	{ "capture-free-used", ALL, OP(event_record), stage_capture_used, act_free },
	{ "capture-use", ALL, OP(stream_capture), stage_capture, act_use_captured },
	{ "capture-query", ALL, OP(stream_id), stage_capture, act_query, .result = -EBUSY },
	{ "capture-trim", ALL, OP(release), stage_capture, act_trim, .gives = true },
	{ "captured-free", ALL, OP(event_record), stage_captured, act_free },
	{ "captured-free-small", ALL, OP(event_record), stage_captured_small, act_free },
	{ "graph", ALL, OP(event_record), stage_graph, act_retire_graph },
	{ "graph-watch", ALL, OP(graph_watch), stage_capture, act_malloc },
	{ "graph-watch-use", ALL, OP(graph_watch), stage_capture, act_use_captured },
	{ "graph-watch-free", ALL, OP(graph_watch), stage_capture, act_free },
	{ "graph-gone", ALL, OP(stream_id), stage_graph_gone, act_malloc },
	{ "graph-gone-captured", ALL, OP(stream_id), stage_graph_gone_captured, act_malloc },
	{ "graph-behind", UNCACHED, OP(stream_wait), stage_graph_behind, act_retire_graph_aside },
	{ "graph-shared", ALL, OP(event_record), stage_graph_shared, act_retire_graph },
	{ "graph-live", ALL, OP(stream_id), stage_captured, act_retire_graph },
	{ "graph-captured", ALL, OP(stream_id), stage_capture_freed, act_retire_graph_captured, .result = -EBUSY },
	{ "zero", ALL, OP(clear), stage_clear_large, act_zero, .keeps = true },
	{ "zero-small", ALL, OP(clear), stage_clear_small, act_zero, .keeps = true },
	{ "zero-cached", CACHED, OP(clear), stage_clear_cached, act_zero, .keeps = true },
	{ "zero-captured", ALL, OP(clear), stage_clear_captured_first, act_zero, .keeps = true },
	{ "idle", ALL, OP(create), stage_clear_large, act_idle },
	{ "idle-small", ALL, OP(stream_id), stage_clear_small, act_idle },
	{ "idle-beside-pending", ALL, OP(create), stage_held_all, act_idle },
	{ "idle-waits", ALL, OP(event_sync), stage_held_all, act_idle, LIMIT, .waits = true },
	{ "idle-captured", ALL, OP(create), stage_clear_captured_first, act_idle },
	{ "idle-zero", ALL, OP(event_sync), stage_clear_large, act_idle_zero, .keeps = true, .waits = true },
	{ "idle-zero-small", ALL, OP(event_sync), stage_clear_small, act_idle_zero, .keeps = true, .waits = true },
	{ "idle-scrub", ALL, OP(event_sync), stage_clear_cached, act_idle, SCRUB_ALWAYS, .waits = true },
	{ "scrub-new", ALL, OP(clear), stage_clear_large, act_malloc, SCRUB_STREAM },
	{ "scrub-small", ALL, OP(clear), stage_clear_small, act_malloc, SCRUB_STREAM },
	{ "scrub-passed", ALL, OP(clear), stage_clear_passed, act_malloc, SCRUB_STREAM },
	{ "scrub-always", ALL, OP(clear), stage_clear_cached, act_malloc, SCRUB_ALWAYS },
	{ "scrub-captured", ALL, OP(clear), stage_clear_captured_first, act_malloc, SCRUB_STREAM },
	{ "scrub-recaptured", ALL, OP(clear), stage_clear_captured, act_malloc, SCRUB_ALWAYS },
};
const size_t sweep_held_scene_count = G_N_ELEMENTS(sweep_held_scenes);
