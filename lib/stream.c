// SPDX-License-Identifier: LGPL-2.1-or-later
#include "backend.h"
#include "stream.h"

void stream_map_init(struct stream_map *map, struct backend *backend, void (*passed)(void *data, void *guarded),
		     void *data)
{
	map->backend = backend;
	map->passed = passed;
	map->data = data;
	map->by_id = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
	g_queue_init(&map->busy);
}

void stream_map_clear(struct stream_map *map)
{
	g_hash_table_destroy(map->by_id);
}

static struct stream *stream_new(struct stream_map *map, uint64_t id)
{
	struct stream *stream = g_new0(struct stream, 1);

	stream->id = id;
	stream->map = map;
	g_queue_init(&stream->pending);
	stream->busy_link.data = stream;
	g_hash_table_insert(map->by_id, &stream->id, stream);
	return stream;
}

int stream_get(struct stream_map *map, struct CUstream_st *handle, struct stream **stream)
{
	uint64_t id;
	int err;

	err = map->backend->ops->stream_id(map->backend, handle, &id);
	if (err)
		return err;
	*stream = g_hash_table_lookup(map->by_id, &id);
	if (!*stream)
		*stream = stream_new(map, id);
	return 0;
}

int stream_record(struct stream *stream, struct CUstream_st *handle, struct event **event)
{
	struct backend *be = stream->map->backend;
	struct backend_event *recorded;
	int err;

	err = be->ops->event_create(be, &recorded);
	if (err)
		return err;
	err = be->ops->event_record(be, recorded, handle);
	if (err)
		goto err_destroy;

	*event = g_new0(struct event, 1);
	(*event)->stream = stream;
	(*event)->handle = recorded;
	(*event)->refs = 1;
	(*event)->seq = ++stream->newest;
	(*event)->link.data = *event;
	g_queue_init(&(*event)->guarded);
	if (g_queue_is_empty(&stream->pending))
		g_queue_push_tail_link(&stream->map->busy, &stream->busy_link);
	g_queue_push_tail_link(&stream->pending, &(*event)->link);
	return 0;

err_destroy:
	be->ops->event_destroy(be, recorded);
	return err;
}

/* It is pending no more: it has passed, or nobody asks any longer. */
static void event_retire(struct event *event)
{
	struct stream *stream = event->stream;

	g_queue_unlink(&stream->pending, &event->link);
	if (g_queue_is_empty(&stream->pending))
		g_queue_unlink(&stream->map->busy, &stream->busy_link);
}

static void event_pass(struct event *event)
{
	struct stream_map *map = event->stream->map;

	event_ref(event);
	event_retire(event);
	event->passed = true;
	while (event->guarded.head)
		map->passed(map->data, g_queue_pop_head_link(&event->guarded)->data);
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
		g_queue_push_tail_link(&event->guarded, link);
}

void event_unguard(struct event *event, GList *link)
{
	if (!event->passed)
		g_queue_unlink(&event->guarded, link);
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
	g_free(event);
}
