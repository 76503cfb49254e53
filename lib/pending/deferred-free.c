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
#include "pending/users.h"
#include "util/address.h"
#include "util/error.h"

/* Holds that one call polls: each may take a query of the driver. */
#define POLL_SOME 8

/* A silent stream, and the number of holds that wait for it. */
struct silence {
	uint64_t id;
	guint holds;
};

GHashTable *hold_silent_new(void)
{
	return address_table_new(g_free);
}

static void silence_add(struct pending *pending, uint64_t id)
{
	struct silence *silence = g_hash_table_lookup(pending->silent, &id);

	if (!silence) {
		silence = g_new0(struct silence, 1);
		silence->id = id;
		g_hash_table_insert(pending->silent, &silence->id, silence);
	}
	silence->holds++;
}

static void silence_sub(struct pending *pending, uint64_t id)
{
	struct silence *silence = g_hash_table_lookup(pending->silent, &id);

	if (!--silence->holds)
		g_hash_table_remove(pending->silent, &id);
}

/* The queue that a hold belongs in; NULL: that of one graph which is not known. */
static GQueue *queue_of(struct pending *pending, const struct hold *hold)
{
	struct graph *graph;

	if (!hold->graphs->len)
		return &pending->holds;
	if (hold->graphs->len > 1)
		return &pending->shared_holds;
	graph = graph_find(pending, g_array_index(hold->graphs, uint64_t, 0));
	return graph ? &graph->holds : NULL;
}

static void queue_add(struct pending *pending, struct hold *hold)
{
	if (hold->graphs->len == 1)
		graph_get(pending, g_array_index(hold->graphs, uint64_t, 0));
	g_queue_push_tail_link(queue_of(pending, hold), &hold->link);
}

static void add_all(GPtrArray *holds, const GQueue *queue)
{
	for (const GList *link = queue->head; link; link = link->next)
		g_ptr_array_add(holds, link->data);
}

/* All holds: those of streams, and those of graphs. */
static GPtrArray *all_holds(struct pending *pending)
{
	GPtrArray *holds = g_ptr_array_new();
	GHashTableIter iter;
	gpointer graph;

	add_all(holds, &pending->holds);
	add_all(holds, &pending->shared_holds);
	g_hash_table_iter_init(&iter, pending->graphs);
	while (g_hash_table_iter_next(&iter, NULL, &graph))
		add_all(holds, &((struct graph *)graph)->holds);
	return holds;
}

/* The holds that wait for a graph. */
static GPtrArray *graph_holds(struct pending *pending, uint64_t id)
{
	const struct graph *graph = graph_find(pending, id);
	GPtrArray *holds = g_ptr_array_new();

	if (graph)
		add_all(holds, &graph->holds);
	for (GList *link = pending->shared_holds.head; link; link = link->next) {
		if (ids_find(((struct hold *)link->data)->graphs, id) >= 0)
			g_ptr_array_add(holds, link->data);
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
	g_queue_unlink(queue_of(pending, hold), &hold->link);
	pending->held_bytes -= hold_size(hold);
	for (guint i = 0; i < hold->silent->len; i++)
		silence_sub(pending, g_array_index(hold->silent, uint64_t, i));
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
	queue_add(pending, hold);
	group_add_hold(pending, hold);
	pending->held_bytes += hold_size(hold);
	for (guint i = 0; i < hold->silent->len; i++)
		silence_add(pending, g_array_index(hold->silent, uint64_t, i));
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
	if ((captured && !hold->small->shareable) || order_poll(&hold->order) || !order_is_met(&hold->order))
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
		struct hold *hold = pending->holds.head->data;

		g_queue_unlink(&pending->holds, &hold->link);
		g_queue_push_tail_link(&pending->holds, &hold->link);
		hold_try(pending, hold, handle, captured);
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

static bool hear(struct pending *pending, struct hold *hold, uint64_t id, struct event *event)
{
	int i = ids_find(hold->silent, id);

	if (i < 0)
		return false;
	g_array_remove_index_fast(hold->silent, (guint)i);
	silence_sub(pending, id);
	order_add_event(&hold->order, event);
	return true;
}

/* @id: what the holds know the stream by. */
static int hear_as(struct pending *pending, uint64_t id, struct stream *stream, struct CUstream_st *handle)
{
	struct event *event;
	GPtrArray *holds;
	int err;

	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	holds = all_holds(pending);
	for (guint i = 0; i < holds->len; i++) {
		if (hear(pending, holds->pdata[i], id, event))
			hold_try(pending, holds->pdata[i], handle, false);
	}
	g_ptr_array_free(holds, TRUE);
	event_unref(event);
	return 0;
}

void hold_hear(struct pending *pending, struct stream *stream, struct CUstream_st *handle)
{
	struct error_kept kept;

	lock_assert_held(&pending->core->lock);
	if (!g_hash_table_contains(pending->silent, &stream->id))
		return;
	error_keep(&kept);
	if (hear_as(pending, stream->id, stream, handle))
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
	    hear_as(pending, later, stream, STREAM_LEGACY))
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
	for (guint i = 0; i < hold->silent->len; i++)
		silence_sub(pending, g_array_index(hold->silent, uint64_t, i));
	g_array_set_size(hold->silent, 0);
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
	g_queue_unlink(queue_of(pending, hold), &hold->link);
	g_array_remove_index_fast(hold->graphs, (guint)ids_find(hold->graphs, graph));
	queue_add(pending, hold);
	group_add_hold(pending, hold);
	order_add_event(&hold->order, event);
	hold->ordered = true;
	hold->outside = false;
}

/* Blocks of a graph that was gone before it was retired: the stream is behind the work from outside, too. */
static int hear_retired(struct pending *pending, uint64_t graph, struct stream *stream, struct CUstream_st *handle)
{
	GPtrArray *holds = g_ptr_array_new();
	struct event *event = NULL;
	int err = 0;

	for (const GList *link = pending->holds.head; link; link = link->next) {
		const struct hold *hold = link->data;

		if (hold->capture == graph && ids_find(hold->silent, STREAM_NOBODY_ID) >= 0)
			g_ptr_array_add(holds, link->data);
	}
	if (holds->len)
		err = stream_record(stream, handle, &event);
	for (guint i = 0; i < holds->len && !err; i++) {
		hear(pending, holds->pdata[i], STREAM_NOBODY_ID, event);
		hold_try(pending, holds->pdata[i], handle, false);
	}
	event_unref(event);
	g_ptr_array_free(holds, TRUE);
	return err;
}

int hold_retire_graph(struct pending *pending, uint64_t graph, struct stream *stream, struct CUstream_st *handle)
{
	GPtrArray *holds = graph_holds(pending, graph);
	struct event *event = NULL;
	int err;

	lock_assert_held(&pending->core->lock);
	err = g_hash_table_contains(pending->silent, &(uint64_t){ STREAM_NOBODY_ID }) ?
	      hear_retired(pending, graph, stream, handle) : 0;
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
	GPtrArray *holds = graph_holds(pending, graph);

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

static int check_queue(struct pending *pending, const GQueue *holds, uint64_t *bytes, uint64_t *silent)
{
	int err = 0;

	for (const GList *link = holds->head; link && !err; link = link->next) {
		const struct hold *hold = link->data;

		err = check_hold(hold);
		if (!err && queue_of(pending, hold) != holds)
			err = error_set(-EUCLEAN, "a hold is not where its graphs are");
		*bytes += hold_size(hold);
		*silent += hold->silent->len;
	}
	return err;
}

static int check_queues(struct pending *pending, uint64_t *bytes, uint64_t *silent)
{
	GHashTableIter iter;
	gpointer graph;
	int err;

	err = check_queue(pending, &pending->holds, bytes, silent);
	if (!err)
		err = check_queue(pending, &pending->shared_holds, bytes, silent);
	g_hash_table_iter_init(&iter, pending->graphs);
	while (!err && g_hash_table_iter_next(&iter, NULL, &graph))
		err = check_queue(pending, &((struct graph *)graph)->holds, bytes, silent);
	return err;
}

int hold_check(struct pending *pending)
{
	uint64_t bytes = 0, silent = 0, kept = 0;
	GHashTableIter iter;
	gpointer silence;
	int err;

	err = check_queues(pending, &bytes, &silent);
	if (err)
		return err;
	if (bytes != pending->held_bytes)
		return error_set(-EUCLEAN, "held are %" PRIu64 " bytes, and %" PRIu64 " are kept", bytes,
				 pending->held_bytes);
	g_hash_table_iter_init(&iter, pending->silent);
	while (g_hash_table_iter_next(&iter, NULL, &silence))
		kept += ((struct silence *)silence)->holds;
	if (silent != kept)
		return error_set(-EUCLEAN, "holds wait to hear %" PRIu64 " times, and %" PRIu64 " is kept", silent,
				 kept);
	return 0;
}
