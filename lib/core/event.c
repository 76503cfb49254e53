// SPDX-License-Identifier: LGPL-2.1-or-later
/* Events: their records, which are complete, and joined ones. */
#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "core/cache.h"
#include "core/stream.h"
#include "util/bound.h"
#include "util/circle.h"
#include "util/error.h"
#include "util/links.h"

/* A query takes a tenth of a microsecond: too long to query hundreds of streams in one call. */
#define POLL_SOME BOUND(8, 1)

/* Of an event without parts. */
static struct event *spare_event(struct stream_map *map)
{
	struct event *event = map->spare_events;

	if (!event)
		return g_new(struct event, 1);
	map->spare_events = event->link.data;
	map->spares--;
	return event;
}

static struct event *event_new(struct stream *stream, guint count)
{
	size_t size = sizeof(struct event) + count * sizeof(struct join);
	struct event *event = count ? g_malloc(size) : spare_event(stream->map);

	memset(event, 0, size);
	event->stream = stream;
	event->refs = 1;
	event->count = count;
	event->link.data = event;
	circle_init(&event->guarded);
	stream->refs++;
	return event;
}

struct event *stream_adopt(struct stream *stream, struct backend_event *handle, uint64_t seq)
{
	struct event *event = event_new(stream, 0);
	GList *before = stream->pending.tail;

	event->handle = handle;
	event->seq = seq;
	event->stamp = ++stream->map->stamps;
	event->more = EVENT_SHARES - 1;
	if (!before)
		links_append(&stream->map->busy, &stream->busy_link);
	/* An event that was recorded earlier may be adopted later. */
	while (before && ((struct event *)before->data)->seq > seq)
		before = before->prev;
	links_insert(&stream->pending, before, &event->link);
	return event;
}

bool event_renew(struct event *event, struct backend_event **handle, uint64_t seq, bool put_off)
{
	struct backend_event *before;

	if (!event_pending(event) || !event->more || event->waited || event->joins.head ||
	    !event->stream->map->sole || stream_latest(event->stream) != event || (put_off && !event->put_off))
		return false;
	before = event->handle;
	event->handle = *handle;
	event->put_off = put_off;
	event->seq = seq;
	event->stamp = ++event->stream->map->stamps;
	event->more--;
	*handle = before;
	return true;
}

struct backend_event *event_spare_handle(struct stream_map *map)
{
	return map->spare_handle_count ? map->spare_handles[--map->spare_handle_count] : NULL;
}

static void keep_handle(struct stream_map *map, struct backend_event *handle)
{
	if (map->spare_handle_count < EVENT_SPARES)
		map->spare_handles[map->spare_handle_count++] = handle;
	else
		map->backend->ops->event_destroy(map->backend, handle);
}

static void keep_event(struct stream_map *map, struct event *event)
{
	if (event->count || map->spares == EVENT_SPARES) {
		g_free(event);
		return;
	}
	event->link.data = map->spare_events;
	map->spare_events = event;
	map->spares++;
}

void event_drop_spares(struct stream_map *map)
{
	while (map->spare_events)
		g_free(spare_event(map));
	while (map->spare_handle_count)
		map->backend->ops->event_destroy(map->backend, event_spare_handle(map));
}

static int event_handle(struct stream_map *map, struct backend_event **handle)
{
	*handle = event_spare_handle(map);
	return *handle ? 0 : map->backend->ops->event_create(map->backend, handle);
}

/* Under the cache's lock, so that the numbers follow the order of the records: other threads record the mark. */
static int record_next(struct stream *stream, struct CUstream_st *handle, struct backend_event *event, uint64_t *seq)
{
	struct backend *be = stream->map->backend;
	int err;

	brief_acquire(&stream->cache->lock);
	err = be->ops->event_record(be, event, handle);
	if (!err)
		*seq = ++stream->cache->recorded;
	brief_release(&stream->cache->lock);
	return err;
}

int stream_record_reserved(struct stream *stream, struct CUstream_st *handle, struct backend_event **reserved,
			   struct event **event)
{
	uint64_t seq = 0;
	int err;

	err = record_next(stream, handle, *reserved, &seq);
	if (err)
		return err;
	*event = stream_adopt(stream, *reserved, seq);
	*reserved = NULL;
	return 0;
}

int stream_record(struct stream *stream, struct CUstream_st *handle, struct event **event)
{
	struct backend_event *reserved;
	int err;

	err = event_handle(stream->map, &reserved);
	if (err)
		return err;
	err = stream_record_reserved(stream, handle, &reserved, event);
	if (err)
		keep_handle(stream->map, reserved);
	return err;
}

int stream_record_all(struct stream *any, struct event **event)
{
	struct backend *be = any->map->backend;
	struct backend_event *recorded;
	int err;

	err = event_handle(any->map, &recorded);
	if (err)
		return err;
	err = be->ops->event_record_all(be, recorded);
	if (err)
		goto err_keep;
	/* Nobody records it without the pool's lock, so its cache's is not needed for the order of the numbers. */
	brief_acquire(&any->cache->lock);
	*event = stream_adopt(any, recorded, ++any->cache->recorded);
	brief_release(&any->cache->lock);
	return 0;

err_keep:
	keep_handle(any->map, recorded);
	return err;
}

/* No longer pending: it has passed, or the last reference was dropped. */
static void event_retire(struct event *event)
{
	struct stream *stream = event->stream;

	links_remove(&stream->pending, &event->link);
	if (!event->count && g_queue_is_empty(&stream->pending))
		links_remove(&stream->map->busy, &stream->busy_link);
}

static void event_set_passed(struct event *event)
{
	struct stream_map *map = event->stream->map;
	GList *link;

	event_retire(event);
	event->passed = true;
	while ((link = circle_first(&event->guarded))) {
		circle_remove(link);
		map->passed(link->data);
	}
}

/* A part has passed. What waits for a single other part need not wait for the joined event any more. */
static void part_pass(struct join *part)
{
	struct event *joined = event_ref(part->joined);
	struct stream_map *map = joined->stream->map;
	GList *link, *next;

	part->joined = NULL;
	joined->left--;
	if (!joined->left)
		event_set_passed(joined);
	for (link = joined->left == 1 ? circle_first(&joined->guarded) : NULL; link; link = next) {
		next = circle_next(&joined->guarded, link);
		map->passed(link->data);
	}
	event_unref(joined);
}

static void event_pass(struct event *event)
{
	event_ref(event);
	event_set_passed(event);
	while (event->joins.head)
		part_pass(g_queue_pop_head_link(&event->joins)->data);
	event_unref(event);
}

static gint compare_streams(gconstpointer a, gconstpointer b)
{
	uint64_t x = (*(const struct event *const *)a)->stream->id, y = (*(const struct event *const *)b)->stream->id;

	return x < y ? -1 : x > y;
}

struct event *event_join(struct stream_map *map, GPtrArray *events)
{
	struct event *joined = event_new(map->joined, events->len);

	g_ptr_array_sort(events, compare_streams);
	joined->left = events->len;
	for (guint i = 0; i < events->len; i++) {
		struct join *part = &joined->parts[i];

		*part = (struct join){ .event = event_ref(events->pdata[i]), .joined = joined, .link.data = part };
		g_queue_push_tail_link(&part->event->joins, &part->link);
	}
	g_queue_push_tail_link(&map->joined->pending, &joined->link);
	return joined;
}

struct event *event_left(struct event *event)
{
	if (!event->count || event->left > 1)
		return event;
	for (guint i = 0; i < event->count; i++) {
		if (!event->parts[i].event->passed)
			return event->parts[i].event;
	}
	return NULL;
}

uint64_t event_stamp(const struct event *event, const struct stream *stream)
{
	uint64_t latest = 0;

	if (!event || event->passed || event->stream == stream)
		return 0;
	if (!event->count)
		return event->stamp;
	for (guint i = 0; i < event->count; i++)
		latest = MAX(latest, event_stamp(event->parts[i].event, stream));
	return latest;
}

bool event_covers(const struct event *event, const struct event *other)
{
	if (!event->count)
		return event->seq >= other->seq;
	if (event->count != other->count)
		return false;
	for (guint i = 0; i < event->count; i++) {
		const struct event *mine = event->parts[i].event, *its = other->parts[i].event;

		if (mine->stream != its->stream || mine->seq < its->seq)
			return false;
	}
	return true;
}

/*
 * Moves from a pending event to the one to ask in its place: the first from there on that is recorded, or the last,
 * which is recorded now. So records are made in the order of their numbers, and no event is complete before an earlier
 * one. While a capture is in the way, the last stays put off.
 */
static int event_catch_up(struct event **event)
{
	struct backend *be = (*event)->stream->map->backend;
	struct error_kept kept;
	uint64_t id;
	int err;

	while ((*event)->put_off && (*event)->link.next)
		*event = (*event)->link.next->data;
	if (!(*event)->put_off)
		return 0;
	error_keep(&kept);
	err = be->ops->stream_id(be, STREAM_LEGACY, &id);
	if (!err)
		err = record_next((*event)->stream, STREAM_LEGACY, (*event)->handle, &(*event)->seq);
	if (err == -EBUSY) {
		error_restore(&kept);
		return 0;
	}
	if (!err)
		(*event)->put_off = false;
	return err;
}

/* The event, and all before it: none of those is later in the stream, even if its record is still to be made. */
static void event_pass_up_to(struct event *event)
{
	event_ref(event);
	while (!event->passed)
		event_pass(event->stream->pending.head->data);
	event_unref(event);
}

int stream_poll(struct stream *stream)
{
	struct backend *be = stream->map->backend;
	int err;

	while (stream->pending.head) {
		struct event *event = stream->pending.head->data;
		int complete = 0;

		err = event_catch_up(&event);
		if (!err && !event->put_off)
			err = be->ops->event_query(be, event->handle, &complete);
		if (err)
			return err;
		if (!complete) {
			((struct event *)stream->pending.tail->data)->more = 0;
			break;
		}
		event_pass_up_to(event);
	}
	return 0;
}

int stream_poll_busy(struct stream_map *map, bool zombies)
{
	GList *link, *next;
	int err;

	/* A zombie of several streams waits for any of them. */
	zombies = zombies && !map->joined->zombies;
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

void stream_pass_busy(struct stream_map *map)
{
	while (map->busy.head)
		event_pass_up_to(((struct stream *)map->busy.head->data)->pending.tail->data);
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

/* The host waits: for the device, while a capture keeps the record from being made. */
static int sync_one(struct event *event)
{
	struct backend *be = event->stream->map->backend;
	int err;

	err = event_catch_up(&event);
	if (!err)
		err = event->put_off ? be->ops->sync(be) : be->ops->event_sync(be, event->handle);
	if (!err)
		event_pass_up_to(event);
	return err;
}

static int wait_one(struct event *event, struct CUstream_st *handle)
{
	struct backend *be = event->stream->map->backend;
	int err;

	if (event->passed)
		return 0;
	err = event_catch_up(&event);
	if (err)
		return err;
	if (event->put_off)
		return sync_one(event);
	event->waited = true;
	return be->ops->stream_wait(be, handle, event->handle);
}

int event_wait(struct event *event, struct CUstream_st *handle)
{
	int err = 0;

	if (!event->count)
		return wait_one(event, handle);
	for (guint i = 0; i < event->count && !err; i++)
		err = wait_one(event->parts[i].event, handle);
	return err;
}

int event_sync(struct event *event)
{
	int err = 0;

	if (!event->count)
		return sync_one(event);
	event_ref(event);
	for (guint i = 0; i < event->count && !err; i++) {
		if (!event->parts[i].event->passed)
			err = sync_one(event->parts[i].event);
	}
	event_unref(event);
	return err;
}

static void parts_drop(struct event *joined)
{
	for (guint i = 0; i < joined->count; i++) {
		struct join *part = &joined->parts[i];

		if (part->joined)
			g_queue_unlink(&part->event->joins, &part->link);
		event_unref(part->event);
	}
}

void event_end(struct event *event)
{
	struct stream_map *map = event->stream->map;

	if (!event->passed)
		event_retire(event);
	if (event->handle && event->waited)
		map->backend->ops->event_destroy(map->backend, event->handle);
	else if (event->handle)
		keep_handle(map, event->handle);
	parts_drop(event);
	event->stream->refs--;
	keep_event(map, event);
}
