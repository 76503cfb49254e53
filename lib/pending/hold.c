// SPDX-License-Identifier: LGPL-2.1-or-later
/* Makes deferred frees, and tells what they wait for. */
#include <errno.h>

#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "core/shareable.h"
#include "core/small.h"
#include "pending/hold.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "util/address.h"
#include "util/error.h"

size_t hold_size(const struct hold *hold)
{
	if (hold->region)
		return hold->region->size;
	return hold->small->shareable ? hold->small->shareable->bytes : hold->small->size;
}

void hold_delete(struct hold *hold)
{
	order_clear(&hold->order);
	g_ptr_array_free(hold->silent, TRUE);
	g_ptr_array_free(hold->graphs, TRUE);
	g_free(hold);
}

static void await_graph(struct hold *hold, struct blocker *graph)
{
	tie_add(hold->graphs, graph, &graph->holds, hold);
}

void hold_await_graphs(struct hold *hold, const GPtrArray *graphs)
{
	for (guint i = 0; i < graphs->len; i++)
		await_graph(hold, tie_at(graphs, i));
}

void hold_await_silent(struct pending *pending, struct hold *hold, uint64_t id)
{
	struct blocker *silent = address_table_get(pending->silent, id, sizeof(*silent));

	silent->table = pending->silent;
	tie_add(hold->silent, silent, &silent->holds, hold);
}

/* Whether a handle still means the stream of an id, and can be recorded. */
static bool user_is_there(struct pending *pending, const struct user *user)
{
	struct backend *be = pending->core->backend;
	struct error_kept kept;
	uint64_t id;
	bool there;

	error_keep(&kept);
	there = !be->ops->stream_id(be, user->handle, &id) && id == user->id;
	if (!there)
		error_restore(&kept);
	return there;
}

int hold_record(struct hold *hold, struct stream *stream, struct CUstream_st *handle)
{
	struct event *event;
	int err;

	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	order_add_event(&hold->order, event);
	event_unref(event);
	return 0;
}

static int hold_await(struct pending *pending, struct hold *hold, const struct user *user)
{
	struct stream *stream;
	int err;

	if (user->event) {
		order_add_event(&hold->order, user->event);
		return 0;
	}
	/* Something has failed: the memory stays aside until the stream calls, or the device has completed its work. */
	if (user->work || !user_is_there(pending, user)) {
		hold_await_silent(pending, hold, user->id);
		return 0;
	}
	err = stream_get(&pending->core->streams, user->handle, &stream);
	return err ? err : hold_record(hold, stream, user->handle);
}

struct hold *hold_make(struct region *region, struct small *small, const struct use *use)
{
	struct hold *hold = g_new0(struct hold, 1);

	hold->region = region;
	hold->small = small;
	hold->told = true;
	hold->maker = use ? use->maker : 0;
	hold->outside = use && use->outside;
	order_init(&hold->order, NULL);
	if (small)
		order_add_event(&hold->order, small->event);
	hold->silent = ties_new();
	hold->graphs = ties_new();
	hold->link.data = hold;
	return hold;
}

int hold_new(struct pending *pending, struct region *region, struct small *small, const struct use *use, uint64_t own,
	     uint64_t graph, struct hold **hold)
{
	struct hold *made = hold_make(region, small, use);
	int err = 0;

	lock_assert_held(&pending->core->lock);
	for (guint i = 0; use && i < use->users->len && !err; i++) {
		const struct user *user = &g_array_index(use->users, struct user, i);

		if (user->id != own)
			err = hold_await(pending, made, user);
	}
	if (err) {
		hold_delete(made);
		return err;
	}
	if (graph)
		await_graph(made, &graph_get(pending, graph)->blocker);
	if (use)
		hold_await_graphs(made, use->graphs);
	*hold = made;
	return 0;
}

/* What of its users is no work of the context's streams: graphs, and streams that were retired, and may be gone. */
static void hold_add_use(struct hold *hold, const struct use *use)
{
	hold_await_graphs(hold, use->graphs);
	for (guint i = 0; i < use->users->len; i++)
		order_add_event(&hold->order, g_array_index(use->users, struct user, i).event);
}

/* The hold waits for all work so far, or the host does. */
static int hold_record_all(struct pending *pending, struct hold *hold)
{
	struct core *core = pending->core;
	struct error_kept kept;
	struct event *event;
	int err = -EBUSY;

	error_keep(&kept);
	if (!g_hash_table_size(pending->graphs))
		err = stream_record_all(stream_get_any(&core->streams), &event);
	if (!err) {
		order_add_event(&hold->order, event);
		event_unref(event);
		return 0;
	}
	if (err != -EBUSY && err != -ENOTSUP)
		return err;
	error_restore(&kept);
	err = cache_await_device(core);
	core->counts.waits += !err;
	return err;
}

int hold_new_any(struct pending *pending, struct region *region, struct small *small, const struct use *use,
		 struct hold **hold)
{
	struct hold *made = hold_make(region, small, use);
	int err;

	lock_assert_held(&pending->core->lock);
	err = hold_record_all(pending, made);
	if (err) {
		hold_delete(made);
		return err;
	}
	if (use)
		hold_add_use(made, use);
	made->ordered = true;
	*hold = made;
	return 0;
}

int hold_new_later(struct pending *pending, struct region *region, struct small *small, const struct use *use,
		   struct hold **hold)
{
	struct event *behind = NULL;
	int err;

	lock_assert_held(&pending->core->lock);
	err = hold_new(pending, region, small, use, STREAM_LATER_ID, 0, hold);
	if (err)
		return err;
	hold_await_silent(pending, *hold, STREAM_LATER_ID);
	(*hold)->ordered = true;
	/* The stream cannot be made to wait for the owner's earlier free, so whoever gets the memory does. */
	if (region && !region->stream->cache->legacy)
		(*hold)->told = cache_behind(region, &behind);
	order_add_event(&(*hold)->order, behind);
	return 0;
}

struct hold *hold_new_part(const struct hold *hold, struct region *region)
{
	struct hold *part = hold_make(region, NULL, NULL);

	hold_await_graphs(part, hold->graphs);
	part->ordered = hold->ordered;
	part->maker = hold->maker;
	part->capture = hold->capture;
	part->outside = hold->outside;
	part->branch = hold->branch;
	return part;
}
