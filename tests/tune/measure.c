// SPDX-License-Identifier: LGPL-2.1-or-later
/* Replays a program on the host backend and prices the driver calls. */
#include "measure.h"

#include <glib.h>
#include <stdio.h>

#include "vpmm-host.h"
#include "vpmm.h"

/*
 * Milliseconds of the driver, measured on an H200: an extent created, mapped and made accessible, one that is mapped
 * once more, a mapping that is removed, and an extent that is given back. tests/gpu/RESULTS, "Single calls".
 */
#define CREATED_MS 0.040
#define MOVED_MS 0.025
#define UNMAPPED_MS 0.013
#define RELEASED_MS 0.0075

struct run {
	const struct trace *trace;
	struct vpmm_pool *pool;
	struct CUstream_st **streams;
	void **blocks;
	size_t *sizes;
	uint32_t *homes;
	uint64_t live;
	struct measured *result;
};

static void fail(struct run *run, const char *what)
{
	if (!run->result->failed)
		fprintf(stderr, "%s: %s: %s\n", run->trace->name, what, vpmm_last_error());
	run->result->failed = true;
}

static void run_free(struct run *run, uint32_t slot, uint32_t stream)
{
	if (vpmm_free(run->pool, run->blocks[slot], run->streams[stream]))
		fail(run, "free");
	run->blocks[slot] = NULL;
	run->live -= run->sizes[slot];
}

/* The slot may have what the pass before has left in it. */
static void run_malloc(struct run *run, const struct trace_op *op)
{
	void *block = NULL;

	if (run->blocks[op->slot] && measure_keep == MEASURE_KEEP_BEFORE)
		run_free(run, op->slot, run->homes[op->slot]);
	run->live += op->bytes;
	run->result->live = MAX(run->result->live, run->live);
	if (vpmm_malloc(run->pool, &block, op->bytes, run->streams[op->stream]))
		fail(run, "allocation");
	if (run->blocks[op->slot])
		run_free(run, op->slot, run->homes[op->slot]);
	run->blocks[op->slot] = block;
	run->sizes[op->slot] = op->bytes;
	run->homes[op->slot] = op->stream;
}

double measure_price = 1;
enum measure_keep measure_keep;

double measure_calls(const struct vpmm_stats *before, const struct vpmm_stats *after)
{
	uint64_t created = after->creates - before->creates, mapped = after->maps - before->maps;

	return measure_price * ((double)created * CREATED_MS + (double)(mapped - created) * MOVED_MS +
				(double)(after->unmaps - before->unmaps) * UNMAPPED_MS +
				(double)(after->releases - before->releases) * RELEASED_MS);
}

static void free_left(struct run *run)
{
	for (uint32_t i = 0; i < run->trace->slots; i++) {
		if (run->blocks[i])
			run_free(run, i, run->homes[i]);
	}
}

static void run_operations(struct run *run)
{
	for (size_t i = 0; i < run->trace->n_ops; i++) {
		const struct trace_op *op = &run->trace->ops[i];

		if (op->kind == TRACE_ALLOC)
			run_malloc(run, op);
		else
			run_free(run, op->slot, op->stream);
	}
	if (measure_keep == MEASURE_KEEP_NOT)
		free_left(run);
}

/* A pass after the first, apart for tests/tune/instructions.py, which counts in here. */
static __attribute__((noinline)) void run_settled(struct run *run)
{
	run_operations(run);
	/* Not the last statement of the function, which would become a jump that no tool sees return. */
	__asm__ volatile("");
}

static void run_pass(struct run *run, unsigned int pass)
{
	struct vpmm_stats before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
	struct measured *result = run->result;

	if (vpmm_pool_stats(run->pool, &before))
		fail(run, "statistics");
	if (pass)
		run_settled(run);
	else
		run_operations(run);
	if (vpmm_pool_stats(run->pool, &after))
		fail(run, "statistics");
	if (vpmm_pool_check(run->pool))
		fail(run, "check");
	result->last = measure_calls(&before, &after);
	if (!pass)
		result->first = result->last;
	else if (pass == 1)
		result->second = result->last;
	result->taken = after.peak_taken;
}

static int open_streams(struct run *run)
{
	for (uint32_t i = 1; i < run->trace->streams; i++) {
		int err = vpmm_host_stream_create(&run->streams[i]);

		if (err)
			return err;
	}
	return 0;
}

void measure(const struct trace *trace, int overhead, struct measured *result)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .overhead = overhead };
	struct run run = { .trace = trace, .result = result };
	unsigned int passes = measure_keep ? MEASURE_PASSES_KEPT : MEASURE_PASSES;

	*result = (struct measured){ 0 };
	run.streams = g_new0(struct CUstream_st *, trace->streams);
	run.blocks = g_new0(void *, trace->slots);
	run.sizes = g_new0(size_t, trace->slots);
	run.homes = g_new0(uint32_t, trace->slots);
	if (vpmm_pool_create(&run.pool, &opts)) {
		fail(&run, "creating the pool");
		goto out;
	}
	if (open_streams(&run))
		fail(&run, "creating streams");
	for (unsigned int pass = 0; pass < passes && !result->failed; pass++)
		run_pass(&run, pass);
	vpmm_pool_destroy(run.pool);
	for (uint32_t i = 1; i < trace->streams; i++) {
		if (run.streams[i])
			vpmm_host_stream_destroy(run.streams[i]);
	}
out:
	g_free(run.homes);
	g_free(run.sizes);
	g_free(run.blocks);
	g_free(run.streams);
}
