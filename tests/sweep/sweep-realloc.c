// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that change their size. */
#include "sweep/sweep-scenes.h"

static int act_realloc(struct sweep *s)
{
	return sweep_realloc(s, &s->ptr, s->number, 0);
}

static void stage_shrink(struct sweep *s)
{
	s->ptr = sweep_have(s, 4 * PAGE, 0);
	sweep_busy(s, 0);
	s->number = 2 * PAGE;
}

static void stage_grow(struct sweep *s, int stream)
{
	char *ptr = sweep_have(s, 5 * PAGE, 0), *next;

	s->ptr = ptr;
	s->number = 2 * PAGE;
	assert_ok(act_realloc(s));
	g_assert_true(s->ptr == ptr);
	next = sweep_have(s, 3 * PAGE, stream);
	g_assert_true(next == ptr + 2 * PAGE);
	sweep_busy(s, stream);
	sweep_drop(s, next, stream);
	s->number = 4 * PAGE;
}

static void stage_grow_own(struct sweep *s)
{
	stage_grow(s, 0);
}

static void stage_grow_other(struct sweep *s)
{
	stage_grow(s, 1);
}

static void stage_grow_of_another(struct sweep *s)
{
	s->ptr = sweep_have(s, 2 * PAGE, 1);
	sweep_busy(s, 1);
	s->number = PAGE;
}

/* It is no larger, and what is behind its contents is another stream's. */
static void stage_handed(struct sweep *s)
{
	s->ptr = sweep_have(s, 2 * PAGE - 1000, 1);
	s->number = 2 * PAGE - 1010;
}

/* A block with another one directly behind it. */
static void stage_wedged(struct sweep *s, size_t size)
{
	s->ptr = sweep_have(s, 2 * size, 0);
	s->number = size;
	assert_ok(act_realloc(s));
	g_assert_true(sweep_have(s, size, 0) == (char *)s->ptr + size);
}

static void stage_copy(struct sweep *s)
{
	stage_wedged(s, 2 * PAGE);
	sweep_busy(s, 0);
	s->number = 4 * PAGE;
}

static void stage_hole(struct sweep *s)
{
	s->ptr = sweep_have(s, 2 * PAGE, 0);
	s->number = 5 * PAGE;
}

static void stage_hole_donors(struct sweep *s)
{
	void *other;

	s->ptr = sweep_have(s, 2 * PAGE, 0);
	other = sweep_have(s, 4 * PAGE, 1);
	sweep_busy(s, 1);
	sweep_drop(s, other, 1);
	s->number = 7 * PAGE;
}

static void stage_copy_small(struct sweep *s)
{
	s->ptr = sweep_have(s, 1000, 0);
	sweep_have(s, 1000, 0);
	s->number = 3 * PAGE;
}

static void stage_resize_used(struct sweep *s)
{
	stage_used_busy(s);
	s->number = PAGE;
}

static void stage_copy_used(struct sweep *s)
{
	stage_wedged(s, 2 * PAGE);
	use(s, s->ptr, 1);
	sweep_busy(s, 1);
	s->number = 5 * PAGE;
}

static void stage_resize_captured(struct sweep *s)
{
	s->ptr = sweep_have(s, 2 * PAGE, 0);
	sweep_capture(s, 0);
	s->number = PAGE;
}

static void stage_resize_graph(struct sweep *s)
{
	stage_captured(s);
	s->number = PAGE;
}

/* A few bytes more, which the block has. */
static void stage_keep(struct sweep *s)
{
	s->ptr = sweep_have(s, PAGE + 100, 0);
	s->number = PAGE + 500;
}

/* There is room for the larger block, and not for both. */
static void stage_resize_full(struct sweep *s)
{
	s->ptr = sweep_have(s, 8 * PAGE, 0);
	s->number = 4 * PAGE;
	assert_ok(act_realloc(s));
	s->number = 7 * PAGE;
}

/* The same for a block that shares its first page and its last, with another one behind it. */
static void stage_remap(struct sweep *s)
{
	sweep_have(s, PAGE / 2 + 512, 0);
	s->ptr = sweep_have(s, 6 * PAGE, 0);
	s->number = 4 * PAGE;
	assert_ok(act_realloc(s));
	sweep_have(s, 2 * PAGE, 0);
	s->number = 7 * PAGE;
}

#define LIMIT .opts = { .limit = 8 * PAGE }, .gives = true
#define REMAP .opts = { .limit = 12 * PAGE, .extent_max = PAGE }, .gives = true, .keeps = true, .waits = true
#define SCRUB_STREAM .opts = { .scrub = VPMM_SCRUB_STREAM }, .keeps = true
#define SCRUB_ALWAYS .opts = { .scrub = VPMM_SCRUB_ALWAYS }, .keeps = true

const struct sweep_scene sweep_realloc_scenes[] = {
	{ "resize-shrink", ALL, OP(event_record), stage_shrink, act_realloc },
	{ "resize-grow", ALL, OP(event_record), stage_grow_own, act_realloc, .keeps = true },
	{ "resize-grow-wait", ALL, OP(stream_wait), stage_grow_other, act_realloc },
	{ "resize-of-another", ALL, OP(event_record), stage_grow_of_another, act_realloc },
	{ "resize-used", ALL, OP(stream_wait), stage_resize_used, act_realloc },
	{ "resize-full", ALL, OP(event_record), stage_resize_full, act_realloc, LIMIT },
	{ "resize-scrub", ALL, OP(clear), stage_grow_other, act_realloc, SCRUB_STREAM },
	{ "resize-scrub-handed", ALL, OP(clear), stage_handed, act_realloc, SCRUB_STREAM },
	{ "resize-scrub-always", ALL, OP(clear), stage_grow_own, act_realloc, SCRUB_ALWAYS },
	{ "resize-scrub-hole", PACKED, OP(clear), stage_hole, act_realloc, SCRUB_ALWAYS },
	{ "resize-keep", ALL, OP(clear), stage_keep, act_realloc, SCRUB_ALWAYS },
	{ "resize-remap", PACKED, OP(copy), stage_remap, act_realloc, REMAP },
	{ "resize-hole", SWEEP_PACKED | SWEEP_PACKED_UNCACHED, OP(map), stage_hole, act_realloc, .keeps = true },
	{ "resize-hole-donors", SWEEP_PACKED | SWEEP_PACKED_UNCACHED, OP(stream_wait), stage_hole_donors, act_realloc,
	  .keeps = true },
	{ "resize-copy", ALL, OP(copy), stage_copy, act_realloc, .keeps = true },
	{ "resize-copy-small", ALL, OP(copy), stage_copy_small, act_realloc, .keeps = true },
	{ "resize-copy-used", ALL, OP(copy), stage_copy_used, act_realloc, .keeps = true },
	{ "resize-captured", ALL, OP(copy), stage_resize_captured, act_realloc, .keeps = true },
	{ "resize-graph", ALL, OP(copy), stage_resize_graph, act_realloc, .keeps = true },
};
const size_t sweep_realloc_scene_count = G_N_ELEMENTS(sweep_realloc_scenes);
