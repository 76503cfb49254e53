// SPDX-License-Identifier: LGPL-2.1-or-later
/* The table of graphs. */
#include "pending/graph.h"
#include "pending/pending.h"
#include "util/address.h"

GHashTable *graph_table_new(void)
{
	return address_table_new(g_free);
}

struct graph *graph_find(const struct pending *pending, uint64_t id)
{
	lock_assert_held(&pending->core->lock);
	return g_hash_table_lookup(pending->graphs, &id);
}

struct graph *graph_get(struct pending *pending, uint64_t id)
{
	lock_assert_held(&pending->core->lock);
	return address_table_get(pending->graphs, id, sizeof(struct graph));
}

void graph_forget(struct pending *pending, uint64_t id)
{
	lock_assert_held(&pending->core->lock);
	g_hash_table_remove(pending->graphs, &id);
}
