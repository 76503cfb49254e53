// SPDX-License-Identifier: LGPL-2.1-or-later
/* Events: their records, and which are complete. */

#include "backend/backend.h"
#include "core/cache.h"
#include "core/stream.h"
#include "util/links.h"

/* A query takes a tenth of a microsecond: too long to query hundreds of streams in one call. */
#define POLL_SOME 8

struct event *stream_adopt(struct stream *stream, struct backend_event *handle, uint64_t seq)
{
	struct event *event = g_new(struct event, 1);
	GList *before = stream->pending.tail;

	*event = (struct event){ .stream = stream, .handle = handle, .refs = 1, .seq = seq, .link.data = event };
	stream->refs++;
	g_queue_init(&event->guarded);
	if (!before)
		links_append(&stream->map->busy, &stream->busy_link);
	/* An event that was recorded earlier may be adopted later. */
	while (before && ((struct event *)before->data)->seq > seq)
		before = before->prev;
	links_insert(&stream->pending, before, &event->link);
	return event;
}

int stream_record(struct stream *stream, struct CUstream_st *handle, struct event **event)
{
	struct backend *be = stream->map->backend;
	struct backend_event *recorded;
	uint64_t seq = 0;
	int err;

	err = be->ops->event_create(be, &recorded);
	if (err)
		return err;
	/*
	 * Under the cache's lock, so that the numbers follow the order of the records: other threads record the mark.
	 */
	brief_acquire(&stream->cache->lock);
	err = be->ops->event_record(be, recorded, handle);
	if (!err)
		seq = ++stream->cache->recorded;
	brief_release(&stream->cache->lock);
	if (err)
		goto err_destroy;
	*event = stream_adopt(stream, recorded, seq);
	return 0;

err_destroy:
	be->ops->event_destroy(be, recorded);
	return err;
}

/* No longer pending: it has passed, or the last reference was dropped. */
static void event_retire(struct event *event)
{
	struct stream *stream = event->stream;

	links_remove(&stream->pending, &event->link);
	if (g_queue_is_empty(&stream->pending))
		links_remove(&stream->map->busy, &stream->busy_link);
}

static void event_pass(struct event *event)
{
	struct stream_map *map = event->stream->map;

	event_ref(event);
	event_retire(event);
	event->passed = true;
	while (event->guarded.head)
		map->passed(g_queue_pop_head_link(&event->guarded)->data);
	event_unref(event);
}

int stream_poll(struct stream *stream)
{
	struct backend *be = stream->map->backend;
	int complete;
	int err;

	while (stream->pending.head) {
		struct event *event = stream->pending.head->data;

		err = be->ops->event_query(be, event->handle, &complete);
		if (err)
			return err;
		if (!complete)
			break;
		event_pass(event);
	}
	return 0;
}

int stream_poll_busy(struct stream_map *map, bool zombies)
{
	GList *link, *next;
	int err;

	for (link = map->busy.head; link; link = next) {
		struct stream *stream = link->data;

		next = link->next;
		if (zombies && !stream->zombies)
			continue;
		err = stream_poll(stream);
		if (err)
			return err;
	}
	return 0;
}

int stream_sync_busy(struct stream_map *map)
{
	GList *link, *next;
	int first = 0, err;

	for (link = map->busy.head; link; link = next) {
		struct stream *stream = link->data;

		next = link->next;
		/* A stream's latest event covers its earlier ones. */
		err = event_sync(stream->pending.tail->data);
		first = first ? first : err;
	}
	return first;
}

int stream_poll_some(struct stream_map *map)
{
	guint count = MIN(map->busy.length, POLL_SOME);
	int err = 0;

	for (guint i = 0; i < count && map->busy.head && !err; i++) {
		GList *link = g_queue_pop_head_link(&map->busy);

		links_append(&map->busy, link);
		err = stream_poll(link->data);
	}
	return err;
}

int event_wait(struct event *event, struct CUstream_st *handle)
{
	struct backend *be = event->stream->map->backend;

	return be->ops->stream_wait(be, handle, event->handle);
}

int event_sync(struct event *event)
{
	struct backend *be = event->stream->map->backend;
	int err;

	err = be->ops->event_sync(be, event->handle);
	if (err)
		return err;
	return stream_poll(event->stream);
}

void event_guard(struct event *event, GList *link)
{
	if (!event->passed)
		links_append(&event->guarded, link);
}

void event_unguard(struct event *event, GList *link)
{
	if (!event->passed)
		links_remove(&event->guarded, link);
}

struct event *event_ref(struct event *event)
{
	if (event)
		event->refs++;
	return event;
}

void event_unref(struct event *event)
{
	struct backend *be;

	if (!event || --event->refs)
		return;
	if (!event->passed)
		event_retire(event);
	be = event->stream->map->backend;
	be->ops->event_destroy(be, event->handle);
	event->stream->refs--;
	g_free(event);
}
