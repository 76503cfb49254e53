/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tables that vpmm-run prints of a program with --monitor and with --report. */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "run-traces.h"

#define TABLE_UNKNOWN UINT64_MAX

/**
 * struct run_report - a program to tell of
 * @program: its name
 * @main: the process that vpmm-run has started; others are its descendants
 * @files: what its processes have written: traces, or reports as VPMM_PRELOAD_REPORT says
 * @out: where to tell it
 */
struct run_report {
	const char *program;
	pid_t main;
	const struct traces *files;
	FILE *out;
};

/**
 * monitor_check() - see whether there can be replays, with the settings of the environment
 *
 * Return: 0, or a negative errno value explained by fail_set().
 */
int monitor_check(void);

/**
 * monitor_tell() - replay the traces, and print for each process and device what it asked of the driver, and what
 *	libvpmm would have taken for it
 * @report: the program
 *
 * Processes that still run have a trace so far.
 *
 * Return: 0, or a negative errno value, where standard error has what is wrong:
 *	-EINTR interrupt_signal was set,
 *	another: a trace cannot be read or replayed; the tables of others are there.
 */
int monitor_tell(const struct run_report *report);

/**
 * served_tell() - print for each pool of each process what libvpmm did for it
 * @report: the program
 *
 * Return: 0, or a negative errno value, where standard error has what is wrong: a report cannot be read.
 */
int served_tell(const struct run_report *report);

/**
 * table_begin() - the first line of a table
 * @report: the program
 * @pid: the process; 0: not known
 * @device: the number of the device
 * @what: of the table
 */
void table_begin(const struct run_report *report, pid_t pid, unsigned int device, const char *what);

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

#endif /* RUN_REPORT_H */
