// SPDX-License-Identifier: LGPL-2.1-or-later
/* Groups of captures, and what they have freed. */
#include <errno.h>

#include "pending/deferred-free.h"
#include "pending/group.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "util/address.h"
#include "util/error.h"

static void group_delete(gpointer data)
{
	struct group *group = data;

	g_tree_destroy(group->freed);
	g_hash_table_destroy(group->joined);
	g_free(group);
}

GHashTable *group_table_new(void)
{
	return address_table_new(group_delete);
}

static int compare_held(gconstpointer a, gconstpointer b)
{
	const struct region *x = ((const struct hold *)a)->region, *y = ((const struct hold *)b)->region;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static struct group *group_get(struct pending *pending, uint64_t id)
{
	struct group *group = id ? address_table_get(pending->groups, id, sizeof(*group)) : g_new0(struct group, 1);

	if (group->freed)
		return group;
	group->freed = g_tree_new(compare_held);
	group->joined = address_table_new(g_free);
	return group;
}

bool group_is_named(const struct graph *graph)
{
	return graph->group && graph->group->id;
}

/* The last graph takes its group along. */
static void leave_group(struct pending *pending, struct graph *graph)
{
	struct group *group = graph->group;

	if (!group)
		return;
	graph->group = NULL;
	group->gone -= graph->gone;
	if (--group->graphs)
		return;
	if (group->id)
		g_hash_table_remove(pending->groups, &group->id);
	else
		group_delete(group);
}

void group_join(struct pending *pending, struct graph *graph, uint64_t id)
{
	const GQueue *holds = &graph->blocker.holds;

	lock_assert_held(&pending->core->lock);
	for (const GList *link = holds->head; link; link = link->next)
		group_remove_hold(link->data);
	leave_group(pending, graph);
	graph->group = group_get(pending, id);
	graph->group->graphs++;
	graph->group->gone += graph->gone;
	g_hash_table_add(graph->group->joined, g_memdup2(&graph->blocker.id, sizeof(graph->blocker.id)));
	graph->turn = ++graph->group->turns;
	for (const GList *link = holds->head; link; link = link->next)
		group_add_hold(link->data);
}

void group_leave(struct pending *pending, uint64_t id)
{
	struct graph *graph = graph_find(pending, id);

	lock_assert_held(&pending->core->lock);
	if (graph)
		leave_group(pending, graph);
}

void group_clear(struct pending *pending)
{
	GHashTableIter iter;
	gpointer graph;

	g_hash_table_iter_init(&iter, pending->graphs);
	while (g_hash_table_iter_next(&iter, NULL, &graph))
		leave_group(pending, graph);
	g_hash_table_destroy(pending->groups);
}

/* The group that all graphs of a hold are in; NULL: there is no such group. */
static struct group *group_of(const struct hold *hold)
{
	struct group *group = NULL;

	for (guint i = 0; i < hold->graphs->len; i++) {
		const struct graph *graph = graph_at(hold->graphs, i);

		if (!graph->group || (group && graph->group != group))
			return NULL;
		group = graph->group;
	}
	return group;
}

void group_add_hold(struct hold *hold)
{
	struct group *group = group_of(hold);

	/* Memory from before a capture is as the program left it there, and its stream may be at work on it yet. */
	if (!hold->region || !group || !g_hash_table_contains(group->joined, &hold->maker))
		return;
	g_tree_insert(group->freed, hold, hold);
}

void group_remove_hold(struct hold *hold)
{
	struct group *group = group_of(hold);

	if (group && hold->region)
		g_tree_remove(group->freed, hold);
}

struct freed_check {
	const struct group *group;
	bool good;
};

/* Stops at the first that is wrong. */
static gboolean check_freed(gpointer key, gpointer value, gpointer data)
{
	const struct hold *hold = value;
	struct freed_check *check = data;

	(void)key;
	check->good = group_of(hold) == check->group && hold->region->held;
	return !check->good;
}

static bool is_group_good(const struct group *group)
{
	struct freed_check check = { .group = group, .good = true };

	g_tree_foreach(group->freed, check_freed, &check);
	return check.good;
}

int group_check(const struct pending *pending)
{
	GHashTableIter iter;
	gpointer value;
	guint graphs = 0;
	bool good = true;

	lock_assert_held(&pending->core->lock);
	g_hash_table_iter_init(&iter, pending->graphs);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct graph *graph = value;

		graphs += group_is_named(graph);
		good = good && (!graph->group || graph->group->id || is_group_good(graph->group));
	}
	g_hash_table_iter_init(&iter, pending->groups);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		graphs -= ((struct group *)value)->graphs;
		good = good && is_group_good(value);
	}
	if (!good)
		return error_set(-EUCLEAN, "a group of captures has what was not freed, or is another group's");
	return graphs ? error_set(-EUCLEAN, "groups do not have as many graphs as are in groups") : 0;
}
