/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams, events, and which of them are complete. A stream is identified by its driver id, never by its handle. All
 * of it is under core.lock, but for what cache.h puts under the cache's.
 */
#ifndef STREAM_H
#define STREAM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memo.h"
#include "core/stall.h"
#include "util/bound.h"
#include "util/circle.h"

struct CUstream_st;
struct backend;
struct backend_event;
struct cache;
struct free_set;
struct ready_set;

/* Unused events that a pool keeps: each flush of a cache takes one, and most have passed some flushes later. */
#define EVENT_SPARES BOUND(64, 2)
/* So many records share an event at most, see event_renew(): what was freed earlier is known to be complete first. */
#define EVENT_SHARES BOUND(16, 2)
/* The region maps that a stream can have free memory in. */
#define STREAM_SETS 2
/* CUDA's special handles. */
#define STREAM_NULL ((struct CUstream_st *)0)
#define STREAM_LEGACY ((struct CUstream_st *)0x1)
#define STREAM_PER_THREAD ((struct CUstream_st *)0x2)
/* No driver's ids of streams or captures, nor CACHE_NOBODY. */
#define STREAM_ANY_ID (UINT64_MAX - 1)
#define STREAM_IDLE_ID (UINT64_MAX - 2)
/* Stands for the legacy default stream while a capture keeps the driver from telling its id. */
#define STREAM_LATER_ID (UINT64_MAX - 3)
/* Stands for streams that are not known, and so never call: what waits for them waits for the whole device. */
#define STREAM_NOBODY_ID (UINT64_MAX - 4)

/* Whether a handle was created by the program, so that it means one stream in all threads and contexts. */
static inline bool stream_is_created(const struct CUstream_st *handle)
{
	return (uintptr_t)handle > (uintptr_t)STREAM_PER_THREAD;
}

/* Whether a handle means the legacy default stream of the context that is current. */
static inline bool stream_is_legacy(const struct CUstream_st *handle)
{
	return handle == STREAM_NULL || handle == STREAM_LEGACY;
}

/**
 * struct join - one event of a joined event
 * @event: the event of one stream, with a reference
 * @joined: the joined event; NULL: it knows that @event has passed
 * @link: its link in @event, while that is pending
 */
struct join {
	struct event *event;
	struct event *joined;
	GList link;
};

/**
 * struct event - a point in a stream; or a joined event: a point in each of several streams
 * @stream: the stream; of a joined event, the map's @joined
 * @handle: the driver's event; joined: NULL
 * @refs: references
 * @seq: its number among its stream's events; larger is later
 * @stamp: its number among the events of all streams, in the order in which the pool learnt of them; joined: 0
 * @passed: whether it is known to be complete; joined: all of its parts
 * @more: how many later records of its stream it may stand for, see event_renew()
 * @waited: a stream was made to wait for it: @handle is not recorded again, so that the wait stays one for this point
 * @put_off: it is not recorded yet, as nobody has asked for it, see cache_mark()
 * @guarded: the regions that wait for it, while it is pending
 * @joins: of struct join: the joined events that it is part of, while it is pending
 * @link: its link in its stream, while it is pending
 * @left: joined: how many parts are pending
 * @count: joined: how many parts there are; 0: it is not joined
 * @parts: its parts, in the order of their streams' ids
 */
struct event {
	struct stream *stream;
	struct backend_event *handle;
	unsigned int refs;
	uint64_t seq;
	uint64_t stamp;
	unsigned int more;
	bool passed;
	bool waited;
	bool put_off;
	GList guarded;
	GQueue joins;
	GList link;
	guint left;
	guint count;
	struct join parts[];
};

/**
 * struct stream - a stream that the pool has met
 * @id: the driver's id of it
 * @map: all streams of the pool
 * @free: its free memory in each region map, managed by the map; NULL: never had any
 * @ready: the whole extents on which only its work is pending, managed by core/ready.c; NULL: never had any
 * @pending: its events that are not known to be complete, oldest first
 * @cache: its cache, whose lock also guards its records
 * @zombies: zombies that wait for its events, counted by the region maps
 * @refs: regions and events that refer to it
 * @first: it is the first stream of the pool
 * @captured: it stands for a capture: it cannot be recorded, and cannot be made to wait
 * @past: hashes of the sizes of its requests that core.memo notes a decision for
 * @link: its link in the map's @all
 * @busy_link: its link in @busy, while it has pending events
 */
struct stream {
	uint64_t id;
	struct stream_map *map;
	struct free_set *free[STREAM_SETS];
	struct ready_set *ready;
	GQueue pending;
	struct cache *cache;
	unsigned int zombies;
	uint64_t refs;
	bool first;
	bool captured;
	struct past past;
	GList link;
	GList busy_link;
};

/**
 * struct stream_map - all streams of a pool
 * @backend: the device
 * @passed: called for each region that waited for an event, once that is known to be complete or, if it is joined, only
 *	one of its parts is pending
 * @shared: called once @sole has ended
 * @account: of the pool, for new caches
 * @unmarked: bytes that one stream may have freed without an event, at most
 * @unmarked_left: the same for all streams still to come
 * @most_cached: bytes that the cache of a stream may have
 * @by_id: id to stream
 * @all: the same streams in the order in which they were met, so that nothing depends on their ids
 * @sole: the only stream, as long as just one was ever met; caches read it under their own locks. See stream_share()
 * @met: streams that were met
 * @stamps: events that the pool has learnt of
 * @busy: streams with pending events
 * @joined: has the memory that several streams used last, and the joined events; not in @by_id or @busy
 * @stalls: how long streams stood where they had to wait for others
 * @caches: caches of forgotten streams, for new ones; of struct cache
 * @ended: no cache serves anybody any more, and all stay, for threads that look for one without the lock
 * @mallocs: hits of forgotten streams
 * @frees: frees into caches of forgotten streams
 * @spare_events: unused structures of events without parts, by the data of @link
 * @spares: how many there are
 * @spare_handles: unused events of the driver
 * @spare_handle_count: how many there are
 */
struct stream_map {
	struct backend *backend;
	void (*passed)(void *guarded);
	void (*shared)(struct stream_map *map);
	struct account *account;
	uint64_t unmarked;
	uint64_t unmarked_left;
	uint64_t most_cached;
	GHashTable *by_id;
	GQueue all;
	struct stream *_Atomic sole;
	uint64_t met;
	uint64_t stamps;
	GQueue busy;
	struct stream *joined;
	struct stalls stalls;
	GPtrArray *caches;
	bool ended;
	uint64_t mallocs;
	uint64_t frees;
	struct event *spare_events;
	guint spares;
	struct backend_event *spare_handles[EVENT_SPARES];
	guint spare_handle_count;
};

/* A link of @all, as a stream. */
static inline struct stream *stream_of(const GList *link)
{
	return link ? link->data : NULL;
}

/* None may be forgotten meanwhile. */
#define for_each_stream(stream, streams) \
	for (struct stream *stream = stream_of((streams)->all.head); stream; stream = stream_of(stream->link.next))

/**
 * stream_map_init() - set up the streams of a pool
 * @map: the map
 * @backend: the device
 * @account: of the pool
 * @unmarked: bytes that one stream may have freed without an event, at most
 * @passed: as in struct stream_map
 * @shared: likewise
 */
void stream_map_init(struct stream_map *map, struct backend *backend, struct account *account, uint64_t unmarked,
		     void (*passed)(void *guarded), void (*shared)(struct stream_map *map));

/**
 * stream_map_end() - let no call find a cache any more, though it may look for one until the process ends
 * @map: the map, under core.lock; stream_map_clear() follows
 */
void stream_map_end(struct stream_map *map);

/**
 * stream_map_clear() - forget all streams
 * @map: the map
 *
 * No reference to an event may be left.
 */
void stream_map_clear(struct stream_map *map);

/**
 * stream_share() - end @sole: from now on, what is free for one stream differs from what is free for all
 * @map: the map
 *
 * Before anything else happens no region is loose any more, so regions that are not allocated may have merged.
 */
void stream_share(struct stream_map *map);

/**
 * stream_find_or_add() - the stream of an id; made if the pool has not met it
 * @map: the map
 * @id: the driver's id
 * @handle: a handle of the stream
 *
 * Return: the stream.
 */
struct stream *stream_find_or_add(struct stream_map *map, uint64_t id, const struct CUstream_st *handle);

/**
 * stream_get() - the stream that a handle means now, in this thread
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
 * All streams of a capture are one stream to the pool. It is not ordered after any free of another, and has no frees
 * of its own.
 *
 * Return: the stream.
 */
struct stream *stream_get_captured(struct stream_map *map, uint64_t id);

/**
 * stream_get_any() - the stream that stands for all work of the context
 * @map: the map
 *
 * It has the memory that was freed after all work so far (VPMM_STREAM_ANY), and the events of stream_record_all(). No
 * request is for it.
 *
 * Return: the stream, which counts as captured.
 */
struct stream *stream_get_any(struct stream_map *map);

/**
 * stream_get_idle() - the stream that requests for idle memory are for
 * @map: the map
 *
 * It has no work and no free memory, and nothing can be ordered after other streams for it but by a wait on the host.
 * The policies give it what is complete, or new, and the rest only to a request that is frugal.
 *
 * Return: the stream, which counts as captured.
 */
struct stream *stream_get_idle(struct stream_map *map);

/* Whether it is that one. */
static inline bool stream_is_idle(const struct stream *stream)
{
	return stream->id == STREAM_IDLE_ID;
}

/* Whether it is that of stream_get_any(). */
static inline bool stream_is_any(const struct stream *stream)
{
	return stream->id == STREAM_ANY_ID;
}

/**
 * stream_forget() - forget a stream that nothing refers to any more
 * @map: the map
 * @stream: the stream: without regions and events, with an empty cache and no free sets
 */
void stream_forget(struct stream_map *map, struct stream *stream);

/**
 * stream_find() - the stream of an id
 * @map: the map
 * @id: the driver's id
 *
 * Return: the stream; NULL: the pool has not met it.
 */
struct stream *stream_find(struct stream_map *map, uint64_t id);

/**
 * stream_record() - record an event on a stream
 * @stream: the stream
 * @handle: a handle that means the stream on this thread
 * @event: receives the event, with one reference
 *
 * Return: 0, or what the backend's event_create and event_record return.
 */
int stream_record(struct stream *stream, struct CUstream_st *handle, struct event **event);

/**
 * stream_record_reserved() - the same with an event that was created before
 * @stream: the stream
 * @handle: a handle that means the stream on this thread
 * @reserved: the driver's event; NULL afterwards
 * @event: receives the event, with one reference, which owns the driver's
 *
 * Return: 0, or what the backend's event_record returns; @reserved stays then.
 */
int stream_record_reserved(struct stream *stream, struct CUstream_st *handle, struct backend_event **reserved,
			   struct event **event);

/**
 * stream_record_all() - record an event behind all work of the context so far
 * @any: the stream of stream_get_any()
 * @event: receives the event, with one reference
 *
 * Return: 0, or what the backend's event_create and event_record_all return.
 */
int stream_record_all(struct stream *any, struct event **event);

/**
 * stream_adopt() - make an event of a record that was made elsewhere
 * @stream: the stream
 * @handle: the driver's event, recorded; the new event owns it
 * @seq: its number among the stream's events
 *
 * Return: the event, with one reference.
 */
struct event *stream_adopt(struct stream *stream, struct backend_event *handle, uint64_t seq);

/**
 * event_renew() - have an event stand for a later record of its stream, instead of making one more
 * @event: the event; NULL: none
 * @handle: the driver's event of the later record; receives the one of the earlier record
 * @seq: its number among the stream's events
 * @put_off: that record is put off; the event does not take the place of one that was made
 *
 * With one stream no other waits for its events, so that some flushes can share one. It is not renewed any more once
 * somebody has asked whether it is complete: for a stream that is always busy it never would be.
 *
 * Return: whether it was renewed.
 */
bool event_renew(struct event *event, struct backend_event **handle, uint64_t seq, bool put_off);

/**
 * event_spare_handle() - take an unused event of the driver
 * @map: the map
 *
 * Return: the event, or NULL.
 */
struct backend_event *event_spare_handle(struct stream_map *map);

/**
 * event_drop_spares() - destroy the unused events
 * @map: the map
 */
void event_drop_spares(struct stream_map *map);

/**
 * stream_poll() - find out which events of a stream are complete
 * @stream: the stream
 *
 * Costs one query for each complete event, and one more, and a record if all that are pending were put off.
 *
 * Return: 0, or what the backend's event_query, event_record or stream_id returns.
 */
int stream_poll(struct stream *stream);

/**
 * stream_poll_busy() - find out which events of all streams are complete
 * @map: the map
 * @zombies: only of streams with zombies
 *
 * Return: 0, or what stream_poll() returns.
 */
int stream_poll_busy(struct stream_map *map, bool zombies);

/**
 * stream_sync_busy() - wait on the host until all pending events are complete
 * @map: the map
 *
 * Goes on with the other streams after an error.
 *
 * Return: 0, or the first error of the backend's event_sync.
 */
int stream_sync_busy(struct stream_map *map);

/**
 * stream_pass_busy() - note that all pending events are complete
 * @map: the map, whose device has completed all work since the latest of them was adopted
 *
 * A capture keeps a record that was put off from being made, so that the driver cannot be asked for each.
 */
void stream_pass_busy(struct stream_map *map);

/**
 * stream_poll_some() - poll the next few busy streams, round robin
 * @map: the map
 *
 * Return: 0, or what stream_poll() returns.
 */
int stream_poll_some(struct stream_map *map);

/**
 * event_join() - make one event of several
 * @map: the map
 * @events: two or more pending events of different streams, none of them joined; the array gets sorted
 *
 * It has passed when all of them have.
 *
 * Return: the event, with one reference.
 */
struct event *event_join(struct stream_map *map, GPtrArray *events);

/**
 * event_left() - what is left to wait for of an event
 * @event: the event
 *
 * Return: the last part of a joined event that is pending; NULL: all of its parts have passed; otherwise @event.
 */
struct event *event_left(struct event *event);

/**
 * event_stamp() - the latest point that a stream has to wait for
 * @event: the event; joined: each of its parts; NULL: none
 * @stream: the stream that would wait
 *
 * Return: the stamp of the latest event of another stream that is pending; 0: the stream does not have to wait.
 */
uint64_t event_stamp(const struct event *event, const struct stream *stream);

/**
 * event_covers() - whether an event has passed only if another has
 * @event: the event
 * @other: another of the same stream; or both are joined
 *
 * A joined event covers another only if they have the same streams: it is not to stand for one that needs fewer.
 */
bool event_covers(const struct event *event, const struct event *other);

/**
 * event_wait() - make a stream wait for an event, on the device
 * @event: the event; joined: for each part that is pending
 * @handle: a handle of the stream
 *
 * Return: 0, or what the backend's stream_wait returns.
 */
int event_wait(struct event *event, struct CUstream_st *handle);

/**
 * event_sync() - wait on the host for an event
 * @event: the event, which may have been destroyed afterwards
 *
 * Afterwards it and all earlier events of its streams have passed.
 *
 * Return: 0, or what the backend's event_sync returns.
 */
int event_sync(struct event *event);

/**
 * event_guard() - have an event call back for a region when it passes
 * @event: the event; nothing happens if it has passed
 * @link: linked into the event until then; its data goes to the callback of stream_map_init()
 */
static inline void event_guard(struct event *event, GList *link)
{
	if (!event->passed)
		circle_append(&event->guarded, link);
}

/**
 * event_unguard() - undo event_guard()
 * @event: the event; nothing happens if it has passed
 * @link: as given to event_guard()
 */
static inline void event_unguard(struct event *event, GList *link)
{
	if (!event->passed)
		circle_remove(link);
}

/**
 * event_pending() - whether an event is not known to be complete
 * @event: the event; NULL: no
 */
static inline bool event_pending(const struct event *event)
{
	return event && !event->passed;
}

/* The driver's event, for the backend to see that it is complete; NULL: there is none, or it was never recorded. */
static inline struct backend_event *event_recorded(const struct event *event)
{
	return event && !event->put_off ? event->handle : NULL;
}

/* The latest event of a stream that is not known to be complete; NULL: there is none. */
static inline struct event *stream_latest(const struct stream *stream)
{
	return stream->pending.tail ? stream->pending.tail->data : NULL;
}

/**
 * event_ref() - take a reference
 * @event: the event; NULL does nothing
 *
 * Return: @event.
 */
static inline struct event *event_ref(struct event *event)
{
	if (event)
		event->refs++;
	return event;
}

/**
 * event_end() - what event_unref() does with the last reference
 * @event: the event, gone afterwards
 */
void event_end(struct event *event);

/**
 * event_unref() - drop a reference; the last destroys the event
 * @event: the event; NULL does nothing
 */
static inline void event_unref(struct event *event)
{
	if (event && !--event->refs)
		event_end(event);
}

#endif /* STREAM_H */
