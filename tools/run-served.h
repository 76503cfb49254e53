/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vpmm-run --report: what libvpmm did for the program. */
#ifndef RUN_SERVED_H
#define RUN_SERVED_H

#include <stdio.h>
#include <sys/types.h>

#include "run-traces.h"

/**
 * struct served - a program that libvpmm served
 * @program: its name
 * @main: its process
 * @reports: what its processes have written, as VPMM_PRELOAD_REPORT says
 * @out: where to tell it
 */
struct served {
	const char *program;
	pid_t main;
	const struct traces *reports;
	FILE *out;
};

/**
 * served_tell() - print a table for each pool of each process
 *
 * Return: 0, or a negative errno value, where standard error has what is wrong: a report cannot be read.
 */
int served_tell(const struct served *served);

#endif /* RUN_SERVED_H */
