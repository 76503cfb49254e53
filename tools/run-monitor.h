/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vpmm-run --monitor: what the program asked of the driver, and what libvpmm would have taken for it. */
#ifndef RUN_MONITOR_H
#define RUN_MONITOR_H

#include <stdio.h>
#include <sys/types.h>

#include "run-traces.h"

/**
 * struct monitor - a monitored program
 * @program: its name
 * @main: its process
 * @traces: what its processes have written
 * @out: where to tell it
 */
struct monitor {
	const char *program;
	pid_t main;
	const struct traces *traces;
	FILE *out;
};

/**
 * monitor_check() - see whether there can be replays, with the settings of the environment
 *
 * Return: 0, or a negative errno value explained by fail_set().
 */
int monitor_check(void);

/**
 * monitor_tell() - replay the traces, and print a table for each process and device
 * @monitor: the program
 *
 * Processes that still run have a trace so far.
 *
 * Return: 0, or a negative errno value, where standard error has what is wrong:
 *	-EINTR interrupt_signal was set,
 *	another: a trace cannot be read or replayed; the tables of others are there.
 */
int monitor_tell(const struct monitor *monitor);

#endif /* RUN_MONITOR_H */
