// SPDX-License-Identifier: LGPL-2.1-or-later
#include "replay.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "pattern.h"
#include "progress.h"
#include "replay-run.h"
#include "util/clock.h"
#include "vpmm.h"

static void run_open_tags(struct run *run)
{
	const struct trace *trace = run->setup->trace;

	run->tags = g_new0(vpmm_tag, trace->n_tags);
	run->asleep = g_new0(bool, trace->n_tags);
	for (uint32_t i = 0; i < trace->n_tags && run->setup->allocator->pool; i++) {
		unsigned int flags = trace->tags[i].pausable ? VPMM_TAG_PAUSABLE : 0;

		if (vpmm_tag_open(trace->tags[i].name, flags, &run->tags[i]))
			run_tell(run, &trace->ops[0], "opening a tag", vpmm_last_error());
	}
}

static void resume(struct run *run, const struct trace_op *op, uint32_t tag)
{
	if (vpmm_resume(run->setup->allocator->pool, run->tags[tag], VPMM_STREAM_ANY))
		run_tell(run, op, "resuming the tag", vpmm_last_error());
	else
		run->asleep[tag] = false;
}

static void run_close_tags(struct run *run, const struct trace_op *op)
{
	for (uint32_t i = 0; i < run->setup->trace->n_tags; i++) {
		if (run->asleep[i])
			resume(run, op, i);
	}
	g_free(run->asleep);
	g_free(run->tags);
}

static vpmm_tag run_enter_tag(const struct run *run, const struct trace_op *op)
{
	vpmm_tag tag = run->tags[op->tag - 1];

	return vpmm_tag_set(!tag ? 0 : tag | (op->flags & TRACE_DROP ? VPMM_TAG_DROP : 0) |
			    (op->flags & TRACE_STAY ? VPMM_TAG_STAY : 0));
}

/* What has lost its contents has no pattern any more. */
static void drop(struct run *run, const struct trace_op *op)
{
	for (uint32_t i = 0; i < run->setup->trace->slots; i++) {
		struct slot *slot = &run->slots[i];

		if (slot->live && slot->tag == op->tag && (op->flags | slot->flags) & TRACE_DROP &&
		    !(slot->flags & TRACE_STAY))
			slot->bare = true;
	}
}

void run_pause(struct run *run, const struct trace_op *op)
{
	unsigned int flags = op->flags & TRACE_DROP ? VPMM_PAUSE_DROP : 0;
	uint32_t tag = op->tag - 1u;

	if (op->kind == TRACE_RESUME) {
		resume(run, op, tag);
		return;
	}
	if (vpmm_pause(run->setup->allocator->pool, run->tags[tag], flags)) {
		run_tell(run, op, "pausing the tag", vpmm_last_error());
		return;
	}
	run->asleep[tag] = true;
	drop(run, op);
}

static bool run_is_asleep(const struct run *run, const struct slot *slot)
{
	return slot->tag && run->asleep[slot->tag - 1] && !(slot->flags & TRACE_STAY);
}

/* How many errors of a pass are told one by one. */
#define ERRORS_TOLD 10

void run_tell(struct run *run, const struct trace_op *op, const char *what, const char *why)
{
	run->result->errors++;
	if (run->setup->quiet)
		return;
	if (run->setup->progress)
		progress_end(run->setup->progress);
	if (run->result->errors <= ERRORS_TOLD)
		/* What to do about it, on a second line, is not for each of them. */
		fprintf(stderr, "%s: %s:%" G_GUINT32_FORMAT ": %s: %.*s\n", g_get_prgname(), run->setup->trace->name,
			op->line, what, (int)strcspn(why, "\n"), why);
	else if (run->result->errors == ERRORS_TOLD + 1)
		fprintf(stderr, "%s: %s: more errors are counted, not printed\n", g_get_prgname(),
			run->setup->trace->name);
}

void run_count(struct run *run, size_t bytes, bool more)
{
	uint64_t page = run->setup->page_size;
	uint64_t rounded = bytes < page ? 0 : (bytes - 1) / page * page + page;

	if (!more) {
		run->live -= bytes;
		run->rounded -= rounded;
		return;
	}
	run->result->small += bytes < page;
	run->live += bytes;
	run->rounded += rounded;
	run->result->peak_live = MAX(run->result->peak_live, run->live);
	run->result->peak_rounded = MAX(run->result->peak_rounded, run->rounded);
}

uint64_t run_time(struct run *run, uint64_t start)
{
	uint64_t took = clock_ns() - start;

	run->took_ns[run->timed++] = took;
	return took;
}

static struct device_work work_of(const struct run *run, const struct slot *slot, size_t bytes)
{
	uint32_t serial = slot->mark + (uint32_t)run->setup->trace->allocs * (run->result->pass - 1);

	return (struct device_work){
		.ptr = slot->ptr,
		.size = bytes,
		.key = pattern_key(serial),
		.mark = slot->mark,
	};
}

void run_fill(struct run *run, const struct trace_op *op, struct slot *slot)
{
	struct device *dev = run->setup->dev;
	struct device_work work = work_of(run, slot, slot->bytes);

	/* What a capture gets has contents only where its graph runs. */
	slot->bare = !run->works || run->captured[slot->stream];
	if (slot->bare)
		return;
	run->mark_ops[slot->mark] = slot->op;
	if (dev->ops->born(dev, slot->stream, &work))
		run_tell(run, op, "work after allocation", fail_text());
}

/*
 * The program of the trace saw to it, in ways that a trace does not show, that the stream which frees is past the use
 * on the stream which allocated; so the one is made to wait for the other.
 */
void run_look(struct run *run, const struct trace_op *op, const struct slot *slot, size_t bytes, uint32_t stream)
{
	struct device *dev = run->setup->dev;
	struct device_work work = work_of(run, slot, bytes);

	if (slot->bare || run->captured[stream] || run->captured[slot->stream] || run_is_asleep(run, slot))
		return;
	if (stream != slot->stream && dev->ops->wait(dev, stream, slot->stream))
		run_tell(run, op, "wait before the work", fail_text());
	if (dev->ops->dying(dev, stream, &work))
		run_tell(run, op, "work on the allocation", fail_text());
}

struct slot *run_find_live(struct run *run, const struct trace_op *op)
{
	struct slot *slot = &run->slots[op->slot];

	if (!slot->live)
		return NULL;
	run_look(run, op, slot, slot->bytes, op->stream);
	return slot;
}

static int allocate_plain(struct run *run, const struct trace_op *op, void **ptr)
{
	struct allocator *a = run->setup->allocator;

	if (a->pool && (op->max || op->flags & (TRACE_ZERO | TRACE_IDLE)))
		return run_pool_malloc(run, op, ptr);
	return a->ops->alloc(a, ptr, op->bytes, run->setup->dev->streams[op->stream]);
}

static int try_allocate(struct run *run, const struct trace_op *op, void **ptr)
{
	vpmm_tag before;
	int err;

	if (!op->tag || !run->setup->allocator->pool)
		return allocate_plain(run, op, ptr);
	before = run_enter_tag(run, op);
	err = allocate_plain(run, op, ptr);
	vpmm_tag_set(before);
	return err;
}

static void allocate(struct run *run, const struct trace_op *op)
{
	struct slot *slot = &run->slots[op->slot];
	uint32_t mark = run->mark++;
	uint64_t start, took;
	void *ptr;
	int err;

	start = clock_ns();
	err = try_allocate(run, op, &ptr);
	took = run_time(run, start);
	run->result->malloc_ns_max = MAX(run->result->malloc_ns_max, took);
	slot->live = !err;
	if (err) {
		run_tell(run, op, "allocation", run->setup->allocator->ops->error());
		return;
	}
	slot->ptr = ptr;
	slot->bytes = op->bytes;
	slot->stream = op->stream;
	slot->mark = mark;
	slot->op = (uint32_t)(op - run->setup->trace->ops);
	slot->tag = op->tag;
	slot->flags = op->flags & (TRACE_DROP | TRACE_STAY);
	run_count(run, op->bytes, true);
	run_fill(run, op, slot);
}

static int try_release(struct run *run, const struct trace_op *op, void *ptr)
{
	struct allocator *a = run->setup->allocator;

	if (a->pool && op->flags & TRACE_ON_ANY)
		return vpmm_free(a->pool, ptr, VPMM_STREAM_ANY);
	return a->ops->free(a, ptr, run->setup->dev->streams[op->stream]);
}

static void release(struct run *run, const struct trace_op *op)
{
	struct slot *slot = run_find_live(run, op);
	uint64_t start;
	int err;

	if (!slot)
		return;
	start = clock_ns();
	err = try_release(run, op, slot->ptr);
	run_time(run, start);
	if (err)
		run_tell(run, op, "free", run->setup->allocator->ops->error());
	slot->live = false;
	run_count(run, slot->bytes, false);
}

/* Where the allocation of an operation is; NULL: it does not live. */
static const void *place_of(const struct run *run, const struct trace_op *op)
{
	const struct slot *slot = op->kind <= TRACE_RESIZE ? &run->slots[op->slot] : NULL;

	return slot && slot->live ? slot->ptr : NULL;
}

static void show_moved(struct run *run, const struct trace_op *op, const void *before)
{
	const struct replay_watch *watch = &run->setup->watch;
	uint64_t start;

	if (!watch->moved || op->kind > TRACE_RESIZE)
		return;
	start = clock_ns();
	watch->moved(watch->data, op, before, place_of(run, op));
	run->watched_ns += clock_ns() - start;
}

static void run_operation(struct run *run, const struct trace_op *op)
{
	const void *before = place_of(run, op);

	run_capture(run, op);
	if (op->kind == TRACE_ALLOC)
		allocate(run, op);
	else if (op->kind == TRACE_FREE)
		release(run, op);
	else if (op->kind == TRACE_RESIZE)
		run_resize(run, op);
	else
		run_other(run, op);
	run_captured(run, op);
	show_moved(run, op, before);
}

static void show_progress(const struct run *run, size_t done)
{
	const struct replay_setup *setup = run->setup;
	uint64_t n = setup->trace->n_ops;

	if (setup->progress)
		progress_show(setup->progress, n * (run->result->pass - 1) + done, n * setup->passes);
}

static void show_watch(struct run *run, size_t done)
{
	const struct replay_watch *watch = &run->setup->watch;
	uint64_t start;

	if (!watch->see)
		return;
	start = clock_ns();
	watch->see(watch->data, (uint64_t)run->setup->trace->n_ops * (run->result->pass - 1) + done, run->live);
	run->watched_ns += clock_ns() - start;
}

static bool is_stopped(const struct run *run)
{
	return run->setup->stop && *run->setup->stop;
}

static void run_operations(struct run *run)
{
	const struct trace *trace = run->setup->trace;
	struct device *dev = run->setup->dev;
	uint64_t start;
	size_t i;

	start = clock_ns();
	for (i = 0; i < trace->n_ops && !is_stopped(run); i++) {
		const struct trace_op *op = &trace->ops[i];

		if (run->works && dev->ops->advance(dev, op->us))
			run_tell(run, op, "work that was due before the operation", fail_text());
		run_operation(run, op);
		show_watch(run, i);
		if (i % PROGRESS_STRIDE == 0)
			show_progress(run, i);
	}
	run->result->wall_s = (double)(clock_ns() - start - run->watched_ns) / 1e9;
	run->result->operations = i;
}

static void free_leftovers(struct run *run)
{
	const struct trace *trace = run->setup->trace;
	const struct trace_op *last = &trace->ops[trace->n_ops - 1];
	struct allocator *a = run->setup->allocator;

	run_end_captures(run, last);
	for (uint32_t i = 0; i < trace->slots; i++) {
		struct slot *slot = &run->slots[i];
		const struct trace_op *op = &trace->ops[slot->op];

		if (!slot->live)
			continue;
		run_look(run, op, slot, slot->bytes, slot->stream);
		if (a->ops->free(a, slot->ptr, run->setup->dev->streams[slot->stream]))
			run_tell(run, op, "free", a->ops->error());
	}
	run_retire_graphs(run, last);
}

static void find_damage(struct run *run)
{
	const struct trace *trace = run->setup->trace;
	struct device *dev = run->setup->dev;
	const struct trace_op *last = &trace->ops[trace->n_ops - 1];
	uint32_t *marks;

	if (dev->ops->synchronize(dev))
		run_tell(run, last, "work after the last operation", fail_text());
	if (!dev->opts.verify)
		return;
	marks = g_new(uint32_t, trace->allocs);
	if (dev->ops->damaged(dev, marks)) {
		run_tell(run, last, "verification after the last operation", fail_text());
		goto out;
	}
	for (size_t i = 0; i < trace->allocs; i++) {
		if (marks[i])
			run_tell(run, &trace->ops[run->mark_ops[i]], "allocation",
				 "its pattern was overwritten while it lived");
	}
out:
	g_free(marks);
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* The least time that at least this part of the calls stayed within. */
static double percentile_us(const uint64_t *sorted, size_t n, unsigned int percent)
{
	return n ? (double)sorted[(n * percent + 99) / 100 - 1] / 1e3 : 0;
}

static void read_stats(struct run *run, struct vpmm_stats *stats)
{
	const struct trace *trace = run->setup->trace;
	struct allocator *a = run->setup->allocator;

	if (a->ops->stats(a, stats))
		run_tell(run, &trace->ops[trace->n_ops - 1], "statistics", a->ops->error());
}

static void sum_up(struct run *run, const struct vpmm_stats *before)
{
	const struct trace *trace = run->setup->trace;
	struct replay_result *result = run->result;

	qsort(run->took_ns, run->timed, sizeof(*run->took_ns), compare_ns);
	result->op_us_p50 = percentile_us(run->took_ns, run->timed, 50);
	result->op_us_p99 = percentile_us(run->took_ns, run->timed, 99);
	result->op_us_max = percentile_us(run->took_ns, run->timed, 100);
	result->streams = trace->streams;
	result->trace_s = (double)(trace->ops[trace->n_ops - 1].us - trace->ops[0].us) / 1e6;
#define X(name) result->stats.name -= before->name;
	REPLAY_COUNTS(X)
#undef X
}

bool replay_pass(const struct replay_setup *setup, unsigned int pass, struct replay_result *result)
{
	const struct trace *trace = setup->trace;
	struct vpmm_stats before = { 0 };
	struct run run = {
		.setup = setup,
		.result = result,
		.works = setup->dev->opts.verify || setup->dev->opts.lag || setup->dev->opts.ns_per_byte > 0,
	};

	*result = (struct replay_result){ .pass = pass };
	read_stats(&run, &before);
	run.slots = g_new0(struct slot, trace->slots);
	run.captures = g_new0(struct capture, trace->captures);
	run.captured = g_new0(uint32_t, trace->streams);
	run.mark_ops = g_new0(uint32_t, trace->allocs);
	run.took_ns = g_new(uint64_t, trace->n_ops);
	run_open_tags(&run);
	run_operations(&run);
	read_stats(&run, &result->stats);
	free_leftovers(&run);
	run_close_tags(&run, &trace->ops[trace->n_ops - 1]);
	find_damage(&run);
	sum_up(&run, &before);
	g_free(run.took_ns);
	g_free(run.mark_ops);
	g_free(run.captured);
	g_free(run.captures);
	g_free(run.slots);
	return result->operations == trace->n_ops;
}

static int create_allocator(struct device *dev, const char *name, const struct vpmm_opts *opts,
			    struct allocator **allocator)
{
	if (strcmp(name, "async") == 0)
		return dev->ops->async(dev, allocator);
	if (strcmp(name, "malloc") == 0)
		return dev->ops->malloc(dev, allocator);
	return allocator_vpmm_create(opts, allocator);
}

int replay_open(struct replay_setup *setup, struct device_opts dev_opts, const char *name, const struct vpmm_opts *opts)
{
	const struct device_ops *ops = strcmp(opts->backend, "cuda") ? &device_host : &device_cuda;
	int err;

	dev_opts.streams = setup->trace->streams;
	dev_opts.marks = setup->trace->allocs;
	err = ops->open(&dev_opts, &setup->dev);
	if (err)
		return err;
	err = create_allocator(setup->dev, name, opts, &setup->allocator);
	if (err)
		ops->close(setup->dev);
	return err;
}

void replay_close(struct replay_setup *setup)
{
	setup->allocator->ops->destroy(setup->allocator);
	setup->dev->ops->close(setup->dev);
}
