/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a pool has pending: memory that was freed, and that nobody may have yet; and who uses what besides. */
#ifndef PENDING_H
#define PENDING_H

#include <glib.h>
#include <stdint.h>

#include "core/core.h"

/**
 * struct pending - all of that, under the lock of the pool
 * @core: of the pool; never changes
 *
 * Deferred frees, see deferred-free.h:
 *
 * @holds: of struct hold, what was freed and waits for streams
 * @shared_holds: the same that several graphs have
 * @held_bytes: bytes of these holds, and of those that graphs have
 * @silent: ids of streams that are to be heard, to how many holds wait for each
 *
 * Users, see users.h and graph.h:
 *
 * @uses: address to struct use, allocations that other streams use too, or graphs
 * @shared_uses: of struct use, what several graphs use
 * @graphs: id of a capture to what its graph has
 *
 * Streams, see idle.h:
 *
 * @idle_looked: when there are more streams than this, those that are idle are looked for
 */
struct pending {
	struct core *core;
	GQueue holds;
	GQueue shared_holds;
	uint64_t held_bytes;
	GHashTable *silent;
	GHashTable *uses;
	GQueue shared_uses;
	GHashTable *graphs;
	guint idle_looked;
};

#endif /* PENDING_H */
