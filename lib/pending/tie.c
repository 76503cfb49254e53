// SPDX-License-Identifier: LGPL-2.1-or-later
/* The places of what waits in the lists of what it waits for. */
#include "pending/pending.h"
#include "pending/tie.h"
#include "util/address.h"

struct tie {
	GList link;
	GQueue *list;
	struct blocker *blocker;
};

static void tie_end(gpointer data)
{
	struct tie *tie = data;

	g_queue_unlink(tie->list, &tie->link);
	if (tie->blocker->table && !tie->list->length)
		g_hash_table_remove(tie->blocker->table, &tie->blocker->id);
	g_free(tie);
}

GPtrArray *ties_new(void)
{
	return g_ptr_array_new_with_free_func(tie_end);
}

struct blocker *tie_at(const GPtrArray *ties, guint i)
{
	return ((const struct tie *)ties->pdata[i])->blocker;
}

/* The index of the tie to a blocker; the number of ties: there is none. */
static guint index_of(const GPtrArray *ties, const struct blocker *blocker)
{
	guint i = 0;

	while (i < ties->len && tie_at(ties, i) != blocker)
		i++;
	return i;
}

bool tie_is_to(const GPtrArray *ties, const struct blocker *blocker)
{
	return index_of(ties, blocker) < ties->len;
}

void tie_add(GPtrArray *ties, struct blocker *blocker, GQueue *list, void *member)
{
	struct tie *tie;

	if (tie_is_to(ties, blocker))
		return;
	tie = g_new0(struct tie, 1);
	tie->link.data = member;
	tie->list = list;
	tie->blocker = blocker;
	g_queue_push_tail_link(list, &tie->link);
	g_ptr_array_add(ties, tie);
}

void tie_remove(GPtrArray *ties, const struct blocker *blocker)
{
	g_ptr_array_remove_index(ties, index_of(ties, blocker));
}

GPtrArray *tie_members(const GQueue *list)
{
	GPtrArray *members = g_ptr_array_new();

	for (const GList *link = list ? list->head : NULL; link; link = link->next)
		g_ptr_array_add(members, link->data);
	return members;
}

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
