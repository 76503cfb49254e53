/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A deferred free, and what it waits for. See deferred-free.h. */
#ifndef HOLD_H
#define HOLD_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/wait-set.h"
#include "pending/users.h"

struct CUstream_st;
struct pending;
struct region;
struct small;
struct stream;

/**
 * struct hold - a deferred free
 * @region: the region; NULL: it is @small
 * @small: the allocation of the driver's allocator; NULL: it is @region
 * @order: the events of those who used it, as far as they could be recorded
 * @ordered: whether a stream in @order freed it; false: that was under capture, and the first to retire a graph counts
 *	as the stream that freed it
 * @told: whether that stream is ordered after the earlier uses of the memory; otherwise the region gets stranded, see
 *	cache.h
 * @silent: its ties to silent streams that it waits for, see tie.h
 * @graphs: its ties to graphs that it waits for
 * @link: its place in the pool's list, while it is linked and waits for no graph
 * @maker: the id of the capture that it was allocated under; 0: none
 * @capture: the id of the capture that it was freed under; 0: none
 * @outside: it was freed under a capture, and work that was not captured may still be at it: each launch of the graph
 *	is behind that, and the stream that the graph is retired on, but a graph that is gone may never have been
 *	launched
 * @branch: the stream that freed it, if it had allocated it under the same capture, and no other stream has used it
 */
struct hold {
	struct region *region;
	struct small *small;
	struct order order;
	bool ordered;
	bool told;
	GPtrArray *silent;
	GPtrArray *graphs;
	GList link;
	uint64_t maker;
	uint64_t capture;
	bool outside;
	struct branch branch;
};

/**
 * hold_make() - a deferred free that waits for nothing yet
 * @region: the region; NULL: it is @small
 * @small: the allocation of the driver's allocator
 * @use: has the capture that it was allocated under; NULL: none
 *
 * Return: the hold, which is not linked yet.
 */
struct hold *hold_make(struct region *region, struct small *small, const struct use *use);

/**
 * hold_size() - the bytes that a hold keeps from being free
 * @hold: the hold
 *
 * Return: bytes.
 */
size_t hold_size(const struct hold *hold);

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
 * hold_new_any() - begin the free of an allocation behind all work of the context so far
 * @pending: what the pool has pending, its backend entered
 * @region: the region, after cache_take(); NULL: it is @small
 * @small: the allocation of the driver's allocator
 * @use: its users; NULL: none
 * @hold: receives the hold, which is not linked yet
 *
 * The host waits for the device where the driver cannot record all work, and while the pool has graphs, any of which
 * may still be being captured: to record would invalidate that.
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int hold_new_any(struct pending *pending, struct region *region, struct small *small, const struct use *use,
		 struct hold **hold);

/**
 * hold_new_later() - begin a free on the legacy default stream, beside a capture that keeps it from being recorded
 * @pending: what the pool has pending, its backend entered
 * @region: the region, after cache_take(); NULL: it is @small
 * @small: the allocation of the driver's allocator
 * @use: its users; NULL: none
 * @hold: receives the hold, which is not linked yet
 *
 * The stream counts as silent. It always exists, so any later call can record it, see hold_hear_legacy().
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int hold_new_later(struct pending *pending, struct region *region, struct small *small, const struct use *use,
		   struct hold **hold);

/**
 * hold_new_part() - begin the deferred free of a part of what is held
 * @hold: the hold, which waits for graphs only, and not any more for events
 * @region: the part, split off by live_split()
 *
 * Return: the hold, which is not linked yet; freed by the same stream and for the same graphs.
 */
struct hold *hold_new_part(const struct hold *hold, struct region *region);

/**
 * hold_await_graphs() - have a hold wait for graphs
 * @hold: the hold, not linked
 * @graphs: ties to the graphs
 */
void hold_await_graphs(struct hold *hold, const GPtrArray *graphs);

/**
 * hold_await_silent() - have a hold wait for a silent stream
 * @pending: what the pool has pending
 * @hold: the hold, not linked
 * @id: the id of the stream
 */
void hold_await_silent(struct pending *pending, struct hold *hold, uint64_t id);

/**
 * hold_delete() - destroy a hold
 * @hold: the hold, not linked
 */
void hold_delete(struct hold *hold);

/**
 * hold_record() - have a hold wait for what a stream has submitted so far
 * @hold: the hold, not linked
 * @stream: the stream
 * @handle: a handle of it
 *
 * Return: 0, or what the backend's event_create and event_record return.
 */
int hold_record(struct hold *hold, struct stream *stream, struct CUstream_st *handle);

#endif /* HOLD_H */
