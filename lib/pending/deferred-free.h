/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that the program has freed, and that nobody may have yet: because of its users, see users.h. For the maps it is
 * allocated.
 *
 * A hold waits for the points at which other streams were when it was freed; for streams whose point could not be
 * marked then, as only the thread that a stream belongs to can, or as it was under capture, or as the driver failed:
 * those are heard when they call next, or once the device has done all its work; and for graphs.
 */
#ifndef DEFERRED_FREE_H
#define DEFERRED_FREE_H

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct event;
struct region;
struct small;
struct stream;
struct use;
struct pending;

/**
 * struct hold - an allocation that was freed, and is kept
 * @region: the region; NULL: the driver's allocator has served it
 * @small: otherwise: what it has served
 * @stream: the stream that has freed it; NULL: one under capture has
 * @event: the point in the stream
 * @told: whether the stream is behind those who had it before; otherwise it is to be stranded, see cache.h
 * @events: of struct event: the points in other streams
 * @silent: of uint64_t: the ids of streams that are to be heard
 * @graphs: of uint64_t: the ids of captures
 * @handle: the handle of the stream under capture that has freed it
 * @thread: which thread that was in
 * @link: links it into the pool's holds
 */
struct hold {
	struct region *region;
	struct small *small;
	struct stream *stream;
	struct event *event;
	bool told;
	GPtrArray *events;
	GArray *silent;
	GArray *graphs;
	struct CUstream_st *handle;
	pthread_t thread;
	GList link;
};

/**
 * hold_silent_new() - a table of streams that are to be heard
 *
 * Return: the table, of counts by id.
 */
GHashTable *hold_silent_new(void);

/**
 * hold_new() - free an allocation that has users
 * @pending: what the pool has pending, its backend entered
 * @region: the region, taken by cache_take(); NULL: it is @small
 * @small: what the driver's allocator has served
 * @use: its users; NULL: there are none
 * @own: the id of the stream that frees it, which is asked by the caller
 * @graph: of the capture that this stream is under; 0: none
 * @hold: receives the hold; the pool does not know it yet
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int hold_new(struct pending *pending, struct region *region, struct small *small, const struct use *use, uint64_t own,
	     uint64_t graph, struct hold **hold);

/**
 * hold_delete() - forget a hold
 * @hold: the hold, not the pool's (any more)
 */
void hold_delete(struct hold *hold);

/**
 * hold_keep() - let the pool have it
 * @pending: what the pool has pending
 * @hold: the hold
 *
 * The allocation has no users any more: the hold has them.
 */
void hold_keep(struct pending *pending, struct hold *hold);

/**
 * hold_drop() - undo hold_keep(): it is allocated again
 * @pending: what the pool has pending
 * @hold: the hold
 */
void hold_drop(struct pending *pending, struct hold *hold);

/**
 * hold_unheard() - free an allocation that its stream may have work pending on, where that cannot be marked now
 * @pending: what the pool has pending; its backend need not be entered
 * @region: the region, taken by cache_take(); only its stream and graphs use it
 *
 * It is kept until the stream calls again and is past that work, or until the device has done all its work. What was
 * allocated under capture is kept until its graphs are gone. That cannot fail.
 */
void hold_unheard(struct pending *pending, struct region *region);

/**
 * hold_free_behind() - where the memory is free for its stream, and where the stream is then
 * @pending: what the pool has pending
 * @region: the region, taken
 * @stream: a stream that frees it
 * @handle: a handle of it
 * @told: receives whether the stream is behind all who had it before
 *
 * Return: 0, or what the backend's stream_wait returns.
 */
int hold_free_behind(struct pending *pending, struct region *region, const struct stream *stream,
		     struct CUstream_st *handle, bool *told);

/**
 * hold_poll() - let go of what nobody waits for any more, of a few holds, each in its turn
 * @pending: what the pool has pending, its backend entered
 * @handle: a handle of a stream that is not under capture; STREAM_NULL with @captured
 * @captured: there is no such handle, and what the driver has served stays
 */
void hold_poll(struct pending *pending, struct CUstream_st *handle, bool captured);

/**
 * hold_hear() - a stream has called: mark its point where it is waited for
 * @pending: what the pool has pending
 * @stream: the stream
 * @handle: a handle of it
 */
void hold_hear(struct pending *pending, struct stream *stream, struct CUstream_st *handle);

/**
 * hold_meet() - let a stream have what is held for other streams, by coming after those
 * @pending: what the pool has pending
 * @stream: the stream
 * @handle: a handle of it
 * @block: wait on the host
 *
 * For when memory is short. What graphs have, and what waits for streams that are to be heard, stays.
 *
 * Return: 0, or an error of the backend.
 */
int hold_meet(struct pending *pending, struct stream *stream, struct CUstream_st *handle, bool block);

/**
 * hold_pending() - how much is held for streams alone
 * @pending: what the pool has pending
 *
 * Return: bytes.
 */
uint64_t hold_pending(const struct pending *pending);

/**
 * hold_synced() - all work that was submitted before now has completed
 * @pending: what the pool has pending
 * @handle: as hold_poll()
 * @captured: likewise
 *
 * What is held for streams is let go of; what graphs have stays.
 */
void hold_synced(struct pending *pending, struct CUstream_st *handle, bool captured);

/**
 * hold_retire_graph() - a graph is gone
 * @pending: what the pool has pending
 * @graph: the id of its capture
 * @stream: a stream behind its last launch
 * @handle: a handle of it
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int hold_retire_graph(struct pending *pending, uint64_t graph, struct stream *stream, struct CUstream_st *handle);

/**
 * hold_clear() - forget all holds
 * @pending: what the pool has pending, which goes
 */
void hold_clear(struct pending *pending);

/**
 * hold_check() - hold the holds against the regions
 * @pending: what the pool has pending
 *
 * Return: 0, or -EUCLEAN.
 */
int hold_check(struct pending *pending);

#endif /* DEFERRED_FREE_H */
