/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A deferred free, or the users of a block, wait for graphs and streams. Each graph and each silent stream has a list of
 * what waits for it, and each that waits has ties: its places in these lists.
 */
#ifndef TIE_H
#define TIE_H

#include <glib.h>

/**
 * ties_new() - ties of something that waits for nothing yet
 *
 * Return: the ties, for g_ptr_array_free(). g_ptr_array_set_size() to 0 takes what has them out of all lists.
 */
GPtrArray *ties_new(void);

/**
 * tie_add() - put something into a list
 * @ties: its ties
 * @list: the list, which outlives the tie
 * @member: it
 */
void tie_add(GPtrArray *ties, GQueue *list, void *member);

/**
 * tie_members() - all in a list, for callers that take some out of it
 * @list: the list; NULL: an empty one
 *
 * Return: the members.
 */
GPtrArray *tie_members(const GQueue *list);

#endif /* TIE_H */
