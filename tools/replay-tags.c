// SPDX-License-Identifier: LGPL-2.1-or-later
/* The tags of a trace, which only a pool has: blocks under them, and that they are paused and resumed. */
#include <glib.h>

#include "replay-run.h"
#include "vpmm.h"

void run_open_tags(struct run *run)
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

void run_close_tags(struct run *run, const struct trace_op *op)
{
	for (uint32_t i = 0; i < run->setup->trace->n_tags; i++) {
		if (run->asleep[i])
			resume(run, op, i);
	}
	g_free(run->asleep);
	g_free(run->tags);
}

vpmm_tag run_enter_tag(const struct run *run, const struct trace_op *op)
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

bool run_is_asleep(const struct run *run, const struct slot *slot)
{
	return slot->tag && run->asleep[slot->tag - 1] && !(slot->flags & TRACE_STAY);
}
