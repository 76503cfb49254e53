// SPDX-License-Identifier: LGPL-2.1-or-later
/* The situations and actions of the sweep. */
#include <errno.h>
#include <stdio.h>

#include "calls/pool.h"
#include "support/fault.h"
#include "sweep/sweep-scenes.h"

/* Actions: what they are about was left by the situation. */

static int act_malloc_first(struct sweep *s)
{
	return sweep_malloc(s, 3 * PAGE + 512, 0);
}

static int act_malloc_odd(struct sweep *s)
{
	return sweep_malloc(s, PAGE / 2, 0);
}

static int act_malloc_small(struct sweep *s)
{
	return sweep_malloc(s, 1000, 0);
}

/* Behind a block of the stream, where no such address is by itself. */
static int act_malloc_aligned(struct sweep *s)
{
	return sweep_aligned(s, s->number, PAGE / 4, 0);
}

static int act_malloc_much(struct sweep *s)
{
	return sweep_malloc(s, (size_t)1 << 30, 0);
}

static int act_malloc_too_much(struct sweep *s)
{
	return sweep_malloc(s, 9 * PAGE, 0);
}

static int act_free_elsewhere(struct sweep *s)
{
	return sweep_free(s, s->ptr, 2);
}

static int act_dump(struct sweep *s)
{
	FILE *out = fopen("/dev/null", "w");
	int err;

	g_assert_nonnull(out);
	err = vpmm_pool_dump(s->pool, out);
	fclose(out);
	return err;
}

static int act_stats(struct sweep *s)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	return vpmm_pool_stats(s->pool, &stats);
}

/* What streams stood for is read once they go on. */
static int act_stats_of_stall(struct sweep *s)
{
	sweep_finish(s, 1);
	return act_stats(s);
}

static int act_reset_peaks(struct sweep *s)
{
	return vpmm_pool_reset_peaks(s->pool);
}

static int act_set_limit(struct sweep *s)
{
	return vpmm_pool_set_limit(s->pool, 8 * PAGE);
}

static int act_info(struct sweep *s)
{
	struct vpmm_info info = { .size = sizeof(info) };

	return vpmm_pool_info(s->pool, &info);
}

static int act_check(struct sweep *s)
{
	return vpmm_pool_check(s->pool);
}

static int act_create(struct sweep *s)
{
	return sweep_create(s);
}

static int end(struct sweep *s, enum pool_end how)
{
	pool_delete(s->pool, how);
	s->pool = NULL;
	g_array_set_size(s->blocks, 0);
	return 0;
}

static int act_destroy(struct sweep *s)
{
	return end(s, POOL_END_WAIT);
}

static int act_abandon(struct sweep *s)
{
	return end(s, POOL_END_NOW);
}

static int act_abandon_gone(struct sweep *s)
{
	return end(s, POOL_END_GONE);
}

/* Situations */

/* More than there is room for in what was reserved. */
static void stage_full_chunk(struct sweep *s)
{
	sweep_have(s, 3 * PAGE, 0);
	sweep_have(s, 2 * PAGE, 1);
	s->number = 4 * PAGE;
}

static void stage_own(struct sweep *s)
{
	void *a = sweep_have(s, 2 * PAGE, 0);

	sweep_have(s, PAGE, 0);
	sweep_busy(s, 0);
	sweep_drop(s, a, 0);
	s->number = 2 * PAGE;
}

/* What another stream works on has it all. */
static void stage_taken(struct sweep *s)
{
	void *a = sweep_have(s, 4 * PAGE, 1);

	sweep_have(s, PAGE, 0);
	sweep_busy(s, 1);
	sweep_drop(s, a, 1);
	s->number = 3 * PAGE + 512;
}

/* Memory that another stream freed and is done with. */
static void stage_passed(struct sweep *s)
{
	stage_taken(s);
	sweep_finish(s, 1);
}

/* Extents of three streams, two of them at work, and a shortfall. */
static void stage_donors(struct sweep *s)
{
	sweep_have_pieces(s, 2);
	s->number = 7 * PAGE;
}

/* Free ends and beginnings of extents of which the rest is allocated. */
static void stage_parts(struct sweep *s)
{
	void *parts[3];

	for (int i = 0; i < 3; i++) {
		parts[i] = sweep_have(s, PAGE * 3 / 2, i % 2);
		sweep_have(s, PAGE / 2, 0);
	}
	sweep_busy(s, 1);
	for (int i = 0; i < 3; i++)
		sweep_drop(s, parts[i], i % 2);
	s->number = 6 * PAGE + 512;
}

/* A free region with a hole behind it, which another stream works on. */
static void stage_base(struct sweep *s)
{
	void *a;

	sweep_have(s, PAGE, 0);
	a = sweep_have(s, 3 * PAGE, 1);
	sweep_busy(s, 1);
	sweep_drop(s, a, 1);
	s->number = 5 * PAGE;
}

/* Memory that has moved, and is asked for where it was. A stream that is alone would keep more for itself. */
static void stage_recalled(struct sweep *s)
{
	void *a, *b, *block;

	sweep_have(s, PAGE, 2);
	a = sweep_have(s, 2 * PAGE, 0);
	sweep_have(s, PAGE, 0);
	b = sweep_have(s, 2 * PAGE, 0);
	sweep_have(s, PAGE, 0);
	sweep_drop(s, a, 0);
	sweep_drop(s, b, 0);
	block = sweep_have(s, 4 * PAGE, 1);
	sweep_busy(s, 1);
	sweep_drop(s, block, 1);
	s->number = 2 * PAGE;
}

/* Small requests have all that their pages have. */
static void stage_span(struct sweep *s)
{
	for (int i = 0; i < 64; i++)
		sweep_have(s, PAGE / 64, 0);
	s->number = 512;
}

/* Small memory of a stream at work. */
static void stage_pending_span(struct sweep *s)
{
	void *small[64];

	for (int i = 0; i < 64; i++)
		small[i] = sweep_have(s, PAGE / 64, 1);
	sweep_have(s, PAGE, 0);
	sweep_busy(s, 1);
	for (int i = 0; i < 64; i++)
		sweep_drop(s, small[i], 1);
	s->number = PAGE / 32;
}

static void stage_small(struct sweep *s)
{
	sweep_have(s, 512, 1);
	s->ptr = sweep_have(s, 1000, 0);
}

/* A block, with what another stream still does to it before it. */
static void stage_stolen(struct sweep *s)
{
	stage_taken(s);
	s->ptr = sweep_have(s, s->number, 0);
}

static void stage_live(struct sweep *s)
{
	sweep_have(s, PAGE, 1);
	s->ptr = sweep_have(s, 2 * PAGE, 0);
	sweep_busy(s, 0);
}

/* A stream was said to be done with memory, and the one that had it is asked last. */
static void stage_stranded(struct sweep *s)
{
	void *a = sweep_reuse(s);

	sweep_busy(s, 1);
	sweep_drop(s, a, 1);
	s->number = 2 * PAGE;
}

/* Streams have cached what is missing, some of it without an event, and the default stream as well. */
static void stage_cached(struct sweep *s)
{
	void *a, *b, *c = NULL;

	a = sweep_have(s, 2 * PAGE, 1);
	b = sweep_have(s, 2 * PAGE, 2);
	assert_ok(vpmm_malloc(s->pool, &c, 2 * PAGE, NULL));
	calm(s, 3);
	sweep_drop(s, a, 1);
	sweep_drop(s, b, 2);
	assert_ok(vpmm_free(s->pool, c, NULL));
	s->number = 4 * PAGE;
}

static void stage_cached_own(struct sweep *s)
{
	sweep_drop(s, sweep_have(s, PAGE, 0), 0);
	s->number = PAGE;
}

/* The same block many times, so that the stream frees with and without an event. */
static void stage_full_cache(struct sweep *s)
{
	void *many[CACHE_BLOCKS_MAX];

	for (int i = 0; i < CACHE_BLOCKS_MAX; i++)
		many[i] = sweep_have(s, PAGE / 64, 0);
	s->ptr = sweep_have(s, PAGE / 64, 0);
	for (int i = 0; i < CACHE_BLOCKS_MAX; i++)
		sweep_drop(s, many[i], 0);
}

/* Memory was mapped elsewhere, and nobody works through its old places any more. */
static void stage_zombies(struct sweep *s)
{
	stage_donors(s);
	sweep_have(s, s->number, 0);
	sweep_finish(s, 1);
	sweep_finish(s, 2);
	s->number = PAGE;
}

/* The same, and the pool thinks that there are too many of them. */
static void stage_places(struct sweep *s)
{
	stage_zombies(s);
	s->pool->packed.most_places = 0;
	s->number = 9 * PAGE;
}

/* What was mapped in vain could not be unmapped. */
static void stage_stray(struct sweep *s)
{
	stage_donors(s);
	backend_fault_arm(s->be, BACKEND_OP_access, 0, 1, -EIO);
	backend_fault_arm(s->be, BACKEND_OP_unmap, 0, 2, -EIO);
	backend_fault_arm(s->be, BACKEND_OP_release, 0, 1, -EIO);
	g_assert_cmpint(act_malloc(s), ==, -EIO);
	backend_fault_arm(s->be, BACKEND_OP_unmap, 0, 0, 0);
	backend_fault_arm(s->be, BACKEND_OP_release, 0, 0, 0);
}

/* The device has no more, and what is free is in pieces, at old places, and in pages for small requests. */
static void stage_exhausted(struct sweep *s)
{
	void *a, *b, *c, *small;

	small = sweep_have(s, 1000, 0);
	a = sweep_have(s, 2 * PAGE, 0);
	sweep_have(s, PAGE, 0);
	b = sweep_have(s, 2 * PAGE, 1);
	sweep_have(s, PAGE / 2, 1);
	c = sweep_have(s, PAGE, 2);
	sweep_busy(s, 1);
	sweep_drop(s, a, 0);
	sweep_drop(s, b, 1);
	sweep_drop(s, c, 2);
	sweep_drop(s, small, 0);
	s->number = 5 * PAGE;
}

/* A bit of everything. */
static void stage_all(struct sweep *s)
{
	stage_zombies(s);
	sweep_have(s, 1000, 1);
	sweep_drop(s, sweep_have(s, 700, 2), 2);
	sweep_drop(s, sweep_have(s, PAGE, 3), 3);
	sweep_busy(s, 2);
	sweep_drop(s, sweep_have(s, 2 * PAGE, 2), 2);
	sweep_drop(s, sweep_have(s, PAGE / 2, 0), 0);
}

/* Memory that was put together out of pieces, and all that worked on it is done. */
static void stage_scattered(struct sweep *s)
{
	void *block;

	stage_donors(s);
	block = sweep_have(s, s->number, 0);
	sweep_finish(s, 1);
	sweep_finish(s, 2);
	sweep_drop(s, block, 0);
}

static void stage_small_wanted(struct sweep *s)
{
	sweep_drop(s, sweep_have(s, 1000, 1), 1);
	s->number = 512;
}

static void stage_passed_span(struct sweep *s)
{
	stage_pending_span(s);
	sweep_finish(s, 1);
}

/* More is free than the pool is to keep, and it could not go when it was freed. */
static void stage_beyond(struct sweep *s)
{
	void *a, *b;

	s->ptr = sweep_have(s, PAGE, 0);
	a = sweep_have(s, 4 * PAGE, 1);
	b = sweep_have(s, PAGE, 1);
	sweep_busy(s, 1);
	sweep_drop(s, a, 1);
	sweep_drop(s, b, 1);
	sweep_finish(s, 1);
	s->number = PAGE;
}

/* A pool that may hold no more, and has all of it free. */
static void stage_limited_small(struct sweep *s)
{
	void *a = sweep_have(s, 2 * PAGE, 0), *b = sweep_have(s, 4 * PAGE, 1);

	sweep_drop(s, a, 0);
	sweep_drop(s, b, 1);
	s->number = 1000;
}

#define CHUNKS(pages) .opts = { .va_size = (pages) * PAGE }
#define EXTENTS .opts = { .extent_max = PAGE }
#define KEEP .opts = { .keep = 2 * PAGE }
#define LIMIT(pages) .opts = { .limit = (pages) * PAGE }, .gives = true
#define BLOCK .opts = { .reuse = VPMM_REUSE_BLOCK }, .waits = true

const struct sweep_scene sweep_scenes[] = {
	{ "first", ALL, OP(create), NULL, act_malloc_first },
	{ "first-odd", PACKED, OP(create), NULL, act_malloc_odd },
	{ "first-small", PACKED, OP(create), NULL, act_malloc_small },
	{ "first-small-driver", PAGED, OP(small_alloc), NULL, act_malloc_small },
	{ "much", PACKED, OP(info), NULL, act_malloc_much },
	{ "too-much", ALL, OP(info), NULL, act_malloc_too_much, .result = -ENOMEM, .capacity = "16M" },
	{ "aligned-taken", ALL, OP(stream_wait), stage_taken, act_malloc_aligned },
	{ "aligned-gather", ALL, OP(map), stage_donors, act_malloc_aligned },
	{ "aligned-span", PACKED, OP(create), stage_span, act_malloc_aligned },
	{ "across-chunks", ALL, OP(reserve), stage_full_chunk, act_malloc, CHUNKS(6) },
	{ "own", ALL, OP(stream_id), stage_own, act_malloc },
	{ "taken", ALL, OP(stream_wait), stage_taken, act_malloc },
	{ "taken-timed", ALL, OP(event_create_timed), stage_taken, act_malloc },
	{ "taken-stood", UNCACHED, OP(event_elapsed), stage_stolen, act_stats_of_stall },
	{ "taken-wait", UNCACHED, OP(event_sync), stage_taken, act_malloc, BLOCK },
	{ "passed", UNCACHED, OP(event_query), stage_passed, act_malloc },
	{ "gather", ALL, OP(map), stage_donors, act_malloc },
	{ "gather-extents", PACKED, OP(map), stage_donors, act_malloc, EXTENTS },
	{ "gather-chunks", ALL, OP(reserve), stage_donors, act_malloc, CHUNKS(6) },
	{ "gather-wait", UNCACHED, OP(event_sync), stage_donors, act_malloc, BLOCK },
	{ "parts", PACKED, OP(map), stage_parts, act_malloc },
	{ "base", ALL, OP(map), stage_base, act_malloc },
	{ "recalled", ALL, OP(event_query), stage_recalled, act_malloc },
	{ "span", PACKED, OP(create), stage_span, act_malloc },
	{ "span-pending", PACKED, OP(stream_wait), stage_pending_span, act_malloc },
	{ "span-wait", PACKED, OP(event_sync), stage_pending_span, act_malloc, BLOCK },
	{ "reap", PAGED, OP(unmap), stage_zombies, act_malloc },
	{ "places", PACKED, OP(unmap), stage_places, act_malloc },
	{ "stray", ALL, OP(unmap), stage_stray, act_malloc },
	{ "exhausted", ALL, OP(map), stage_exhausted, act_malloc, .capacity = "16M" },
	{ "free", ALL, OP(stream_id), stage_live, act_free },
	{ "free-elsewhere", ALL, OP(event_record), stage_live, act_free_elsewhere },
	{ "free-stolen", UNCACHED, OP(stream_wait), stage_stolen, act_free_elsewhere },
	{ "free-any", ALL, OP(event_record_all), stage_live, act_free_any, .waits = true },
	{ "free-any-small", ALL, OP(event_record_all), stage_small, act_free_any, .waits = true },
	{ "free-any-stolen", UNCACHED, OP(event_record_all), stage_stolen, act_free_any, .waits = true },
	{ "free-small", ALL, OP(stream_id), stage_small, act_free },
	{ "free-small-elsewhere", PACKED, OP(event_record), stage_small, act_free_elsewhere },
	{ "cached-own", CACHED, OP(stream_id), stage_cached_own, act_malloc },
	{ "cached", CACHED, OP(event_record), stage_cached, act_malloc },
	{ "cache-full", SWEEP_PACKED, OP(event_record), stage_full_cache, act_free },
	{ "stranded", CACHED, OP(stream_wait), stage_stranded, act_malloc },
	{ "dump", ALL, OP(small_held), stage_all, act_dump },
	{ "stats", ALL, OP(small_held), stage_all, act_stats },
	{ "reset-peaks", ALL, OP(small_held), stage_all, act_reset_peaks },
	{ "info", ALL, OP(info), stage_all, act_info },
	{ "check", ALL, OP(enter), stage_all, act_check },
	{ "trim", ALL, OP(release), stage_passed, act_trim, .gives = true },
	{ "trim-places", ALL, OP(unmap), stage_scattered, act_trim, .gives = true },
	{ "trim-spans", PACKED, OP(release), stage_passed_span, act_trim, .gives = true },
	{ "trim-cached", CACHED, OP(event_record), stage_cached, act_trim, .gives = true },
	{ "trim-all", ALL, OP(event_query), stage_all, act_trim, .gives = true },
	{ "set-limit", ALL, OP(release), stage_scattered, act_set_limit, .gives = true },
	{ "keep", ALL, OP(release), stage_beyond, act_malloc, KEEP },
	{ "keep-free", ALL, OP(release), stage_beyond, act_free, KEEP },
	{ "limit", ALL, OP(map), stage_exhausted, act_malloc, LIMIT(8) },
	{ "limit-small", PAGED, OP(release), stage_limited_small, act_malloc, LIMIT(6) },
	{ "query", ALL, OP(info), stage_donors, act_query },
	{ "query-small", ALL, OP(info), stage_small_wanted, act_query },
	{ "query-cached", SWEEP_PACKED, OP(event_record), stage_cached, act_query },
	{ "query-all", ALL, OP(info), stage_all, act_query },
	{ "create", ALL, OP(reserve), NULL, act_create, .makes = true },
	{ "create-pages", ALL, OP(access), NULL, act_create, .opts = { .pages = 30 }, .makes = true },
	{ "create-chunk", ALL, OP(access), NULL, act_create, .opts = { .pages = 3, .va_size = 3 * PAGE },
	  .makes = true },
	{ "destroy", ALL, OP(unreserve), stage_all, act_destroy, .unmakes = true, .waits = true },
	{ "destroy-stranded", CACHED, OP(unreserve), stage_stranded, act_destroy, .unmakes = true, .waits = true },
	{ "destroy-cached", CACHED, OP(unreserve), stage_cached, act_destroy, .unmakes = true, .waits = true },
	{ "abandon", ALL, OP(unreserve), stage_all, act_abandon, .unmakes = true },
	{ "abandon-stranded", CACHED, OP(unreserve), stage_stranded, act_abandon, .unmakes = true },
	{ "abandon-gone", PACKED, OP(unreserve), stage_all, act_abandon_gone, .unmakes = true },
	{ "abandon-gone-stranded", CACHED, OP(unreserve), stage_stranded, act_abandon_gone, .unmakes = true },
};
const size_t sweep_scene_count = G_N_ELEMENTS(sweep_scenes);
