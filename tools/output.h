/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file that an option names for what a tool makes. A regular file is there whole or stays as it was, as what is
 * written may be refused or interrupted before its end.
 *
 * What can fail returns 0, or a negative errno value.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdio.h>

/**
 * struct output - a file under way
 * @file: where to write
 * @name: the file that it becomes
 * @beside: its name until then; NULL: the file itself is written to, which cannot be replaced
 */
struct output {
	FILE *file;
	char *name;
	char *beside;
};

/**
 * output_begin() - open a file; what is there stays
 * @output: receives the file
 * @name: its name
 *
 * A device, a pipe, and a file that only its owner or its folder could replace are opened as they are, and emptied.
 */
int output_begin(struct output *output, const char *name);

/**
 * output_finish() - close the file, and put it in its place if all of it was written
 * @output: the file; it is closed then, whatever is returned. What failed while it was written is in errno, which has
 *          to be 0 before that
 */
int output_finish(struct output *output);

/**
 * output_drop() - close the file and remove it; what was there stays
 * @output: the file, or one of zeros
 */
void output_drop(struct output *output);

#endif /* OUTPUT_H */
