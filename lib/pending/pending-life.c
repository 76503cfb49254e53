// SPDX-License-Identifier: LGPL-2.1-or-later
/* The life of what a pool has pending. */
#include "pending/deferred-free.h"
#include "pending/graph.h"
#include "pending/group.h"
#include "pending/pending-life.h"
#include "pending/pending.h"
#include "pending/users.h"
#include "pending/watch.h"
#include "util/address.h"

void pending_init(struct pending *pending, struct core *core)
{
	pending->core = core;
	pending->uses = use_table_new();
	pending->graphs = graph_table_new();
	pending->groups = group_table_new();
	pending->watches = watches_new();
	pending->silent = address_table_new(g_free);
	g_queue_init(&pending->holds);
}

void pending_clear(struct pending *pending)
{
	hold_clear(pending);
	/* They are in the lists of graphs. */
	g_hash_table_destroy(pending->uses);
	g_hash_table_destroy(pending->silent);
	group_clear(pending);
	g_hash_table_destroy(pending->graphs);
	watches_drop(pending->watches);
}
