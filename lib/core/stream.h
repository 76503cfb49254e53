/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams and events: who freed what when, and what is complete by now. A stream is known by its driver id, never by
 * its handle. All of it is under the lock of the pool; of the cache, what cache.h says.
 */
#ifndef STREAM_H
#define STREAM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct backend;
struct backend_event;
struct cache;
struct free_set;

/* How many region maps there can be for one map of streams. */
#define STREAM_SETS 2
/* Handles of the legacy default stream, as CUDA has them. */
#define STREAM_NULL ((struct CUstream_st *)0)
#define STREAM_LEGACY ((struct CUstream_st *)0x1)
#define STREAM_PER_THREAD ((struct CUstream_st *)0x2)

/* Whether a handle is that of a stream which somebody created, and means the same in every thread and context. */
static inline bool stream_is_created(const struct CUstream_st *handle)
{
	return (uintptr_t)handle > (uintptr_t)STREAM_PER_THREAD;
}

/**
 * struct event - a point in a stream
 * @stream: the stream
 * @handle: the driver's
 * @refs: how many hold it
 * @seq: which of its stream's events it is; larger is later
 * @passed: whether its stream is known to be past it
 * @guarded: what it guards while it is not
 * @link: links it into its stream while it is pending
 */
struct event {
	struct stream *stream;
	struct backend_event *handle;
	unsigned int refs;
	uint64_t seq;
	bool passed;
	GQueue guarded;
	GList link;
};

/**
 * struct stream - a stream that the pool has met
 * @id: the driver's
 * @map: the streams it belongs to
 * @free: what it has free in each region map, whose business it is; NULL before the first
 * @pending: its events that are not known to be complete, oldest first
 * @cache: what it has freed and keeps for itself, and the lock under which its events are recorded
 * @zombies: how many zombies wait for its events, likewise
 * @refs: how many regions and events it is the stream of
 * @first: there was none before it
 * @captured: it stands for a capture: nothing can be recorded on it, and it cannot be made to wait
 * @busy_link: links it into the pool's busy streams while it has pending events
 */
struct stream {
	uint64_t id;
	struct stream_map *map;
	struct free_set *free[STREAM_SETS];
	GQueue pending;
	struct cache *cache;
	unsigned int zombies;
	uint64_t refs;
	bool first;
	bool captured;
	GList busy_link;
};

/**
 * struct stream_map - all streams of a pool
 * @backend: the device
 * @passed: called for each that an event has guarded, when it has passed
 * @unmarked: bytes that one stream may free without recording an event, at most
 * @unmarked_left: the same of all streams that are yet to come
 * @most_cached: bytes that a stream may keep for itself
 * @by_id: id to stream
 * @sole: the only stream, as long as there has been but one; a cache looks at it under its own lock
 * @met: how many there have been
 * @busy: those with pending events
 * @caches: those of streams that are forgotten, for streams to come; of struct cache
 * @mallocs: how many allocations they had served
 * @frees: how many frees they had taken
 */
struct stream_map {
	struct backend *backend;
	void (*passed)(void *guarded);
	uint64_t unmarked;
	uint64_t unmarked_left;
	uint64_t most_cached;
	GHashTable *by_id;
	struct stream *_Atomic sole;
	uint64_t met;
	GQueue busy;
	GPtrArray *caches;
	uint64_t mallocs;
	uint64_t frees;
};

/**
 * stream_map_init() - set up the streams of a pool
 * @map: the map
 * @backend: the device
 * @unmarked: bytes that a stream may free without recording an event, at most
 * @passed: called with what an event guarded, as soon as the event is known to have passed
 */
void stream_map_init(struct stream_map *map, struct backend *backend, uint64_t unmarked,
		     void (*passed)(void *guarded));

/**
 * stream_map_clear() - forget all streams
 * @map: the map
 *
 * Nobody holds an event any more.
 */
void stream_map_clear(struct stream_map *map);

/**
 * stream_meet() - the stream of an id, whether the pool has met it or not
 * @map: the map
 * @id: the driver's id
 * @handle: a handle of it
 *
 * Return: the stream.
 */
struct stream *stream_meet(struct stream_map *map, uint64_t id, const struct CUstream_st *handle);

/**
 * stream_get() - the stream that a handle means now
 * @map: the map
 * @handle: the handle
 * @stream: receives the stream
 *
 * Return: 0, or what the backend's stream_id returns.
 */
int stream_get(struct stream_map *map, struct CUstream_st *handle, struct stream **stream);

/**
 * stream_get_captured() - the stream that stands for a capture
 * @map: the map
 * @id: the driver's id of the capture
 *
 * All streams under the capture are one, which is behind nobody's frees and has none of its own.
 *
 * Return: the stream.
 */
struct stream *stream_get_captured(struct stream_map *map, uint64_t id);

/**
 * stream_forget() - a stream that nothing belongs to any more
 * @map: the map
 * @stream: the stream: no region or event is its, its cache is empty, its free sets are gone
 */
void stream_forget(struct stream_map *map, struct stream *stream);

/**
 * stream_find() - the stream of an id
 * @map: the map
 * @id: the driver's id
 *
 * Return: the stream, or NULL: the pool has not met it.
 */
struct stream *stream_find(struct stream_map *map, uint64_t id);

/**
 * stream_record() - mark the point that a stream has come to
 * @stream: the stream
 * @handle: a handle that means it on this thread
 * @event: receives the event, with one reference
 *
 * Return: 0, or what the backend's event_create and event_record return.
 */
int stream_record(struct stream *stream, struct CUstream_st *handle, struct event **event);

/**
 * stream_adopt() - make an event of what was recorded elsewhere
 * @stream: the stream
 * @handle: the driver's event, recorded; the event's from now on
 * @seq: which of its stream's events it is
 *
 * Return: the event, with one reference.
 */
struct event *stream_adopt(struct stream *stream, struct backend_event *handle, uint64_t seq);

/**
 * stream_poll() - find out which events of a stream have passed by now
 * @stream: the stream
 *
 * One query for each event that has, and one more.
 *
 * Return: 0, or what the backend's event_query returns.
 */
int stream_poll(struct stream *stream);

/**
 * stream_poll_busy() - the same for all streams that have pending events
 * @map: the map
 * @zombies: only for those with zombies
 *
 * Return: 0, or what the backend's event_query returns.
 */
int stream_poll_busy(struct stream_map *map, bool zombies);

/**
 * stream_sync_busy() - wait on the host until all streams are past all their events
 * @map: the map
 *
 * One that cannot be waited for keeps nobody from waiting for the others.
 *
 * Return: 0, or the first error of the backend's event_sync.
 */
int stream_sync_busy(struct stream_map *map);

/**
 * stream_poll_some() - the same for a few of them, each in its turn
 * @map: the map
 *
 * Return: 0, or what the backend's event_query returns.
 */
int stream_poll_some(struct stream_map *map);

/**
 * event_wait() - make a stream wait for an event, on the device
 * @event: the event
 * @handle: a handle of the stream
 *
 * Return: 0, or what the backend's stream_wait returns.
 */
int event_wait(struct event *event, struct CUstream_st *handle);

/**
 * event_sync() - wait for an event, on the host
 * @event: the event, which may be gone afterwards
 *
 * The event and all before it have passed afterwards.
 *
 * Return: 0, or what the backend's event_sync returns.
 */
int event_sync(struct event *event);

/**
 * event_guard() - let an event guard something until it has passed
 * @event: the event; one that has passed has nothing to guard any more
 * @link: linked into the event meanwhile; its data is what the map's callback gets
 */
void event_guard(struct event *event, GList *link);

/**
 * event_unguard() - let it go
 * @event: the event; one that has passed has let it go already
 * @link: as given to event_guard()
 */
void event_unguard(struct event *event, GList *link);

/**
 * event_pending() - whether a stream is not known to be past an event
 * @event: the event; NULL: no
 */
static inline bool event_pending(const struct event *event)
{
	return event && !event->passed;
}

/**
 * event_ref() - hold an event
 * @event: the event; NULL does nothing
 *
 * Return: @event.
 */
struct event *event_ref(struct event *event);

/**
 * event_unref() - let an event go; the last to do so destroys it
 * @event: the event; NULL does nothing
 */
void event_unref(struct event *event);

#endif /* STREAM_H */
