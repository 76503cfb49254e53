// SPDX-License-Identifier: LGPL-2.1-or-later
/* The life of what a pool has pending, and the end of streams that nothing belongs to any more. */
#include "core/cache-flush.h"
#include "core/cache.h"
#include "pending/deferred-free.h"
#include "pending/group.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "pending/watch.h"
#include "util/address.h"
#include "util/bound.h"
#include "util/error.h"

void pending_init(struct pending *pending, struct core *core)
{
	pending->core = core;
	pending->uses = use_table_new();
	pending->graphs = graph_table_new();
	pending->groups = group_table_new();
	pending->watches = watches_new();
	pending->silent = address_table_new(g_free);
	g_queue_init(&pending->holds);
}

void pending_clear(struct pending *pending)
{
	hold_clear(pending);
	/* They are in the lists of graphs. */
	g_hash_table_destroy(pending->uses);
	g_hash_table_destroy(pending->silent);
	group_clear(pending);
	g_hash_table_destroy(pending->graphs);
	watches_drop(pending->watches);
}

/* Fewer streams are not worth a search. */
#define STREAMS_LEAST BOUND(64, 2)

static bool is_idle(struct stream *stream)
{
	uint64_t own = stream->cache->adopted ? 1 : 0;

	return stream->refs == own && g_queue_is_empty(&stream->pending) && cache_is_empty(stream->cache);
}

void pending_collect(struct pending *pending)
{
	lock_assert_held(&pending->core->lock);
	if (pending->core->resting)
		return;
	watch_collect(pending);
	hold_poll_shareable(pending);
}

int pending_await_device(struct pending *pending, bool gone)
{
	int err = cache_await_device(pending->core);

	if (err)
		return err;
	if (gone)
		watch_await(pending);
	else
		watch_collect(pending);
	/* All uses are complete, so the driver's allocator may take its memory back on any stream. */
	hold_synced(pending, STREAM_LEGACY, false);
	return 0;
}

static void forget_stream(struct pending *pending, struct stream *stream)
{
	region_forget(&pending->core->regions, stream);
	region_forget(&pending->core->spans, stream);
	ready_forget(extent_ready(&pending->core->extents), stream);
	stream_forget(&pending->core->streams, stream);
}

void idle_forget_streams(struct pending *pending, const struct stream *stream)
{
	struct error_kept kept;
	GList *link, *next;

	lock_assert_held(&pending->core->lock);
	if (pending->core->streams.all.length <= MAX(pending->idle_looked, STREAMS_LEAST))
		return;
	error_keep(&kept);
	cache_flush_all(pending->core);
	if (stream_poll_busy(&pending->core->streams, false))
		error_restore(&kept);
	for (link = pending->core->streams.all.head; link; link = next) {
		next = link->next;
		if (link->data != stream && is_idle(link->data))
			forget_stream(pending, link->data);
	}
	pending->idle_looked = 2 * pending->core->streams.all.length;
}

void idle_forget(struct pending *pending, struct stream *stream)
{
	lock_assert_held(&pending->core->lock);
	if (is_idle(stream))
		forget_stream(pending, stream);
}
