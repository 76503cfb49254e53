/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of files in settings. */
#ifndef PRELOAD_FILE_H
#define PRELOAD_FILE_H

#include <stdio.h>

/**
 * file_open() - open the file that a variable of the environment names
 * @variable: %p in its value is the process id, %% a percent sign
 * @mode: as for fopen()
 * @line: a file that begins with this line is not opened, but one with a dot and a number behind its name; NULL: any is
 *
 * Says on standard error what went wrong.
 *
 * Context: any thread.
 * Return: NULL if it cannot be opened.
 */
FILE *file_open(const char *variable, const char *mode, const char *line);

#endif /* PRELOAD_FILE_H */
