// SPDX-License-Identifier: LGPL-2.1-or-later
/* The text of -ENOMEM: what ran out, who has it, and what would help. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "budget/budget.h"
#include "calls/arena.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "calls/request.h"
#include "core/account.h"
#include "core/cache.h"
#include "trace/sampler.h"
#include "util/error.h"
#include "util/text.h"

/* Names this many stacks of VPMM_STACKS: those that hold most. */
#define STACKS_NAMED 3

/* Names this many streams: those with the most memory. */
#define STREAMS_NAMED 3

/* Bytes that become free when a stream's pending work completes, as far as is known. */
struct awaited {
	const struct stream *stream;
	uint64_t bytes;
};

static uint64_t awaited_of(struct vpmm_pool *pool, const struct stream *stream)
{
	struct region_map *const maps[] = { &pool->core.regions, &pool->core.spans };
	uint64_t bytes = stream->cache ? cache_withheld(stream->cache) : 0;

	for (size_t i = 0; i < G_N_ELEMENTS(maps); i++) {
		for (const GList *link = region_by_age(maps[i], stream)->head; link; link = link->next) {
			const struct region *region = link->data;

			bytes += event_pending(region->event) ? region->size : 0;
		}
	}
	return bytes;
}

static int compare_awaited(const void *a, const void *b)
{
	const struct awaited *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->stream->id < y->stream->id ? -1 : x->stream->id > y->stream->id;
}

static void add_awaited(struct vpmm_pool *pool, const struct stream *stream, GArray *all)
{
	struct awaited awaited = { .stream = stream, .bytes = awaited_of(pool, stream) };

	if (awaited.bytes)
		g_array_append_val(all, awaited);
}

static void say_awaited(struct vpmm_pool *pool, GString *text)
{
	GArray *all = g_array_new(FALSE, FALSE, sizeof(struct awaited));

	for_each_stream(stream, &pool->core.streams)
		add_awaited(pool, stream, all);
	add_awaited(pool, pool->core.streams.joined, all);
	g_array_sort(all, compare_awaited);
	for (guint i = 0; i < MIN(all->len, STREAMS_NAMED); i++) {
		const struct awaited *awaited = &g_array_index(all, struct awaited, i);

		g_string_append_printf(text, "%s%s on ", i ? ", " : "let pending work finish (",
				       amount(awaited->bytes).text);
		if (awaited->stream == pool->core.streams.joined)
			g_string_append(text, "several streams");
		else if (stream_is_any(awaited->stream))
			g_string_append(text, "all streams");
		else
			g_string_append_printf(text, "stream %" PRIu64, awaited->stream->id);
	}
	if (all->len > STREAMS_NAMED)
		g_string_append_printf(text, " and some on %u others", all->len - STREAMS_NAMED);
	if (all->len)
		g_string_append(text, "); ");
	g_array_free(all, TRUE);
}

/* What ran out. */
enum lack {
	LACK_MEMORY,
	LACK_LIMIT,
	LACK_BUDGET,
	LACK_MAPPINGS,
	LACK_OTHER
};

static enum lack lack_of(const char *reason)
{
	if (strstr(reason, "device memory: "))
		return LACK_MEMORY;
	if (strstr(reason, "limit: "))
		return LACK_LIMIT;
	if (strstr(reason, "budget: "))
		return LACK_BUDGET;
	return strstr(reason, "mappings: ") ? LACK_MAPPINGS : LACK_OTHER;
}

/* So many of those that have part of the same budget. */
#define HOLDERS_NAMED 5

/* Returns the bytes that they have together. */
static uint64_t say_holders(const struct vpmm_pool *pool, GString *text)
{
	const struct budget *budget = pool->core.extents.budget;
	struct budget_holder *holders;
	unsigned int count;
	uint64_t taken = 0;

	if (!budget)
		return 0;
	holders = g_new(struct budget_holder, BUDGET_SLOTS);
	count = budget_holders(budget, holders);
	for (unsigned int i = 0; i < MIN(count, HOLDERS_NAMED); i++)
		g_string_append_printf(text, "%s process %u (%.16s) has %s, of which %s were free",
				       i ? "," : "; of the budget", holders[i].pid, holders[i].program,
				       amount(holders[i].taken).text, amount(holders[i].idle).text);
	if (count > HOLDERS_NAMED)
		g_string_append_printf(text, ", and %u others have some", count - HOLDERS_NAMED);
	for (unsigned int i = 0; i < count; i++)
		taken += holders[i].taken;
	g_free(holders);
	return taken;
}

/* Adds the largest block that is available, and what others hold. Returns the bytes that they hold of what ran out. */
static uint64_t say_room(struct vpmm_pool *pool, GString *text, enum lack lack, struct CUstream_st *handle)
{
	uint64_t small, peak, elsewhere, ours, used, others, sharers, id;
	struct backend *be = pool->core.backend;
	struct backend_info info;
	struct stream *stream;

	if (be->ops->info(be, &info) || be->ops->small_held(be, &small, &peak))
		return 0;
	stream = be->ops->stream_id(be, handle, &id) ? NULL : stream_find(&pool->core.streams, id);
	/* If mappings or address space ran out, the largest block is not known. */
	if (stream && (lack == LACK_MEMORY || lack == LACK_LIMIT || lack == LACK_BUDGET))
		g_string_append_printf(text, "; the largest block to be had is %s",
				       amount(query_largest(pool, stream, MIN(info.memory_free,
									      extent_room(&pool->core.extents)))).text);
	if (small)
		g_string_append_printf(text, "; the driver's allocator holds %s for requests below a page, of which %s "
				       "are live", amount(small).text, amount(pool->core.small_live).text);
	if (pool->core.shareable)
		g_string_append_printf(text, "; %s are in shareable blocks", amount(pool->core.shareable).text);
	if (pool->core.shared)
		g_string_append_printf(text, "; %s are in shared ranges", amount(pool->core.shared).text);
	/* The pool and its arenas share the limit, and count what they hold together. */
	elsewhere = atomic_load(pool->core.extents.taken) - extent_taken(&pool->core.extents);
	if (elsewhere)
		g_string_append_printf(text, "; the pool holds %s more %s", amount(elsewhere).text,
				       pool->arena ? "outside of this pausable tag" : "under pausable tags");
	sharers = say_holders(pool, text);
	ours = pool->core.extents.held + pool->core.shareable + pool->core.shared + small + elsewhere;
	used = info.memory_total - info.memory_free;
	others = used > ours ? used - ours : 0;
	g_string_append_printf(text, "; others hold %s of %s", amount(others).text, amount(info.memory_total).text);
	return lack == LACK_BUDGET ? sharers : others;
}

/* Whether the request is larger than the device. */
static bool is_more_than_all(struct vpmm_pool *pool, size_t size)
{
	struct backend_info info;

	return !pool->core.backend->ops->info(pool->core.backend, &info) && size > info.memory_total;
}

/* Free bytes of extents that have something live and could be smaller. */
static uint64_t stuck_in_large(const struct vpmm_pool *pool)
{
	uint64_t bytes = 0;

	for (const GList *link = pool->core.extents.all.head; link; link = link->next) {
		const struct extent *extent = link->data;

		if (extent->counts && extent->live && extent->size > pool->core.settings.page_size)
			bytes += extent->size - extent->live;
	}
	return bytes;
}

/* Whether it is the setting that keeps extents from being larger, those that are there or one for the request. */
static bool is_extent_bounded(struct vpmm_pool *pool, size_t size)
{
	size_t most = pool->core.settings.extent_max;

	return size > most || extent_size_from(&pool->core.extents, most);
}

/* What helps here, the cheapest first. */
static void say_remedies(struct vpmm_pool *pool, GString *text, enum lack lack, size_t size, uint64_t live,
			 uint64_t others, bool chosen)
{
	uint64_t stuck = lack == LACK_MAPPINGS ? 0 : stuck_in_large(pool);

	say_awaited(pool, text);
	if (pool->pending.held_bytes)
		g_string_append_printf(text, "retire graphs and streams that freed memory is held for (%s); ",
				       amount(pool->pending.held_bytes).text);
	if (lack == LACK_MEMORY && others)
		g_string_append(text, "have other pools and processes give memory back (vpmm_pool_trim, "
				"VPMM_KEEP=none, VPMM_LIMIT); ");
	if (lack == LACK_BUDGET && others)
		g_string_append(text, "have the other pools of the budget free some of theirs; ");
	if (lack == LACK_BUDGET)
		g_string_append(text, "let all processes begin with a larger budget (VPMM_BUDGET); ");
	if (lack == LACK_LIMIT)
		g_string_append(text, "raise the limit (VPMM_LIMIT); ");
	if (lack == LACK_MAPPINGS && is_extent_bounded(pool, size))
		g_string_append(text, "let extents be larger (VPMM_EXTENT_MAX), so that they take fewer mappings; ");
	if (stuck)
		g_string_append_printf(text, "let extents be smaller (VPMM_EXTENT_MAX), as %s free are stuck beside "
				       "something live; ", amount(stuck).text);
	if (!chosen)
		g_string_append(text, "free some of what is live, here or in other pools of the process");
	else
		g_string_append(text, live || pool->core.small_live ? "free some of what is live, or ask for less" :
				"ask for less");
}

/* Of the pool and its arenas: a request of one finds too little because of what all of them hold. */
static void say_stacks(struct vpmm_pool *pool, GString *text)
{
	struct vpmm_pool *parent = arena_root(pool);
	GPtrArray *samplers;

	if (!parent->core.sampler)
		return;
	samplers = g_ptr_array_new();
	g_ptr_array_add(samplers, parent->core.sampler);
	for_each_arena(arena, pool_tags(parent))
		g_ptr_array_add(samplers, arena->core.sampler);
	sampler_name(samplers, STACKS_NAMED, text);
	g_ptr_array_free(samplers, TRUE);
}

bool is_exhausted_elsewhere(void)
{
	enum lack lack = lack_of(error_get());

	return lack == LACK_MEMORY || lack == LACK_BUDGET;
}

int explain_exhausted(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle, bool chosen)
{
	GString *text = g_string_new(error_get());
	enum lack lack = lack_of(text->str);
	uint64_t live, others;

	lock_assert_held(&pool->core.lock);
	live = core_live(&pool->core) - cache_bytes(&pool->core);
	g_string_append_printf(text, "; the pool has %s live and %s free", amount(live).text,
			       amount(core_mapped(&pool->core) - live).text);
	others = say_room(pool, text, lack, handle);
	g_string_append(text, "\ntry this: ");
	if (is_more_than_all(pool, size))
		g_string_append(text, "ask for less than the device has");
	else
		say_remedies(pool, text, lack, size, live, others, chosen);
	say_stacks(pool, text);
	error_set(-ENOMEM, "%s", text->str);
	g_string_free(text, TRUE);
	return error_add(-ENOMEM, "%s wanted", amount(size).text);
}
