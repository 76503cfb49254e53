// SPDX-License-Identifier: LGPL-2.1-or-later
/* Deferred frees: where they wait, what ends them, and their check. */
#include <errno.h>
#include <inttypes.h>

#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "core/shareable.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "pending/group.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "util/bound.h"
#include "util/error.h"

/* Holds that one call polls: each may take a query of the driver. */
#define POLL_SOME BOUND(8, 1)

static struct blocker *find_silent(struct pending *pending, uint64_t id)
{
	return g_hash_table_lookup(pending->silent, &id);
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

		for (const GList *link = graph->blocker.holds.head; link; link = link->next) {
			if (graph_at(((struct hold *)link->data)->graphs, 0) == graph)
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

/* The pool has those without graphs in a list of its own, for hold_poll(). */
static void enlist(struct pending *pending, struct hold *hold)
{
	if (!hold->graphs->len)
		g_queue_push_tail_link(&pending->holds, &hold->link);
}

void hold_drop(struct pending *pending, struct hold *hold)
{
	lock_assert_held(&pending->core->lock);
	set_held(hold, false);
	group_remove_hold(hold);
	if (!hold->graphs->len)
		g_queue_unlink(&pending->holds, &hold->link);
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
	enlist(pending, hold);
	group_add_hold(hold);
	pending->held_bytes += hold_size(hold);
}

/* Whether all that a hold waits for is events. */
static bool hold_is_known(const struct hold *hold)
{
	return !hold->silent->len && !hold->graphs->len;
}

/* No graph is left that could be retired behind the work from outside. */
static void await_outside(struct pending *pending, struct hold *hold)
{
	if (!hold->outside || hold->graphs->len)
		return;
	hold_await_silent(pending, hold, STREAM_NOBODY_ID);
	hold->outside = false;
}

void hold_keep(struct pending *pending, struct hold *hold)
{
	lock_assert_held(&pending->core->lock);
	await_outside(pending, hold);
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
		hold_await_graphs(hold, use->graphs);
	else if (!region->stream->captured)
		hold_await_silent(pending, hold, region->stream->id);
	hold_keep(pending, hold);
}

void hold_aside(struct pending *pending, struct small *small)
{
	struct hold *hold = hold_make(NULL, small, NULL);

	hold_await_silent(pending, hold, STREAM_NOBODY_ID);
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

/* The holds that wait for a silent stream, of memory that was freed under a capture; NULL: of any. */
static GPtrArray *silent_holds(const struct blocker *silent, const uint64_t *capture)
{
	GPtrArray *holds = tie_members(silent ? &silent->holds : NULL);

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
	const struct blocker *silent = find_silent(pending, id);
	GPtrArray *holds = silent_holds(silent, capture);
	struct event *event = NULL;
	int err;

	err = holds->len ? stream_record(stream, handle, &event) : 0;
	for (guint i = 0; i < holds->len && !err; i++) {
		struct hold *hold = holds->pdata[i];

		tie_remove(hold->silent, silent);
		order_add_event(&hold->order, event);
		hold_try(pending, hold, handle, false);
	}
	event_unref(event);
	g_ptr_array_free(holds, TRUE);
	return err;
}

int hold_hear(struct pending *pending, struct stream *stream, struct CUstream_st *handle)
{
	lock_assert_held(&pending->core->lock);
	return find_silent(pending, stream->id) ? hear_as(pending, stream->id, NULL, stream, handle) : 0;
}

void hold_hear_legacy(struct pending *pending)
{
	struct error_kept kept;
	struct stream *stream;

	lock_assert_held(&pending->core->lock);
	if (!find_silent(pending, STREAM_LATER_ID))
		return;
	error_keep(&kept);
	if (stream_get(&pending->core->streams, STREAM_LEGACY, &stream) ||
	    hear_as(pending, STREAM_LATER_ID, NULL, stream, STREAM_LEGACY))
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

void hold_synced(struct pending *pending, struct CUstream_st *handle, bool captured)
{
	GPtrArray *holds = all_holds(pending);

	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < holds->len; i++) {
		struct hold *hold = holds->pdata[i];

		g_ptr_array_set_size(hold->silent, 0);
		hold_try(pending, hold, handle, captured);
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

static void retire_hold(struct pending *pending, struct hold *hold, const struct graph *graph, struct event *event)
{
	group_remove_hold(hold);
	tie_remove(hold->graphs, &graph->blocker);
	enlist(pending, hold);
	group_add_hold(hold);
	order_add_event(&hold->order, event);
	hold->ordered = true;
	hold->outside = false;
}

int hold_retire_graph(struct pending *pending, uint64_t graph, struct stream *stream, struct CUstream_st *handle)
{
	const struct graph *known = graph_find(pending, graph);
	GPtrArray *holds = tie_members(known ? &known->blocker.holds : NULL);
	struct event *event = NULL;
	int err;

	lock_assert_held(&pending->core->lock);
	/* Blocks of a graph that was gone before it was retired: the stream is behind the work from outside, too. */
	err = hear_as(pending, STREAM_NOBODY_ID, &graph, stream, handle);
	if (!err)
		err = retire_prepare(pending, holds, stream, handle, &event);
	for (guint i = 0; i < holds->len && !err; i++) {
		retire_hold(pending, holds->pdata[i], known, event);
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
	GPtrArray *holds = tie_members(known ? &known->blocker.holds : NULL);

	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < holds->len; i++) {
		struct hold *hold = holds->pdata[i];

		hold_drop(pending, hold);
		tie_remove(hold->graphs, &known->blocker);
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

int hold_check(struct pending *pending)
{
	GPtrArray *holds = all_holds(pending);
	uint64_t bytes = 0;
	int err = 0;

	for (guint i = 0; i < holds->len && !err; i++) {
		err = check_hold(holds->pdata[i]);
		bytes += hold_size(holds->pdata[i]);
	}
	g_ptr_array_free(holds, TRUE);
	if (!err && bytes != pending->held_bytes)
		err = error_set(-EUCLEAN, "held are %" PRIu64 " bytes, and %" PRIu64 " are kept", bytes,
				pending->held_bytes);
	return err;
}
