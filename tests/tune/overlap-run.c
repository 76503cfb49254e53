// SPDX-License-Identifier: LGPL-2.1-or-later
/* Runs programs on the virtual clock, and tells what one takes if nothing waits for memory. */
#include <glib.h>

#include "host/streams.h"
#include "overlap.h"

/* Nothing of this can fail but by a mistake of the program's author. */
static void must(int err)
{
	g_assert_cmpint(err, ==, 0);
}

static const struct overlap_op *op_at(const struct overlap *p, uint32_t i)
{
	return &g_array_index(p->ops, struct overlap_op, i);
}

/* What a piece of work takes, by an integer hash. */
static uint64_t work_ns(uint32_t pass, uint32_t i, uint64_t ns)
{
	uint64_t hash = ((uint64_t)pass << 32 | i) * UINT64_C(0x9e3779b97f4a7c15);
	double part;

	hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	part = (double)(hash >> 32) / (double)UINT32_MAX * 2 - 1;
	return ns + (uint64_t)(int64_t)((double)ns * part * OVERLAP_JITTER / 100);
}

static void submit(const struct overlap_run *run, uint32_t i, const struct overlap_op *op)
{
	struct CUstream_st *stream = run->streams[op->stream];
	unsigned int pending = 0;

	must(vpmm_host_time_pass(run->program->host_ns));
	must(vpmm_host_stream_pending(stream, &pending));
	if (pending >= run->program->ahead)
		must(vpmm_host_stream_complete(stream, pending - run->program->ahead + 1));
	must(vpmm_host_stream_submit_for(stream, op->engine, work_ns(run->pass, i, op->ns)));
}

static void carry_out(const struct overlap_run *run, uint32_t i, struct backend_event **marks,
		      const struct overlap_memory *memory, void *data)
{
	const struct overlap_op *op = op_at(run->program, i);
	struct CUstream_st *stream = run->streams[op->stream];

	switch (op->kind) {
	case OVERLAP_MALLOC:
		memory->malloc(data, run, op->number);
		break;
	case OVERLAP_USE:
		if (memory->use)
			memory->use(data, run, op->number, op->stream);
		break;
	case OVERLAP_FREE:
		memory->free(data, run, op->number);
		break;
	case OVERLAP_WORK:
		submit(run, i, op);
		if (memory->work)
			memory->work(data, run, i);
		break;
	case OVERLAP_MARK:
		marks[op->number] = host_event_create();
		must(host_event_record(0, marks[op->number], stream));
		break;
	case OVERLAP_WAIT:
		must(host_stream_wait(0, stream, marks[op->number]));
		break;
	}
}

static void begin_streams(const struct overlap *p)
{
	for (uint32_t i = 0; i < p->streams; i++) {
		if (!p->handles[i])
			must(vpmm_host_stream_create(&p->handles[i]));
	}
}

void overlap_end_streams(const struct overlap *p)
{
	for (uint32_t i = 0; i < p->streams; i++) {
		if (p->handles[i])
			must(vpmm_host_stream_destroy(p->handles[i]));
		p->handles[i] = NULL;
	}
}

uint64_t overlap_run(const struct overlap *p, uint32_t pass, const struct overlap_memory *memory, void *data)
{
	struct backend_event **marks = g_new0(struct backend_event *, p->marks);
	struct overlap_run run = { .program = p, .pass = pass, .streams = p->handles };
	uint64_t start = vpmm_host_time();

	begin_streams(p);
	for (uint32_t i = 0; i < p->ops->len; i++)
		carry_out(&run, i, marks, memory, data);
	for (uint32_t i = 0; i < p->blocks->len; i++) {
		if (!g_array_index(p->blocks, struct overlap_block, i).freed)
			memory->free(data, &run, i);
	}
	must(vpmm_host_time_finish());
	if (p->renews)
		overlap_end_streams(p);
	for (uint32_t i = 0; i < p->marks; i++)
		host_event_unref(marks[i]);
	g_free(marks);
	return vpmm_host_time() - start;
}

/* What a run with memory without a bound leaves to be read when it is over. */
struct watch {
	struct backend_event **works;	/* for each operation that is work: behind it */
	struct backend_event **frees;	/* for each block and stream that uses it: at its free */
};

static struct backend_event *record(const struct overlap_run *run, uint32_t stream)
{
	struct backend_event *event = host_event_create();

	must(host_event_record(0, event, run->streams[stream]));
	return event;
}

static void watch_malloc(void *data, const struct overlap_run *run, uint32_t block)
{
	(void)data;
	(void)run;
	(void)block;
}

static void watch_free(void *data, const struct overlap_run *run, uint32_t block)
{
	const struct overlap_block *b = &g_array_index(run->program->blocks, struct overlap_block, block);
	struct watch *watch = data;

	for (uint32_t i = 0; i < run->program->streams; i++) {
		if (b->users & 1u << i)
			watch->frees[block * run->program->streams + i] = record(run, i);
	}
}

static void watch_work(void *data, const struct overlap_run *run, uint32_t op)
{
	struct watch *watch = data;

	watch->works[op] = record(run, op_at(run->program, op)->stream);
}

/* When an event was passed; destroys it. */
static uint64_t time_of(struct backend_event *event, uint64_t start)
{
	uint64_t ns = start;

	if (event)
		must(host_event_time(event, &ns));
	host_event_unref(event);
	return ns - start;
}

/* Backwards, so that for each stream the next work is known. */
static void note_begins(const struct overlap *p, uint32_t pass, const struct watch *watch, uint64_t start,
			uint64_t *begins)
{
	uint64_t next[OVERLAP_STREAMS_MAX];

	for (uint32_t i = 0; i < p->streams; i++)
		next[i] = UINT64_MAX;
	for (uint32_t i = p->ops->len; i-- > 0;) {
		const struct overlap_op *op = op_at(p, i);

		if (op->kind == OVERLAP_WORK)
			next[op->stream] = time_of(watch->works[i], start) - work_ns(pass, i, op->ns);
		else if (op->kind == OVERLAP_MALLOC)
			begins[op->number] = next[op->stream];
	}
}

void overlap_ideal_run(const struct overlap *p, uint32_t pass, struct overlap_ideal *ideal)
{
	static const struct overlap_memory watching = { .malloc = watch_malloc, .free = watch_free, .work = watch_work };
	struct watch watch = {
		.works = g_new0(struct backend_event *, p->ops->len),
		.frees = g_new0(struct backend_event *, (gsize)p->blocks->len * p->streams),
	};
	uint64_t start = vpmm_host_time();

	ideal->ns = overlap_run(p, pass, &watching, &watch);
	ideal->begins = g_new0(uint64_t, p->blocks->len);
	ideal->ends = g_new0(uint64_t, p->blocks->len);
	note_begins(p, pass, &watch, start, ideal->begins);
	for (uint32_t i = 0; i < p->blocks->len * p->streams; i++) {
		uint64_t end = time_of(watch.frees[i], start);

		ideal->ends[i / p->streams] = MAX(ideal->ends[i / p->streams], end);
	}
	g_free(watch.works);
	g_free(watch.frees);
}

void overlap_ideal_clear(struct overlap_ideal *ideal)
{
	g_free(ideal->begins);
	g_free(ideal->ends);
}
