/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a pool has pending: deferred frees, and the users of blocks besides their own streams. */
#ifndef PENDING_H
#define PENDING_H

#include <glib.h>
#include <stdint.h>

#include "core/core.h"

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
 * Users, see users.h and graph.h:
 *
 * @uses: address to struct use: allocations with users besides their own streams
 * @graphs: id of a capture to struct graph
 * @groups: id of a group of captures to struct group, see group.h
 * @watches: the graphs that are gone, see watch.h
 *
 * Streams, see idle.h:
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
	guint idle_looked;
};

#endif /* PENDING_H */
