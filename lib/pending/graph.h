/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The holds and users of each graph, so that retiring a graph takes no search through those of other graphs. */
#ifndef GRAPH_H
#define GRAPH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "pending/tie.h"

struct group;
struct pending;

/**
 * struct graph - a graph, from its capture until it is retired, or gone
 * @blocker: what waits for it, and the id of its capture
 * @group: the captures that share memory with it, or it alone; NULL: its capture has allocated nothing yet
 * @turn: when it joined @group; larger is later
 * @watched: the backend will tell when it is gone
 * @gone: it has; the others of @group are not
 */
struct graph {
	struct blocker blocker;
	struct group *group;
	uint64_t turn;
	bool watched;
	bool gone;
};

/* The graph of a tie to one. */
static inline struct graph *graph_at(const GPtrArray *graphs, guint i)
{
	G_STATIC_ASSERT(!offsetof(struct graph, blocker));
	return (struct graph *)tie_at(graphs, i);
}

/**
 * graph_table_new() - a table of graphs
 *
 * Return: the table, of struct graph by id.
 */
GHashTable *graph_table_new(void);

/**
 * graph_find() - look a graph up
 * @pending: what the pool has pending
 * @id: the id of its capture
 *
 * Return: the graph; NULL: it has neither holds nor uses, and is in no group.
 */
struct graph *graph_find(const struct pending *pending, uint64_t id);

/**
 * graph_get() - look a graph up, or add it
 * @pending: what the pool has pending
 * @id: the id of its capture
 *
 * Return: the graph.
 */
struct graph *graph_get(struct pending *pending, uint64_t id);

/**
 * graph_forget() - remove a graph that was retired or is gone
 * @pending: what the pool has pending
 * @id: the id of its capture; its lists are empty, and it has left its group
 */
void graph_forget(struct pending *pending, uint64_t id);

#endif /* GRAPH_H */
