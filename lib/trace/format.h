/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Records as lines of text, in version 2 of vpmm-trace(5). */
#ifndef FORMAT_H
#define FORMAT_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/record.h"

/* No line is longer, with its newline. Each byte of a tag's name may take three. */
#define FORMAT_MOST 512

/**
 * struct format - what earlier lines have said
 * @start: nanoseconds; the time of a line counts from here
 * @us: the time of the last line
 * @streams: struct record's @stream to the number in the file + 1
 * @last: the stream of the line before, as @streams has it
 * @last_number: its number in the file + 1; 0: there is none
 */
struct format {
	uint64_t start;
	uint64_t us;
	GHashTable *streams;
	uint64_t last;
	guint last_number;
};

/**
 * format_head() - write the first line of a file
 * @text: receives it, up to FORMAT_MOST bytes, without a null byte
 *
 * Return: its length.
 */
size_t format_head(char *text);

/**
 * format_record() - write a record
 * @format: the state
 * @record: the record
 * @text: receives the line, up to FORMAT_MOST bytes, without a null byte
 *
 * Return: its length.
 */
size_t format_record(struct format *format, const struct record *record, char *text);

#endif /* FORMAT_H */
