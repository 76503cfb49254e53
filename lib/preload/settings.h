/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the environment says to the preload object, with names of files. man/vpmm-preload.7 has the variables. */
#ifndef PRELOAD_SETTINGS_H
#define PRELOAD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct preload_settings {
	bool on;			/* VPMM_PRELOAD; false as well if another is wrong, or VPMM_BACKEND=host */
	bool free_ordered;		/* VPMM_PRELOAD_FREE */
	bool ipc_driver;		/* VPMM_PRELOAD_IPC */
	bool async_driver;		/* VPMM_PRELOAD_ASYNC */
	bool range_block;		/* VPMM_PRELOAD_RANGE */
	bool monitor;			/* VPMM_PRELOAD_MONITOR; false as well unless @on */
	bool pausable;			/* VPMM_PAUSABLE; false as well unless @on, and with @monitor */
	bool report;			/* VPMM_PRELOAD_REPORT is set */
	size_t min;			/* VPMM_PRELOAD_MIN, bytes */
	size_t max;			/* VPMM_PRELOAD_MAX, bytes */
};

/**
 * settings() - the settings
 *
 * The environment is read once. A bad value is reported on standard error, and turns everything off.
 *
 * Context: any thread.
 */
const struct preload_settings *settings(void);

/**
 * setting_value() - the value of a variable that names a file or has a size
 * @variable: its name
 *
 * Context: any thread.
 * Return: NULL if it is unset, empty or none, which is the default.
 */
const char *setting_value(const char *variable);

/**
 * file_open() - open the file that a variable of the environment names
 * @variable: %p in its value is the process id, %% a percent sign
 * @flag: O_APPEND or O_TRUNC
 * @line: a file that begins with this line is not opened, but one with a dot and a number behind its name; NULL: any is
 *
 * Says on standard error what went wrong. A file of another process may grow at the same time, if all append.
 *
 * Context: any thread.
 * Return: a stream that fails to write once the program has closed its descriptor, or the file may not grow any more;
 *	NULL if it cannot be opened.
 */
FILE *file_open(const char *variable, int flag, const char *line);

/**
 * file_close() - close such a file
 * @variable: as for file_open()
 * @file: the stream, of which no more than a buffer was not written yet
 *
 * Says on standard error if it could not be written.
 *
 * Context: any thread.
 */
void file_close(const char *variable, FILE *file);

#endif /* PRELOAD_SETTINGS_H */
