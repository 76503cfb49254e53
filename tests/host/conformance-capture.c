// SPDX-License-Identifier: LGPL-2.1-or-later
/* What every backend has to do with memory that is cleared or copied, and beside captures. */
#include <stdatomic.h>

#include "host/conformance-bench.h"

/* Several of the kernel's pages. */
#define BYTES 16384

static void fill(struct bench *b, uint64_t va, unsigned char value)
{
	unsigned char bytes[BYTES];

	memset(bytes, value, sizeof(bytes));
	assert_ok(b->device->write(va, bytes, sizeof(bytes)));
}

/* All is as it was but for what was cleared. */
static void assert_cleared(struct bench *b, uint64_t va, size_t from, size_t to)
{
	unsigned char bytes[BYTES];

	assert_ok(b->device->read(va, bytes, sizeof(bytes)));
	for (size_t i = 0; i < sizeof(bytes); i++)
		g_assert_cmpuint(bytes[i], ==, i >= from && i < to ? 0 : 0x5a);
}

static void wait_for(struct bench *b, struct CUstream_st *stream)
{
	struct backend_event *event = record(b, stream);

	assert_ok(b->ops->event_sync(b->be, event));
	b->ops->event_destroy(b->be, event);
}

static void check_clear(struct bench *b)
{
	static const struct {
		size_t from;
		size_t to;
	} parts[] = {
		{ 0, BYTES }, { 0, 1 }, { 7, 8 }, { 3, 1001 }, { 512, 1024 }, { 100, BYTES - 7 }, { BYTES - 1, BYTES }
	};
	struct CUstream_st *const streams[] = { NULL, STREAM_PER_THREAD, stream_new(b) };
	uint64_t va = reserve(b, 2), handle = create(b, 1), second = create(b, 1);
	uint64_t at = va + b->page - BYTES / 2;

	map_access(b, va, 1, handle);
	map_access(b, va + b->page, 1, second);
	for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
		struct CUstream_st *stream = streams[i % G_N_ELEMENTS(streams)];

		fill(b, at, 0x5a);
		assert_ok(b->ops->clear(b->be, at + parts[i].from, parts[i].to - parts[i].from, stream));
		wait_for(b, stream);
		assert_cleared(b, at, parts[i].from, parts[i].to);
	}
	unmap(b, va, 2);
	release(b, handle);
	release(b, second);
	unreserve(b, va, 2);
	stream_end(b, streams[2]);
}

/* It comes after what was submitted before. */
static void check_clear_in_order(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	uint64_t va = small_alloc(b, BYTES, stream);
	struct backend_event *event;

	wait_for(b, stream);
	fill(b, va, 0x5a);
	assert_ok(b->device->hold(stream));
	assert_ok(b->ops->clear(b->be, va, BYTES, stream));
	event = record(b, stream);
	g_assert_false(is_complete(b, event));
	if (b->device->strict)
		assert_cleared(b, va, 0, 0);
	assert_ok(b->device->finish(stream));
	assert_completes(b, event);
	assert_cleared(b, va, 0, BYTES);
	b->ops->event_destroy(b->be, event);
	small_free(b, va, stream);
	stream_end(b, stream);
}

static void check_clear_bad(struct bench *b)
{
	uint64_t va = reserve(b, 2), handle = create(b, 1);

	assert_refused(b->ops->clear(b->be, va, BYTES, NULL), -EINVAL);
	map(b, va, 1, handle);
	assert_refused(b->ops->clear(b->be, va, BYTES, NULL), -EINVAL);
	assert_ok(b->ops->access(b->be, va, b->page));
	assert_refused(b->ops->clear(b->be, va + b->page - 1, 2, NULL), -EINVAL);
	assert_refused(b->ops->clear(b->be, va, BYTES, (struct CUstream_st *)0x3), -EINVAL);
	b->ops->leave(b->be);
	assert_refused(b->ops->clear(b->be, va, BYTES, NULL), -EINVAL);
	assert_ok(b->ops->enter(b->be));
	unmap(b, va, 1);
	release(b, handle);
	unreserve(b, va, 2);
}

/* The second half of the bytes has a copy of the first. */
static void assert_copied(struct bench *b, uint64_t va, unsigned char first, unsigned char second)
{
	unsigned char bytes[BYTES];

	assert_ok(b->device->read(va, bytes, sizeof(bytes)));
	for (size_t i = 0; i < sizeof(bytes); i++)
		g_assert_cmpuint(bytes[i], ==, i < BYTES / 2 ? first : second);
}

/* From one mapping to another, and within one: what is copied arrives, and nothing else changes. */
static void check_copy(struct bench *b)
{
	struct CUstream_st *const streams[] = { NULL, STREAM_PER_THREAD, stream_new(b) };
	uint64_t va = reserve(b, 2), handle = create(b, 1), second = create(b, 1);
	uint64_t to = va + b->page + BYTES;

	map_access(b, va, 1, handle);
	map_access(b, va + b->page, 1, second);
	for (size_t i = 0; i < G_N_ELEMENTS(streams); i++) {
		fill(b, va, 0x5a);
		fill(b, to, 0x33);
		assert_ok(b->ops->copy(b->be, to + BYTES / 2, va, BYTES / 2, streams[i]));
		wait_for(b, streams[i]);
		assert_copied(b, to, 0x33, 0x5a);
		fill(b, to + BYTES, 0x11);
		assert_ok(b->ops->copy(b->be, to + BYTES / 2, to + BYTES, BYTES / 2, streams[i]));
		wait_for(b, streams[i]);
		assert_copied(b, to, 0x33, 0x11);
	}
	unmap(b, va, 2);
	release(b, handle);
	release(b, second);
	unreserve(b, va, 2);
	stream_end(b, streams[2]);
}

/* What is copied is what is there once the work submitted before is done. */
static void check_copy_in_order(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	uint64_t va = small_alloc(b, BYTES, stream), other = small_alloc(b, BYTES, stream);
	struct backend_event *event;

	wait_for(b, stream);
	fill(b, va, 0x5a);
	fill(b, other, 0x33);
	assert_ok(b->device->hold(stream));
	assert_ok(b->ops->copy(b->be, va, other, BYTES, stream));
	event = record(b, stream);
	g_assert_false(is_complete(b, event));
	if (b->device->strict)
		assert_copied(b, va, 0x5a, 0x5a);
	assert_ok(b->device->finish(stream));
	assert_completes(b, event);
	assert_copied(b, va, 0x33, 0x33);
	b->ops->event_destroy(b->be, event);
	small_free(b, va, stream);
	small_free(b, other, stream);
	stream_end(b, stream);
}

static void check_copy_bad(struct bench *b)
{
	uint64_t va = reserve(b, 3), handle = create(b, 1), second = create(b, 1), to = va + b->page;

	map_access(b, va, 1, handle);
	assert_refused(b->ops->copy(b->be, to, va, BYTES, NULL), -EINVAL);
	assert_refused(b->ops->copy(b->be, va, to, BYTES, NULL), -EINVAL);
	map(b, to, 1, second);
	assert_refused(b->ops->copy(b->be, to, va, BYTES, NULL), -EINVAL);
	assert_ok(b->ops->access(b->be, to, b->page));
	assert_refused(b->ops->copy(b->be, to, va, b->page + 1, NULL), -EINVAL);
	assert_refused(b->ops->copy(b->be, va + 1, va, BYTES, NULL), -EINVAL);
	assert_refused(b->ops->copy(b->be, va, va + BYTES - 1, BYTES, NULL), -EINVAL);
	assert_refused(b->ops->copy(b->be, to, va, BYTES, (struct CUstream_st *)0x3), -EINVAL);
	b->ops->leave(b->be);
	assert_refused(b->ops->copy(b->be, to, va, BYTES, NULL), -EINVAL);
	assert_ok(b->ops->enter(b->be));
	assert_ok(b->ops->copy(b->be, va + BYTES, va, BYTES, NULL));
	wait_for(b, NULL);
	unmap(b, va, 2);
	release(b, handle);
	release(b, second);
	unreserve(b, va, 3);
}

static void *capture_end(struct bench *b, struct CUstream_st *stream)
{
	void *graph;

	assert_ok(b->device->capture_end(stream, &graph));
	g_assert_nonnull(graph);
	return graph;
}

static void capture_finish(struct bench *b, struct CUstream_st *stream)
{
	assert_ok(b->device->graph_destroy(capture_end(b, stream)));
}

static uint64_t capture_id(struct bench *b, struct CUstream_st *stream)
{
	uint64_t id = UNTOUCHED;

	assert_ok(b->ops->stream_capture(b->be, stream, &id));
	return id;
}

static void check_capture_none(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);

	g_assert_cmpuint(capture_id(b, NULL), ==, 0);
	g_assert_cmpuint(capture_id(b, STREAM_LEGACY), ==, 0);
	g_assert_cmpuint(capture_id(b, STREAM_PER_THREAD), ==, 0);
	g_assert_cmpuint(capture_id(b, stream), ==, 0);
	stream_end(b, stream);
}

/* A captured stream is refused, which does no harm to the capture, and it is none any more afterwards. */
static void check_capture_ids(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b), *other = stream_new(b);
	uint64_t id = UNTOUCHED, own = stream_id(b, stream), first, second;

	assert_ok(b->device->capture_begin(stream));
	first = capture_id(b, stream);
	g_assert_cmpuint(first, !=, 0);
	assert_refused(b->ops->stream_id(b->be, stream, &id), -EBUSY);
	g_assert_cmpuint(id, ==, UNTOUCHED);
	g_assert_cmpuint(capture_id(b, stream), ==, first);
	g_assert_cmpuint(capture_id(b, other), ==, 0);
	capture_finish(b, stream);
	g_assert_cmpuint(capture_id(b, stream), ==, 0);
	g_assert_cmpuint(stream_id(b, stream), ==, own);

	assert_ok(b->device->capture_begin(stream));
	second = capture_id(b, stream);
	g_assert_cmpuint(second, !=, 0);
	g_assert_cmpuint(second, !=, first);
	capture_finish(b, stream);
	stream_end(b, stream);
	stream_end(b, other);
}

/* All that a pool does on other streams is done beside a capture, on the thread that captures and on another. */
static void *work_beside(void *data)
{
	struct bench *b = data;
	struct CUstream_st *stream;
	struct backend_event *event, *timed;
	uint64_t va, handle;

	assert_ok(b->ops->enter(b->be));
	va = reserve(b, 1);
	handle = create(b, 1);
	stream = stream_new(b);
	map_access(b, va, 1, handle);
	assert_ok(b->ops->clear(b->be, va, b->page, stream));
	small_free(b, small_alloc(b, BYTES, stream), stream);
	event = record(b, stream);
	is_complete(b, event);
	assert_ok(b->ops->stream_wait(b->be, stream, event));
	timed = record_timed(b, stream);
	assert_ok(b->ops->event_sync(b->be, event));
	g_assert_true(is_complete(b, event));
	assert_ok(b->ops->sync(b->be));
	/* Alone between enter and leave, so that nothing has prepared the thread for it. */
	b->ops->leave(b->be);
	assert_ok(b->ops->enter(b->be));
	g_assert_cmpint(elapsed(b, timed, timed), ==, 0);
	assert_ok(b->ops->unmap(b->be, va, b->page, event));
	release(b, handle);
	unreserve(b, va, 1);
	memory_free(b);
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, timed);
	stream_end(b, stream);
	b->ops->leave(b->be);
	return NULL;
}

static void check_capture_beside(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);

	assert_ok(b->device->capture_begin(stream));
	work_beside(b);
	g_thread_join(g_thread_new("beside", work_beside, b));
	capture_finish(b, stream);
	stream_end(b, stream);
}

/* What is cleared or copied under capture is part of the graph, and nothing happens before that is launched. */
static void check_capture_clear(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	uint64_t va = small_alloc(b, BYTES, stream), other = small_alloc(b, BYTES, stream);

	wait_for(b, stream);
	fill(b, va, 0x5a);
	fill(b, other, 0x5a);
	assert_ok(b->device->capture_begin(stream));
	assert_ok(b->ops->clear(b->be, va, BYTES, stream));
	assert_ok(b->ops->copy(b->be, other, va, BYTES, stream));
	capture_finish(b, stream);
	wait_for(b, stream);
	assert_cleared(b, va, 0, 0);
	assert_cleared(b, other, 0, 0);
	small_free(b, va, stream);
	small_free(b, other, stream);
	stream_end(b, stream);
}

static void count_gone(void *data)
{
	atomic_fetch_add((atomic_uint *)data, 1);
}

/* Waits for what a driver tells in its own time, on a thread of its own. */
static void assert_gone(struct bench *b, const atomic_uint *gone, unsigned int count)
{
	for (int i = 0; i < 5000 && !b->device->strict && atomic_load(gone) < count; i++)
		g_usleep(1000);
	g_assert_cmpuint(atomic_load(gone), ==, count);
}

static void *capture_watched(struct bench *b, struct CUstream_st *stream, atomic_uint *gone)
{
	assert_ok(b->device->capture_begin(stream));
	assert_ok(b->ops->graph_watch(b->be, stream, count_gone, gone));
	assert_ok(b->ops->graph_watch(b->be, stream, count_gone, gone));
	return capture_end(b, stream);
}

/* It is told once to each who watches, when the graph is destroyed and its last launch is complete. */
static void check_watch(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b), *other = stream_new(b);
	atomic_uint gone = 0;
	void *graph;

	assert_refused(b->ops->graph_watch(b->be, stream, count_gone, &gone), -EBUSY);
	graph = capture_watched(b, stream, &gone);
	g_assert_cmpuint(gone, ==, 0);
	assert_ok(b->device->graph_destroy(graph));
	assert_gone(b, &gone, 2);

	graph = capture_watched(b, stream, &gone);
	assert_ok(b->device->graph_launch(graph, other));
	wait_for(b, other);
	g_assert_cmpuint(gone, ==, 2);
	assert_ok(b->device->graph_destroy(graph));
	assert_gone(b, &gone, 4);

	assert_ok(b->device->hold(other));
	graph = capture_watched(b, stream, &gone);
	assert_ok(b->device->graph_launch(graph, other));
	assert_ok(b->device->graph_destroy(graph));
	g_usleep(b->device->strict ? 0 : 5000);
	g_assert_cmpuint(gone, ==, 4);
	assert_ok(b->device->finish(other));
	wait_for(b, other);
	assert_gone(b, &gone, 6);
	stream_end(b, stream);
	stream_end(b, other);
}

/* A capture that failed, and one whose stream is destroyed, has no graph. */
static void check_watch_failed(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	atomic_uint gone = 0;
	void *graph;

	assert_ok(b->device->capture_begin(stream));
	assert_ok(b->ops->graph_watch(b->be, stream, count_gone, &gone));
	b->device->capture_spoil(stream);
	g_assert_cmpint(b->device->capture_end(stream, &graph), !=, 0);
	assert_gone(b, &gone, 1);

	assert_ok(b->device->capture_begin(stream));
	assert_ok(b->ops->graph_watch(b->be, stream, count_gone, &gone));
	assert_ok(b->device->stream_destroy(stream));
	assert_gone(b, &gone, 2);
}

/* A graph can outlive the backend. */
static void check_watch_longer(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	struct backend *second;
	atomic_uint gone = 0;
	void *graph;

	assert_ok(b->device->open(&second));
	assert_ok(b->device->capture_begin(stream));
	assert_ok(second->ops->enter(second));
	assert_ok(second->ops->graph_watch(second, stream, count_gone, &gone));
	second->ops->leave(second);
	graph = capture_end(b, stream);
	second->ops->close(second);
	g_assert_cmpuint(gone, ==, 0);
	assert_ok(b->device->graph_destroy(graph));
	assert_gone(b, &gone, 1);
	stream_end(b, stream);
}

const struct check checks_of_clearing[] = {
	{ "clear", false, check_clear },
	{ "clear-in-order", false, check_clear_in_order },
	{ "clear-bad", true, check_clear_bad },
	{ "copy", false, check_copy },
	{ "copy-in-order", false, check_copy_in_order },
	{ "copy-bad", true, check_copy_bad },
	{ .name = NULL }
};

const struct check checks_of_captures[] = {
	{ "capture-none", false, check_capture_none },
	{ "capture-ids", false, check_capture_ids },
	{ "capture-beside", false, check_capture_beside },
	{ "capture-clear", false, check_capture_clear },
	{ "graph-watch", false, check_watch },
	{ "graph-watch-failed", false, check_watch_failed },
	{ "graph-watch-longer", false, check_watch_longer },
	{ .name = NULL }
};
