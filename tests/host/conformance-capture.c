// SPDX-License-Identifier: LGPL-2.1-or-later
/* What every backend has to do with memory that is cleared or copied, and beside captures. */
#include "host/conformance-bench.h"

#define BYTES 4096

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
	} parts[] = { { 0, BYTES }, { 0, 1 }, { 7, 8 }, { 3, 1001 }, { 512, 1024 }, { BYTES - 1, BYTES } };
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
	assert_ok(b->device->capture_end(stream));
	g_assert_cmpuint(capture_id(b, stream), ==, 0);
	g_assert_cmpuint(stream_id(b, stream), ==, own);

	assert_ok(b->device->capture_begin(stream));
	second = capture_id(b, stream);
	g_assert_cmpuint(second, !=, 0);
	g_assert_cmpuint(second, !=, first);
	assert_ok(b->device->capture_end(stream));
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
	assert_ok(b->device->capture_end(stream));
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
	assert_ok(b->device->capture_end(stream));
	wait_for(b, stream);
	assert_cleared(b, va, 0, 0);
	assert_cleared(b, other, 0, 0);
	small_free(b, va, stream);
	small_free(b, other, stream);
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
	{ .name = NULL }
};
