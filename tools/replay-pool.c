// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a trace of the second version has besides allocations and frees. Another allocator than a pool knows nothing of
 * it: there a change of size is an allocation and a free, and nothing is captured.
 */
#include <glib.h>

#include "fail.h"
#include "replay-run.h"
#include "util/clock.h"
#include "vpmm.h"

static struct vpmm_pool *pool_of(const struct run *run)
{
	return run->setup->allocator->pool;
}

static struct CUstream_st *stream_of(const struct run *run, uint32_t stream)
{
	return run->setup->dev->streams[stream];
}

int run_pool_malloc(struct run *run, const struct trace_op *op, void **ptr)
{
	struct CUstream_st *stream = stream_of(run, op->stream);
	unsigned int flags = (op->flags & TRACE_ZERO ? VPMM_ZERO : 0) | (op->flags & TRACE_IDLE ? VPMM_IDLE : 0);

	if (op->max)
		return vpmm_malloc_growable(pool_of(run), ptr, op->bytes, op->max, stream);
	return vpmm_malloc_flags(pool_of(run), ptr, op->bytes, stream, flags);
}

/* Elsewhere than on a pool the contents are not kept: there is a new pattern anyway. */
static int resize(struct run *run, const struct trace_op *op, const struct slot *slot, void **ptr)
{
	struct allocator *a = run->setup->allocator;
	struct CUstream_st *stream = stream_of(run, op->stream);
	int err;

	if (a->pool)
		return vpmm_realloc(a->pool, ptr, op->bytes, stream);
	err = a->ops->alloc(a, ptr, op->bytes, stream);
	return err ? err : a->ops->free(a, slot->ptr, stream);
}

/* By what the recorded pool did: a copy has both blocks for a moment. */
static void count_resize(struct run *run, const struct trace_op *op, size_t before)
{
	if (op->flags & TRACE_COPIED) {
		run_count(run, op->bytes, true);
		run_count(run, before, false);
	} else {
		run_count(run, before, false);
		run_count(run, op->bytes, true);
	}
}

void run_resize(struct run *run, const struct trace_op *op)
{
	struct slot *slot = run_find_live(run, op);
	uint64_t start;
	size_t before;
	void *ptr;
	int err;

	if (!slot)
		return;
	before = slot->bytes;
	ptr = slot->ptr;
	start = clock_ns();
	err = resize(run, op, slot, &ptr);
	run_time(run, start);
	if (err) {
		run_tell(run, op, "change of size", run->setup->allocator->ops->error());
		return;
	}
	slot->ptr = ptr;
	slot->stream = op->stream;
	slot->op = (uint32_t)(op - run->setup->trace->ops);
	/* The contents have come along. Of a block that was cut off the end of the pattern is missing. */
	if (pool_of(run) && op->bytes >= before)
		run_look(run, op, slot, before, op->stream);
	slot->bytes = op->bytes;
	run_fill(run, op, slot);
	count_resize(run, op, before);
}

static void use(struct run *run, const struct trace_op *op)
{
	const struct slot *slot = run_find_live(run, op);
	uint64_t start;
	int err;

	if (!slot)
		return;
	start = clock_ns();
	err = vpmm_use(pool_of(run), slot->ptr, stream_of(run, op->stream));
	run_time(run, start);
	if (err)
		run_tell(run, op, "use", vpmm_last_error());
}

/* The stream goes on, and is known anew once it is used again. */
static void retire_stream(struct run *run, const struct trace_op *op)
{
	if (vpmm_stream_retire(pool_of(run), stream_of(run, op->stream)))
		run_tell(run, op, "retiring the stream", vpmm_last_error());
}

static void retire_graph(struct run *run, const struct trace_op *op, struct capture *capture, uint32_t stream)
{
	struct device *dev = run->setup->dev;

	if (capture->graph && dev->ops->graph_destroy(dev, capture->graph))
		run_tell(run, op, "destroying the graph", fail_text());
	capture->graph = NULL;
	if (capture->id && vpmm_graph_retire(pool_of(run), capture->id, stream_of(run, stream)))
		run_tell(run, op, "retiring the graph", vpmm_last_error());
	capture->id = 0;
}

static void join_group(struct run *run, const struct trace_op *op, struct capture *capture)
{
	if (!capture->begun)
		capture->group = op->max;
	else if (capture->id && vpmm_capture_group(pool_of(run), capture->id, op->max))
		run_tell(run, op, "joining the group", vpmm_last_error());
}

void run_other(struct run *run, const struct trace_op *op)
{
	if (!pool_of(run))
		return;
	if (op->kind == TRACE_USE)
		use(run, op);
	else if (op->kind == TRACE_PAUSE || op->kind == TRACE_RESUME)
		run_pause(run, op);
	else if (op->kind == TRACE_RETIRE_STREAM)
		retire_stream(run, op);
	else if (op->kind == TRACE_GROUP)
		join_group(run, op, &run->captures[op->capture - 1]);
	else if (op->kind == TRACE_RETIRE_GRAPH)
		retire_graph(run, op, &run->captures[op->capture - 1], op->stream);
	else if (vpmm_pool_trim(pool_of(run), op->bytes, NULL))
		run_tell(run, op, "giving memory back", vpmm_last_error());
}

static void begin(struct run *run, const struct trace_op *op, struct capture *capture)
{
	struct device *dev = run->setup->dev;

	capture->begun = true;
	capture->stream = op->stream;
	if (run->captured[op->stream] || dev->ops->capture_begin(dev, op->stream)) {
		run_tell(run, op, "begin of the capture", run->captured[op->stream] ?
			 "the stream is under another one" : fail_text());
		return;
	}
	capture->open = true;
	capture->joined = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	run->captured[op->stream] = op->capture;
	if (vpmm_capture_id(pool_of(run), stream_of(run, op->stream), &capture->id))
		run_tell(run, op, "id of the capture", vpmm_last_error());
	else if (capture->group && vpmm_capture_group(pool_of(run), capture->id, capture->group))
		run_tell(run, op, "joining the group", vpmm_last_error());
}

/* A stream that waits for one under capture comes under it, too. */
static void join(struct run *run, const struct trace_op *op, struct capture *capture)
{
	struct device *dev = run->setup->dev;

	if (run->captured[op->stream]) {
		run_tell(run, op, "joining the capture", "the stream is under another one");
		return;
	}
	if (dev->ops->wait(dev, op->stream, capture->stream)) {
		run_tell(run, op, "joining the capture", fail_text());
		return;
	}
	g_array_append_val(capture->joined, op->stream);
	run->captured[op->stream] = op->capture;
}

void run_capture(struct run *run, const struct trace_op *op)
{
	struct capture *capture;

	if (!pool_of(run) || !op->capture || op->kind >= TRACE_TRIM)
		return;
	capture = &run->captures[op->capture - 1];
	if (!capture->begun)
		begin(run, op, capture);
	else if (capture->open && run->captured[op->stream] != op->capture)
		join(run, op, capture);
}

static void end(struct run *run, const struct trace_op *op, struct capture *capture)
{
	struct device *dev = run->setup->dev;

	for (guint i = 0; i < capture->joined->len; i++) {
		uint32_t stream = g_array_index(capture->joined, uint32_t, i);

		if (dev->ops->wait(dev, capture->stream, stream))
			run_tell(run, op, "joining the streams of the capture", fail_text());
		run->captured[stream] = 0;
	}
	if (dev->ops->capture_end(dev, capture->stream, &capture->graph))
		run_tell(run, op, "end of the capture", fail_text());
	run->captured[capture->stream] = 0;
	g_array_free(capture->joined, TRUE);
	capture->open = false;
}

void run_captured(struct run *run, const struct trace_op *op)
{
	if (op->capture && op->flags & TRACE_LAST && run->captures[op->capture - 1].open)
		end(run, op, &run->captures[op->capture - 1]);
}

void run_end_captures(struct run *run, const struct trace_op *op)
{
	for (uint32_t i = 0; i < run->setup->trace->captures; i++) {
		if (run->captures[i].open)
			end(run, op, &run->captures[i]);
	}
}

void run_retire_graphs(struct run *run, const struct trace_op *op)
{
	for (uint32_t i = 0; i < run->setup->trace->captures; i++) {
		if (run->captures[i].begun && pool_of(run))
			retire_graph(run, op, &run->captures[i], run->captures[i].stream);
	}
}
