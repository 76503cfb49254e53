// SPDX-License-Identifier: LGPL-2.1-or-later
/* The places of what waits in the lists of what it waits for. */
#include "pending/tie.h"

struct tie {
	GList link;
	GQueue *list;
};

static void tie_end(gpointer data)
{
	struct tie *tie = data;

	g_queue_unlink(tie->list, &tie->link);
	g_free(tie);
}

GPtrArray *ties_new(void)
{
	return g_ptr_array_new_with_free_func(tie_end);
}

void tie_add(GPtrArray *ties, GQueue *list, void *member)
{
	struct tie *tie = g_new0(struct tie, 1);

	tie->link.data = member;
	tie->list = list;
	g_queue_push_tail_link(list, &tie->link);
	g_ptr_array_add(ties, tie);
}

GPtrArray *tie_members(const GQueue *list)
{
	GPtrArray *members = g_ptr_array_new();

	for (const GList *link = list ? list->head : NULL; link; link = link->next)
		g_ptr_array_add(members, link->data);
	return members;
}
