// SPDX-License-Identifier: LGPL-2.1-or-later
/* Actions on blocks that can grow. */
#include <errno.h>

#include "sweep/sweep-scenes.h"

#define MOST (12 * PAGE)

static int act_growable(struct sweep *s)
{
	return sweep_growable(s, 3 * PAGE, MOST, 0);
}

static int act_growable_large(struct sweep *s)
{
	return sweep_growable(s, 10 * PAGE, MOST, 0);
}

static int act_realloc(struct sweep *s)
{
	return sweep_realloc(s, &s->ptr, s->number, 0);
}

static int act_realloc_elsewhere(struct sweep *s)
{
	return sweep_realloc(s, &s->ptr, s->number, 1);
}

/* The stream that takes it once more is another, which has come after nothing that the first has submitted. */
static int act_realloc_handed(struct sweep *s)
{
	return sweep_realloc(s, &s->ptr, s->number, s->again ? 3 : 0);
}

/* A block of so many pages, page by page, so that it can lose each. */
static void have_growable(struct sweep *s, size_t pages)
{
	assert_ok(sweep_growable(s, PAGE, MOST, 0));
	s->ptr = sweep_last(s);
	for (size_t i = 2; i <= pages; i++) {
		s->number = i * PAGE;
		assert_ok(act_realloc(s));
	}
}

static void stage_donors(struct sweep *s)
{
	void *ptrs[3];

	for (int i = 0; i < 3; i++)
		ptrs[i] = sweep_have(s, PAGE, 1);
	for (int i = 0; i < 3; i++)
		sweep_have(s, PAGE, 2);
	sweep_busy(s, 1);
	for (int i = 0; i < 3; i++)
		sweep_drop(s, ptrs[i], 1);
}

static void stage_grow(struct sweep *s)
{
	have_growable(s, 2);
	s->number = 5 * PAGE;
}

/* A part of the last page is gained as well, and cleared with what comes behind it. */
static void stage_grow_part(struct sweep *s)
{
	assert_ok(sweep_growable(s, PAGE + 1000, MOST, 0));
	s->ptr = sweep_last(s);
	s->number = 4 * PAGE;
}

static void stage_grow_donors(struct sweep *s)
{
	have_growable(s, 2);
	stage_donors(s);
	s->number = 4 * PAGE;
}

static void stage_shrink(struct sweep *s)
{
	have_growable(s, 5);
	sweep_busy(s, 0);
	s->number = 2 * PAGE;
}

static void stage_shrink_used(struct sweep *s)
{
	have_growable(s, 5);
	assert_ok(vpmm_use(s->pool, s->ptr, s->streams[1]));
	sweep_busy(s, 1);
	s->number = 2 * PAGE;
}

static void stage_grow_again(struct sweep *s)
{
	have_growable(s, 5);
	s->number = 2 * PAGE;
	assert_ok(act_realloc(s));
	s->number = 5 * PAGE;
}

static void stage_grow_after_others(struct sweep *s)
{
	stage_grow_again(s);
	sweep_have(s, 3 * PAGE, 0);
}

static void stage_full(struct sweep *s)
{
	void *ptr = sweep_have(s, 7 * PAGE, 0);

	have_growable(s, 1);
	sweep_drop(s, ptr, 0);
	s->number = 8 * PAGE;
}

static void stage_live(struct sweep *s)
{
	have_growable(s, 4);
	s->number = 2 * PAGE;
	assert_ok(act_realloc(s));
	sweep_busy(s, 0);
}

/* It is no larger, and what is behind its contents is another stream's. */
static void stage_handed(struct sweep *s)
{
	have_growable(s, 2);
	s->number = PAGE + 1000;
	assert_ok(act_realloc(s));
	s->number = PAGE + 990;
}

/* Larger again within its pages. */
static void stage_within(struct sweep *s)
{
	have_growable(s, 2);
	s->number = PAGE + 1000;
	assert_ok(act_realloc(s));
	s->number = 2 * PAGE - 1000;
}

#define ALWAYS .opts = { .scrub = VPMM_SCRUB_ALWAYS }, .keeps = true
#define SCRUB .opts = { .scrub = VPMM_SCRUB_STREAM }, .keeps = true

const struct sweep_scene sweep_growable_scenes[] = {
	{ "growable", ALL, OP(create), NULL, act_growable },
	{ "growable-donors", ALL, OP(stream_wait), stage_donors, act_growable },
	{ "growable-chunk", ALL, OP(reserve), NULL, act_growable, .opts = { .va_size = 4 * PAGE } },
	{ "growable-scrub", ALL, OP(clear), stage_donors, act_growable, SCRUB },
	{ "growable-exhausted", ALL, OP(info), NULL, act_growable_large, .capacity = "16M", .result = -ENOMEM,
	  .waits = true },
	{ "growable-grow", ALL, OP(create), stage_grow, act_realloc },
	{ "growable-grow-donors", ALL, OP(stream_wait), stage_grow_donors, act_realloc },
	{ "growable-grow-again", ALL, OP(event_record), stage_grow_again, act_realloc, .waits = true },
	{ "growable-grow-after", PACKED, OP(unmap), stage_grow_after_others, act_realloc, .waits = true },
	{ "growable-grow-scrub", ALL, OP(clear), stage_grow_donors, act_realloc, SCRUB, .grows = true,
	  .waits_again = true },
	{ "growable-grow-always", ALL, OP(clear), stage_grow, act_realloc, ALWAYS, .grows = true,
	  .waits_again = true },
	{ "growable-part-always", ALL, OP(clear), stage_grow_part, act_realloc_handed, ALWAYS, .grows = true,
	  .waits_again = true },
	{ "growable-within-always", ALL, OP(clear), stage_within, act_realloc, ALWAYS, .grows = true,
	  .waits_again = true },
	{ "growable-grow-full", ALL, OP(event_record), stage_full, act_realloc, .opts = { .limit = 8 * PAGE },
	  .gives = true, .waits = true },
	{ "growable-of-another", ALL, OP(event_record), stage_grow, act_realloc_elsewhere },
	{ "growable-scrub-handed", ALL, OP(clear), stage_handed, act_realloc_elsewhere, SCRUB, .waits_again = true },
	{ "growable-shrink", ALL, OP(map), stage_shrink, act_realloc },
	{ "growable-shrink-used", ALL, OP(stream_wait), stage_shrink_used, act_realloc },
	{ "growable-free", ALL, OP(event_record), stage_live, act_free },
};
const size_t sweep_growable_scene_count = G_N_ELEMENTS(sweep_growable_scenes);
