/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs as trace files, so that other allocators can be measured with them. */
#ifndef SAVE_H
#define SAVE_H

#include "trace.h"

/**
 * save_trace() - write a trace file
 * @trace: the program
 * @folder: where; created if it does not exist
 *
 * The file is compressed by gzip, and named after the program: what is neither a letter, a digit nor "_" becomes "-".
 *
 * Return: 0, or a negative errno value, explained by fail_set(), which names the file.
 */
int save_trace(const struct trace *trace, const char *folder);

#endif /* SAVE_H */
