/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups of captures, whose graphs never run at the same time, and what they have freed for each other. A capture that
 * the program puts into none is a group of its own. All of it is under core.lock.
 */
#ifndef GROUP_H
#define GROUP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct graph;
struct hold;
struct pending;

/**
 * struct group - captures that share memory
 * @id: of it, as the program names it; 0: it is of one capture, and not in the table
 * @graphs: how many of its graphs are not retired; the last one takes the group along
 * @gone: how many of those are gone, see watch.h
 * @turns: how often a capture has joined it
 * @joined: of uint64_t: the ids of all captures that have ever joined it
 * @freed: of struct hold: what they have freed, by size and address
 */
struct group {
	uint64_t id;
	guint graphs;
	guint gone;
	uint64_t turns;
	GHashTable *joined;
	GTree *freed;
};

/**
 * group_table_new() - a table of groups
 *
 * Return: the table, of struct group by id.
 */
GHashTable *group_table_new(void);

/**
 * group_join() - add a capture to a group
 * @pending: what the pool has pending
 * @graph: its graph, in no group that the program has named
 * @id: of the group; 0: a group of its own
 */
void group_join(struct pending *pending, struct graph *graph, uint64_t id);

/**
 * group_is_named() - whether the program has put a graph into a group
 * @graph: the graph
 */
bool group_is_named(const struct graph *graph);

/**
 * group_leave() - a graph was retired, or is gone
 * @pending: what the pool has pending
 * @id: the id of its capture; no hold waits for it
 */
void group_leave(struct pending *pending, uint64_t id);

/**
 * group_add_hold() - offer what is freed to a group, if all graphs that have it are of that
 * @hold: the hold, linked
 */
void group_add_hold(struct hold *hold);

/**
 * group_remove_hold() - undo group_add_hold(), before the hold changes
 * @hold: the hold, offered to a group or not
 */
void group_remove_hold(struct hold *hold);

/**
 * group_clear() - free all groups
 * @pending: what the pool has pending: no holds, and graphs that are about to go
 */
void group_clear(struct pending *pending);

/**
 * group_check() - check the groups against the graphs and the holds
 * @pending: what the pool has pending
 *
 * Return: 0, or -EUCLEAN.
 */
int group_check(const struct pending *pending);

#endif /* GROUP_H */
