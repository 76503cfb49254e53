/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the pools that processes of this machine publish, and the budgets that they share: see util/top-page.h. And
 * prints parts of the text format of OpenMetrics.
 */
#ifndef TOP_SCAN_H
#define TOP_SCAN_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/**
 * top_print_family() - print what comes before the samples of a family
 * @name: without "vpmm_" and the unit
 * @unit: with which the name ends; NULL: none
 * @help: a sentence
 * @counter: whether it is a counter; otherwise it is a gauge
 */
void top_print_family(const char *name, const char *unit, const char *help, bool counter);

/* The value of a label, in quotes; what is no UTF-8 is replaced. */
void top_print_label(const char *text);

/* The number at an offset of a structure. */
uint64_t top_number(const void *structure, size_t offset);

#endif /* TOP_SCAN_H */
