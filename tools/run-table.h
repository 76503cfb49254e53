/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lines of the tables of vpmm-run. */
#ifndef RUN_TABLE_H
#define RUN_TABLE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define TABLE_UNKNOWN UINT64_MAX

/**
 * struct table_process - whom a table is about
 * @program: the name of what vpmm-run has started
 * @main: the process that it has started; others are its descendants
 * @pid: the process; 0: not known
 * @device: the number of the device
 */
struct table_process {
	const char *program;
	pid_t main;
	pid_t pid;
	unsigned int device;
};

/**
 * table_begin() - the first line
 * @what: of the table
 */
void table_begin(FILE *out, const struct table_process *process, const char *what);

/**
 * table_count() - a number and what it means
 * @remark: may be empty
 */
void table_count(FILE *out, const char *label, uint64_t count, const char *remark, ...)
	__attribute__((format(printf, 4, 5)));

/**
 * table_memory_begin() - the heading of table_memory()
 */
void table_memory_begin(FILE *out);

/**
 * table_memory() - the most bytes there were at once
 * @bytes: TABLE_UNKNOWN: nobody knows
 * @requested: of which this many were requested; 0: no ratio is shown
 */
void table_memory(FILE *out, const char *label, uint64_t bytes, uint64_t requested);

#endif /* RUN_TABLE_H */
