/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the pools that processes of this machine publish, and the budgets that they share: see util/top-page.h. */
#ifndef TOP_SCAN_H
#define TOP_SCAN_H

#include <glib.h>
#include <sys/types.h>

#include "util/top-page.h"

/**
 * struct top_row - a pool
 * @pid: of its process
 * @command: of that
 * @updated_ns: when it was published, by CLOCK_MONOTONIC
 * @pool: what it has
 */
struct top_row {
	pid_t pid;
	char command[32];
	uint64_t updated_ns;
	struct top_pool pool;
};

/**
 * struct top_process - a process
 * @pid: its number
 * @inner: its own number, which is another one in a container; 0: it is gone
 * @space: the inode of its namespace of processes; 0: not to be had
 * @command: its name
 */
struct top_process {
	pid_t pid;
	uint32_t inner;
	uint64_t space;
	char command[32];
};

/**
 * top_scan() - look at all processes
 * @budgets: of top_budgets_new(), receives the budgets that they have part of
 *
 * Processes of other users are left out, unless this one may look at them.
 *
 * Return: of struct top_row, in order of processes, for g_array_unref().
 */
GArray *top_scan(GArray *budgets);

#endif /* TOP_SCAN_H */
