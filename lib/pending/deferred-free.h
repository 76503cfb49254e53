/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Deferred frees (holds): memory that the program has freed, but that other streams or graphs still use, see users.h.
 * For the region maps it is allocated.
 *
 * A hold waits for events in other streams, recorded when the memory was freed, and for graphs. Some streams could not
 * be recorded then: a per-thread stream is reachable from its own thread only, the stream was under capture, or the
 * driver failed. The hold waits until such a "silent" stream calls again, or until the device has completed all its
 * work.
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
 * struct hold - a deferred free
 * @region: the region; NULL: it is @small
 * @small: the allocation of the driver's allocator; NULL: it is @region
 * @stream: the stream that freed it; NULL: that stream was under capture
 * @event: the point in @stream
 * @told: whether @stream is ordered after the earlier uses of the memory; otherwise the region gets stranded, see
 *	cache.h
 * @events: of struct event: what it waits for in other streams
 * @silent: of uint64_t: the ids of silent streams that it waits for
 * @graphs: of uint64_t: the ids of the captures of graphs that it waits for
 * @handle: the handle of the stream that freed it under capture
 * @thread: the thread that freed it under capture
 * @link: its link in the pool's holds, or in a graph's
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
 * hold_silent_new() - make the table of silent streams
 *
 * Return: the table: the number of holds that wait, by stream id.
 */
GHashTable *hold_silent_new(void);

/**
 * hold_new() - begin a deferred free
 * @pending: what the pool has pending, its backend entered
 * @region: the region, after cache_take(); NULL: it is @small
 * @small: the allocation of the driver's allocator
 * @use: its users; NULL: none
 * @own: the id of the stream that frees it, which need not be waited for
 * @graph: the id of the capture that this stream is under; 0: none
 * @hold: receives the hold, which is not linked yet
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int hold_new(struct pending *pending, struct region *region, struct small *small, const struct use *use, uint64_t own,
	     uint64_t graph, struct hold **hold);

/**
 * hold_delete() - destroy a hold
 * @hold: the hold, not linked
 */
void hold_delete(struct hold *hold);

/**
 * hold_keep() - link a hold: the free has succeeded
 * @pending: what the pool has pending
 * @hold: the hold
 *
 * The hold takes over the users of the allocation.
 */
void hold_keep(struct pending *pending, struct hold *hold);

/**
 * hold_drop() - undo hold_keep(): the allocation is live again, without users
 * @pending: what the pool has pending
 * @hold: the hold
 */
void hold_drop(struct pending *pending, struct hold *hold);

/**
 * hold_unheard() - defer the free of an allocation until its stream is done with it, where no event can be recorded
 * now
 * @pending: what the pool has pending; its backend need not be entered
 * @region: the region, after cache_take(); only its stream and graphs use it
 *
 * The free takes effect once the stream has called again and completed its work, or once the device has completed all
 * its work. An allocation under capture waits for its graphs. This cannot fail.
 */
void hold_unheard(struct pending *pending, struct region *region);

/**
 * hold_free_behind() - order a stream that frees a region after the earlier uses of its memory
 * @pending: what the pool has pending
 * @region: the region, after cache_take()
 * @stream: the stream that frees it
 * @handle: a handle of it
 * @told: receives whether the stream is ordered after the earlier uses; false: no event covers them
 *
 * Return: 0, or what the backend's stream_wait returns.
 */
int hold_free_behind(struct pending *pending, struct region *region, const struct stream *stream,
		     struct CUstream_st *handle, bool *told);

/**
 * hold_poll() - end a few of the holds that have nothing to wait for any more, round robin
 * @pending: what the pool has pending, its backend entered
 * @handle: a handle of a stream that is not under capture; STREAM_NULL if @captured
 * @captured: there is no such handle; allocations of the driver's allocator stay
 */
void hold_poll(struct pending *pending, struct CUstream_st *handle, bool captured);

/**
 * hold_hear() - a stream has called: record it for the holds that wait for it as a silent stream
 * @pending: what the pool has pending
 * @stream: the stream
 * @handle: a handle of it
 */
void hold_hear(struct pending *pending, struct stream *stream, struct CUstream_st *handle);

/**
 * hold_meet() - end holds by waiting for their streams, so that a stream gets the memory
 * @pending: what the pool has pending
 * @stream: the stream
 * @handle: a handle of it
 * @block: wait on the host
 *
 * For when memory is short. Holds that wait for graphs or for silent streams stay.
 *
 * Return: 0, or an error of the backend.
 */
int hold_meet(struct pending *pending, struct stream *stream, struct CUstream_st *handle, bool block);

/**
 * hold_pending() - the bytes of the holds that wait for streams only
 * @pending: what the pool has pending
 *
 * Return: bytes.
 */
uint64_t hold_pending(const struct pending *pending);

/**
 * hold_synced() - the device has completed all work that was submitted before this call
 * @pending: what the pool has pending
 * @handle: as for hold_poll()
 * @captured: as for hold_poll()
 *
 * Ends the holds that wait for streams. Those that wait for graphs stay.
 */
void hold_synced(struct pending *pending, struct CUstream_st *handle, bool captured);

/**
 * hold_retire_graph() - a graph was destroyed: stop waiting for it
 * @pending: what the pool has pending
 * @graph: the id of its capture
 * @stream: a stream that is ordered after the graph's last launch
 * @handle: a handle of it
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int hold_retire_graph(struct pending *pending, uint64_t graph, struct stream *stream, struct CUstream_st *handle);

/**
 * hold_clear() - destroy all holds
 * @pending: what the pool has pending; the pool is being destroyed
 */
void hold_clear(struct pending *pending);

/**
 * hold_check() - check the invariants of holds
 * @pending: what the pool has pending
 *
 * Return: 0, or -EUCLEAN.
 */
int hold_check(struct pending *pending);

#endif /* DEFERRED_FREE_H */
