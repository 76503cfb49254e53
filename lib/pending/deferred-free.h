/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The free of memory that others use too, see users.h. An event is recorded on each stream that uses it, and it becomes
 * free behind all of them.
 *
 * A free is deferred ("held") where no event can be recorded now. For the region maps the memory stays allocated. It
 * waits for graphs to be retired, and for "silent" streams: a per-thread stream is reachable from its own thread only,
 * and the stream may be under capture or be gone. The free then waits until the silent stream calls again, or until the
 * device has completed all its work. What the driver's allocator serves has no events of its own, so its free is
 * deferred until the host sees the others' complete.
 */
#ifndef DEFERRED_FREE_H
#define DEFERRED_FREE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "pending/hold.h"

struct CUstream_st;
struct region;
struct stream;
struct pending;

/**
 * hold_keep() - the free has succeeded: make the memory free, or keep it as long as events do not tell when it is
 * @pending: what the pool has pending
 * @hold: the hold, which may be gone afterwards
 *
 * The allocation has no users any more.
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
 * hold_aside() - defer the free of an allocation of the driver's allocator, or of a shareable one, until the device has
 * completed all its work
 * @pending: what the pool has pending; its backend need not be entered
 * @small: the allocation, which no program has
 *
 * This cannot fail.
 */
void hold_aside(struct pending *pending, struct small *small);

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
 * hold_poll() - free a few held allocations of the driver's allocator whose events are complete, round robin
 * @pending: what the pool has pending, its backend entered
 * @handle: a handle of a stream that is not under capture; STREAM_NULL if @captured
 * @captured: there is no such handle, so they stay
 */
void hold_poll(struct pending *pending, struct CUstream_st *handle, bool captured);

/**
 * hold_poll_shareable() - free all held shareable blocks whose events are complete
 * @pending: what the pool has pending, its backend entered
 */
void hold_poll_shareable(struct pending *pending);

/**
 * hold_hear() - a stream has called: record it for the holds that wait for it as a silent stream
 * @pending: what the pool has pending
 * @stream: the stream
 * @handle: a handle of it
 *
 * Return: 0, or a negative errno value if it cannot be recorded; the holds wait for it as before.
 */
int hold_hear(struct pending *pending, struct stream *stream, struct CUstream_st *handle);

/**
 * hold_hear_legacy() - record the legacy default stream for the holds that wait for it, unless a capture still is in
 * the way
 * @pending: what the pool has pending, its backend entered
 */
void hold_hear_legacy(struct pending *pending);

/**
 * hold_pending() - the bytes of device memory that the pool could have after a wait for the whole device ended holds
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
 * hold_end_graph() - a graph is gone, and its launches are complete: stop waiting for it
 * @pending: what the pool has pending, its backend entered
 * @graph: the id of its capture
 *
 * What the driver's allocator serves is freed by a later hold_poll().
 */
void hold_end_graph(struct pending *pending, uint64_t graph);

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
