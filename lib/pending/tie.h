/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A deferred free, or the users of a block, wait for blockers: graphs and silent streams. A blocker has lists of what
 * waits for it, and each that waits has ties: one for each of its blockers, and nothing else says which these are.
 */
#ifndef TIE_H
#define TIE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct group;
struct pending;

/**
 * struct blocker - a graph, or a silent stream
 * @id: of the graph's capture, or of the stream
 * @table: that of silent streams, which it leaves with its last hold; NULL: it is a graph
 * @holds: of struct hold: those that wait for it
 * @uses: of struct use: allocations that the graph uses
 */
struct blocker {
	uint64_t id;
	GHashTable *table;
	GQueue holds;
	GQueue uses;
};

/**
 * ties_new() - ties of something that waits for nothing yet
 *
 * Return: the ties, for g_ptr_array_free(). g_ptr_array_set_size() to 0 ends all of them.
 */
GPtrArray *ties_new(void);

/**
 * tie_add() - let something wait for a blocker, unless it does already
 * @ties: its ties
 * @blocker: the blocker, which outlives the tie
 * @list: one of the blocker's two
 * @member: it
 */
void tie_add(GPtrArray *ties, struct blocker *blocker, GQueue *list, void *member);

/**
 * tie_remove() - let something wait for a blocker no more
 * @ties: its ties, one of which is to that
 * @blocker: the blocker; a silent stream is gone afterwards if that was its last hold
 */
void tie_remove(GPtrArray *ties, const struct blocker *blocker);

/**
 * tie_at() - what something waits for
 * @ties: its ties
 * @i: which of them
 *
 * Return: the blocker.
 */
struct blocker *tie_at(const GPtrArray *ties, guint i);

/**
 * tie_is_to() - whether something waits for a blocker
 * @ties: its ties
 * @blocker: the blocker
 */
bool tie_is_to(const GPtrArray *ties, const struct blocker *blocker);

/**
 * tie_members() - all in a list, for callers that take some out of it
 * @list: the list; NULL: an empty one
 *
 * Return: the members.
 */
GPtrArray *tie_members(const GQueue *list);

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

#endif /* TIE_H */
