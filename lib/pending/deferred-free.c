// SPDX-License-Identifier: LGPL-2.1-or-later
/* Deferred frees: where they wait, what ends them, and their check. */
#include <errno.h>
#include <inttypes.h>

#include "core/allocation.h"
#include "core/cache.h"
#include "core/shareable.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "pending/flush.h"
#include "pending/graph.h"
#include "pending/group.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "util/address.h"
#include "util/error.h"

/* Holds that one call polls: each may take a query of the driver. */
#define POLL_SOME 8

/* A silent stream, and the holds that wait for it. */
struct silence {
	uint64_t id;
	GQueue holds;
};

GHashTable *hold_silent_new(void)
{
	return address_table_new(g_free);
}

static struct silence *silence_find(struct pending *pending, uint64_t id)
{
	return g_hash_table_lookup(pending->silent, &id);
}

static struct silence *silence_get(struct pending *pending, uint64_t id)
{
	struct silence *silence = silence_find(pending, id);

	return silence ? silence : address_table_add(pending->silent, id, sizeof(*silence));
}

/* Puts a hold into the list of each graph and stream that it waits for, and without graphs into that of the pool. */
static void tie(struct pending *pending, struct hold *hold)
{
	if (!hold->graphs->len)
		tie_add(hold->ties, &pending->holds, hold);
	for (guint i = 0; i < hold->graphs->len; i++)
		tie_add(hold->ties, &graph_get(pending, g_array_index(hold->graphs, uint64_t, i))->holds, hold);
	for (guint i = 0; i < hold->silent->len; i++)
		tie_add(hold->ties, &silence_get(pending, g_array_index(hold->silent, uint64_t, i))->holds, hold);
}

/* Nobody waits any more for a silent stream without holds. */
static void untie(struct pending *pending, struct hold *hold)
{
	g_ptr_array_set_size(hold->ties, 0);
	for (guint i = 0; i < hold->silent->len; i++) {
		uint64_t id = g_array_index(hold->silent, uint64_t, i);
		const struct silence *silence = silence_find(pending, id);

		if (silence && !silence->holds.length)
			g_hash_table_remove(pending->silent, &id);
	}
}

/* All holds: those of streams, and those of graphs, each with the first of its graphs. */
static GPtrArray *all_holds(struct pending *pending)
{
	GPtrArray *holds = tie_members(&pending->holds);
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, pending->graphs);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct graph *graph = value;

		for (const GList *link = graph->holds.head; link; link = link->next) {
			if (ids_find(((struct hold *)link->data)->graphs, graph->id) == 0)
				g_ptr_array_add(holds, link->data);
		}
	}
	return holds;
}

static void set_held(struct hold *hold, bool held)
{
	if (hold->region)
		hold->region->held = held;
	else
		hold->small->held = held;
}

void hold_drop(struct pending *pending, struct hold *hold)
{
	lock_assert_held(&pending->core->lock);
	set_held(hold, false);
	group_remove_hold(hold);
	untie(pending, hold);
	pending->held_bytes -= hold_size(hold);
}

int hold_free_behind(struct pending *pending, struct region *region, const struct stream *stream,
		     struct CUstream_st *handle, bool *told)
{
	struct core *core = pending->core;
	struct event *behind;
	struct stall stall;
	int err;

	lock_assert_held(&pending->core->lock);
	*told = true;
	/* By its allocation the owner is ordered after all earlier uses. Other streams may not be. */
	if (region->stream == stream)
		return 0;
	*told = cache_behind(region, &behind);
	if (!*told || !event_pending(behind))
		return 0;
	stall = stall_begin(&core->streams, handle);
	err = event_wait(behind, handle);
	stall_end(&core->streams, handle, &stall, err ? 0 : 1);
	core->counts.waits += !err;
	return err;
}

/*
 * Makes the region free, behind the events of all who used it. Streams that have passed theirs meanwhile are left out.
 * Errors are ignored: the caller's next driver call reports them.
 */
static void leave_held(struct pending *pending, struct hold *hold)
{
	struct core *core = pending->core;
	struct error_kept kept;
	struct event *event;

	error_keep(&kept);
	if (order_poll(&hold->order))
		error_restore(&kept);
	event = order_join(&hold->order, &core->streams);
	live_end(core, hold->region, event ? event->stream : NULL, event, hold->told);
	event_unref(event);
}

static void hold_link(struct pending *pending, struct hold *hold)
{
	set_held(hold, true);
	tie(pending, hold);
	group_add_hold(pending, hold);
	pending->held_bytes += hold_size(hold);
}

/* Whether all that a hold waits for is events. */
static bool hold_is_known(const struct hold *hold)
{
	return !hold->silent->len && !hold->graphs->len;
}

/* No graph is left that could be retired behind the work from outside. */
static void await_outside(struct hold *hold)
{
	const uint64_t nobody = STREAM_NOBODY_ID;

	if (!hold->outside || hold->graphs->len)
		return;
	g_array_append_val(hold->silent, nobody);
	hold->outside = false;
}

void hold_keep(struct pending *pending, struct hold *hold)
{
	lock_assert_held(&pending->core->lock);
	await_outside(hold);
	use_remove(pending, hold->region ? hold->region->addr : hold->small->addr);
	if (hold->region && hold_is_known(hold)) {
		leave_held(pending, hold);
		hold_delete(hold);
	} else {
		hold_link(pending, hold);
	}
}

void hold_unheard(struct pending *pending, struct region *region)
{
	const struct use *use = use_find(pending, region->addr);
	struct hold *hold = hold_make(region, NULL, use);

	/*
	 * A capture's stream never calls, so wait for the graphs instead. Idle memory that belongs to no stream has
	 * none.
	 */
	if (region->stream->captured && use)
		g_array_append_vals(hold->graphs, use->graphs->data, use->graphs->len);
	else if (!region->stream->captured)
		g_array_append_val(hold->silent, region->stream->id);
	hold_keep(pending, hold);
}

void hold_aside(struct pending *pending, struct small *small)
{
	const uint64_t nobody = STREAM_NOBODY_ID;
	struct hold *hold = hold_make(NULL, small, NULL);

	g_array_append_val(hold->silent, nobody);
	hold_keep(pending, hold);
}

/*
 * The driver's allocator frees it on whatever stream is at hand, and what is shareable is unmapped, so the host has to
 * see all events complete.
 */
static void hold_end_small(struct pending *pending, struct hold *hold, struct CUstream_st *handle, bool captured)
{
	if ((captured && !hold->small->shareable) || order_poll(&hold->order) || !order_is_ready(&hold->order))
		return;
	if (small_release(pending->core, hold->small, handle))
		return;
	hold_drop(pending, hold);
	small_forget(pending->core, hold->small);
	hold_delete(hold);
}

/* Errors are ignored: the caller's next driver call reports them. */
static void hold_try(struct pending *pending, struct hold *hold, struct CUstream_st *handle, bool captured)
{
	struct error_kept kept;

	if (!hold_is_known(hold))
		return;
	if (hold->region) {
		hold_drop(pending, hold);
		leave_held(pending, hold);
		hold_delete(hold);
		return;
	}
	error_keep(&kept);
	hold_end_small(pending, hold, handle, captured);
	error_restore(&kept);
}

static void poll_first(struct pending *pending, guint count, struct CUstream_st *handle, bool captured)
{
	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < count && pending->holds.head; i++) {
		GList *first = g_queue_pop_head_link(&pending->holds);

		g_queue_push_tail_link(&pending->holds, first);
		hold_try(pending, first->data, handle, captured);
	}
}

void hold_poll(struct pending *pending, struct CUstream_st *handle, bool captured)
{
	poll_first(pending, MIN(pending->holds.length, POLL_SOME), handle, captured);
}

void hold_poll_shareable(struct pending *pending)
{
	poll_first(pending, pending->holds.length, STREAM_NULL, true);
}

static void hear(struct pending *pending, struct hold *hold, uint64_t id, struct event *event)
{
	untie(pending, hold);
	g_array_remove_index_fast(hold->silent, (guint)ids_find(hold->silent, id));
	tie(pending, hold);
	order_add_event(&hold->order, event);
}

/* The holds that wait for a silent stream, of memory that was freed under a capture; NULL: of any. */
static GPtrArray *silent_holds(struct pending *pending, uint64_t id, const uint64_t *capture)
{
	const struct silence *silence = silence_find(pending, id);
	GPtrArray *holds = tie_members(silence ? &silence->holds : NULL);

	for (guint i = holds->len; i > 0; i--) {
		if (capture && ((struct hold *)holds->pdata[i - 1])->capture != *capture)
			g_ptr_array_remove_index(holds, i - 1);
	}
	return holds;
}

/* @id: what the holds know the stream by. */
static int hear_as(struct pending *pending, uint64_t id, const uint64_t *capture, struct stream *stream,
		   struct CUstream_st *handle)
{
	GPtrArray *holds = silent_holds(pending, id, capture);
	struct event *event = NULL;
	int err;

	err = holds->len ? stream_record(stream, handle, &event) : 0;
	for (guint i = 0; i < holds->len && !err; i++) {
		hear(pending, holds->pdata[i], id, event);
		hold_try(pending, holds->pdata[i], handle, false);
	}
	event_unref(event);
	g_ptr_array_free(holds, TRUE);
	return err;
}

void hold_hear(struct pending *pending, struct stream *stream, struct CUstream_st *handle)
{
	struct error_kept kept;

	lock_assert_held(&pending->core->lock);
	if (!g_hash_table_contains(pending->silent, &stream->id))
		return;
	error_keep(&kept);
	if (hear_as(pending, stream->id, NULL, stream, handle))
		error_restore(&kept);
}

void hold_hear_legacy(struct pending *pending)
{
	const uint64_t later = STREAM_LATER_ID;
	struct error_kept kept;
	struct stream *stream;

	lock_assert_held(&pending->core->lock);
	if (!g_hash_table_contains(pending->silent, &later))
		return;
	error_keep(&kept);
	if (stream_get(&pending->core->streams, STREAM_LEGACY, &stream) ||
	    hear_as(pending, later, NULL, stream, STREAM_LEGACY))
		error_restore(&kept);
}

/* Bytes of device memory that come back with it, which the pool can have then. */
static uint64_t hold_returns(const struct hold *hold)
{
	const struct shareable *apart = hold->small ? hold->small->shareable : NULL;

	return apart && apart->imported ? 0 : hold_size(hold);
}

uint64_t hold_pending(const struct pending *pending)
{
	uint64_t bytes = 0;

	lock_assert_held(&pending->core->lock);
	for (const GList *link = pending->holds.head; link; link = link->next)
		bytes += hold_returns(link->data);
	return bytes;
}

static void unsilence(struct pending *pending, struct hold *hold)
{
	untie(pending, hold);
	g_array_set_size(hold->silent, 0);
	tie(pending, hold);
}

void hold_synced(struct pending *pending, struct CUstream_st *handle, bool captured)
{
	GPtrArray *holds = all_holds(pending);

	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < holds->len; i++) {
		unsilence(pending, holds->pdata[i]);
		hold_try(pending, holds->pdata[i], handle, captured);
	}
	g_ptr_array_free(holds, TRUE);
}

/* All that can fail: orders the stream after the earlier uses of the memory, and records an event. */
static int retire_prepare(struct pending *pending, const GPtrArray *holds, struct stream *stream,
			  struct CUstream_st *handle, struct event **event)
{
	*event = NULL;
	for (guint i = 0; i < holds->len; i++) {
		struct hold *hold = holds->pdata[i];
		int err;

		/* Look once: another thread may record the mark later, and nothing here would wait for it. */
		err = hold->region && !hold->ordered ?
		      hold_free_behind(pending, hold->region, stream, handle, &hold->told) : 0;
		if (err)
			return err;
	}
	return holds->len ? stream_record(stream, handle, event) : 0;
}

static void retire_hold(struct pending *pending, struct hold *hold, uint64_t graph, struct event *event)
{
	group_remove_hold(hold);
	untie(pending, hold);
	g_array_remove_index_fast(hold->graphs, (guint)ids_find(hold->graphs, graph));
	tie(pending, hold);
	group_add_hold(pending, hold);
	order_add_event(&hold->order, event);
	hold->ordered = true;
	hold->outside = false;
}

int hold_retire_graph(struct pending *pending, uint64_t graph, struct stream *stream, struct CUstream_st *handle)
{
	const struct graph *known = graph_find(pending, graph);
	GPtrArray *holds = tie_members(known ? &known->holds : NULL);
	struct event *event = NULL;
	int err;

	lock_assert_held(&pending->core->lock);
	/* Blocks of a graph that was gone before it was retired: the stream is behind the work from outside, too. */
	err = hear_as(pending, STREAM_NOBODY_ID, &graph, stream, handle);
	if (!err)
		err = retire_prepare(pending, holds, stream, handle, &event);
	for (guint i = 0; i < holds->len && !err; i++) {
		retire_hold(pending, holds->pdata[i], graph, event);
		hold_try(pending, holds->pdata[i], handle, false);
	}
	event_unref(event);
	g_ptr_array_free(holds, TRUE);
	return err;
}

/* No stream is at hand that could wait for the earlier uses of the memory, so whoever gets it does. */
static void tell_behind(struct hold *hold)
{
	struct event *behind;

	if (!hold->region || hold->ordered)
		return;
	hold->told = cache_behind(hold->region, &behind);
	order_add_event(&hold->order, behind);
}

void hold_end_graph(struct pending *pending, uint64_t graph)
{
	const struct graph *known = graph_find(pending, graph);
	GPtrArray *holds = tie_members(known ? &known->holds : NULL);

	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < holds->len; i++) {
		struct hold *hold = holds->pdata[i];

		hold_drop(pending, hold);
		g_array_remove_index_fast(hold->graphs, (guint)ids_find(hold->graphs, graph));
		tell_behind(hold);
		hold->ordered = true;
		hold_keep(pending, hold);
	}
	g_ptr_array_free(holds, TRUE);
}

void hold_clear(struct pending *pending)
{
	GPtrArray *holds = all_holds(pending);

	for (guint i = 0; i < holds->len; i++) {
		hold_drop(pending, holds->pdata[i]);
		hold_delete(holds->pdata[i]);
	}
	g_ptr_array_free(holds, TRUE);
}

static int check_hold(const struct hold *hold)
{
	const struct region *region = hold->region;

	if (region ? region->kind != REGION_MALLOC || !region->held : !hold->small->held)
		return error_set(-EUCLEAN, "what is held is not allocated, or does not know that it is held");
	if (region && hold_is_known(hold))
		return error_set(-EUCLEAN, "a free is deferred, and waits for events only");
	return 0;
}

static bool is_tied(const struct hold *hold)
{
	return hold->ties->len == hold->graphs->len + hold->silent->len + !hold->graphs->len;
}

/* Whether all in a list wait for it. @silent: it is that of a stream, or else of a graph. */
static bool are_of(const GQueue *holds, uint64_t id, bool silent)
{
	for (const GList *link = holds->head; link; link = link->next) {
		const struct hold *hold = link->data;

		if (ids_find(silent ? hold->silent : hold->graphs, id) < 0)
			return false;
	}
	return true;
}

static int check_lists(struct pending *pending)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, pending->graphs);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct graph *graph = value;

		if (!are_of(&graph->holds, graph->id, false))
			return error_set(-EUCLEAN, "a hold is not where its graphs are");
	}
	g_hash_table_iter_init(&iter, pending->silent);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct silence *silence = value;

		if (!silence->holds.length || !are_of(&silence->holds, silence->id, true))
			return error_set(-EUCLEAN, "a hold is not where the streams are that it waits for");
	}
	return 0;
}

int hold_check(struct pending *pending)
{
	GPtrArray *holds = all_holds(pending);
	uint64_t bytes = 0;
	int err;

	err = check_lists(pending);
	for (guint i = 0; i < holds->len && !err; i++) {
		err = check_hold(holds->pdata[i]);
		if (!err && !is_tied(holds->pdata[i]))
			err = error_set(-EUCLEAN, "a hold is not in as many lists as it waits for");
		bytes += hold_size(holds->pdata[i]);
	}
	g_ptr_array_free(holds, TRUE);
	if (!err && bytes != pending->held_bytes)
		err = error_set(-EUCLEAN, "held are %" PRIu64 " bytes, and %" PRIu64 " are kept", bytes,
				pending->held_bytes);
	return err;
}
