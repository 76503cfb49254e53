/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pending work of a pool: deferred frees, and the users of blocks besides their own streams. Also the end of streams
 * that nothing refers to any more.
 */
#ifndef PENDING_H
#define PENDING_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct core;
struct pending;
struct stream;
struct watches;

/**
 * struct pending - all of that, under core.lock
 * @core: the pool's core; never changes
 *
 * Deferred frees, see deferred-free.h:
 *
 * @holds: of struct hold: those that wait for streams only
 * @held_bytes: bytes of all holds, including those in @graphs
 * @silent: silent streams by id, of struct blocker: those that holds wait for
 *
 * Users, see users.h and tie.h:
 *
 * @uses: address to struct use: allocations with users besides their own streams
 * @graphs: id of a capture to struct graph
 * @groups: id of a group of captures to struct group, see group.h
 * @watches: the graphs that are gone, see watch.h
 * @awaited: when a wait for such graphs was last in vain, by clock_ns()
 *
 * Streams:
 *
 * @idle_looked: when there are more streams than this, look for idle ones again
 */
struct pending {
	struct core *core;
	GQueue holds;
	uint64_t held_bytes;
	GHashTable *silent;
	GHashTable *uses;
	GHashTable *graphs;
	GHashTable *groups;
	struct watches *watches;
	uint64_t awaited;
	guint idle_looked;
};

/**
 * pending_init() - set up, with nothing pending
 * @pending: the structure, all 0
 * @core: the pool's core
 */
void pending_init(struct pending *pending, struct core *core);

/**
 * pending_clear() - free everything, when the pool is destroyed
 * @pending: what the pool has pending
 */
void pending_clear(struct pending *pending);

/**
 * pending_collect() - free what has waited for work and graphs that have ended, before a trim
 * @pending: what the pool has pending, its backend entered
 *
 * It includes shareable blocks, as they can serve nothing else. A pool at rest keeps all.
 */
void pending_collect(struct pending *pending);

/**
 * pending_await_device() - wait until all earlier frees are complete, then end deferred frees and flush all caches
 * @pending: what the pool has pending, its backend entered
 * @gone: wait for a moment for the backend to report graphs that are gone, as watch_await() does
 *
 * Deferred frees that wait for graphs stay, unless these are gone.
 *
 * Return: 0, or an error of cache_await_device().
 */
int pending_await_device(struct pending *pending, bool gone);

/**
 * idle_forget() - forget a stream, unless something refers to it
 * @pending: what the pool has pending
 * @stream: the stream, which may be gone afterwards
 */
void idle_forget(struct pending *pending, struct stream *stream);

/**
 * idle_forget_streams() - forget all idle streams, if many streams were met since the last time
 * @pending: what the pool has pending, its backend entered
 * @stream: a stream that stays
 *
 * An idle stream and one that was destroyed without notice look alike. A stream that calls again is met as a new one.
 */
void idle_forget_streams(struct pending *pending, const struct stream *stream);

#endif /* PENDING_H */
