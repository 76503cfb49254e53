/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What each graph has, so that it is found when the graph goes, however many others there are. Few allocations are of
 * more than one graph; they are kept apart, and each graph that goes looks through them.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <glib.h>
#include <stdint.h>

struct pending;

/**
 * struct graph - a graph, from its capture until it is retired
 * @id: of the capture
 * @freed: what capture.c hands out again under the capture; NULL: nothing was freed yet
 * @holds: of struct hold, what is kept for this graph, and for no other
 * @uses: of struct use, what this graph uses, and no other does
 */
struct graph {
	uint64_t id;
	GTree *freed;
	GQueue holds;
	GQueue uses;
};

/**
 * graph_table_new() - a table of graphs
 *
 * Return: the table, of struct graph by id.
 */
GHashTable *graph_table_new(void);

/**
 * graph_find() - what a graph has
 * @pending: what the pool has pending
 * @id: of its capture
 *
 * Return: the graph; NULL: it has nothing.
 */
struct graph *graph_find(const struct pending *pending, uint64_t id);

/**
 * graph_get() - the same of one that is about to have something
 * @pending: what the pool has pending
 * @id: of its capture
 *
 * Return: the graph.
 */
struct graph *graph_get(struct pending *pending, uint64_t id);

/**
 * graph_forget() - a graph has been retired
 * @pending: what the pool has pending
 * @id: of its capture; nothing is of it alone any more
 */
void graph_forget(struct pending *pending, uint64_t id);

#endif /* GRAPH_H */
