/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Traces of others, as tables of comma-separated values, and what else a file can be that is no trace.
 *
 * A log of RMM's logging_resource_adaptor has a line for each call. A problem of google/minimalloc has a line for each
 * buffer, with the times at which it begins and ends, in any order.
 */
#ifndef TRACE_CSV_H
#define TRACE_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "trace-record.h"

struct trace_csv;

/**
 * trace_csv_begin() - look whether the first line is the header of such a table
 * @place: the first line; receives that it is a trace
 * @line: the line
 * @csv: receives the table, for trace_csv_free(); NULL: it is none
 *
 * Return: 0, or -EBADMSG, explained by fail_set(): it is another table.
 */
int trace_csv_begin(struct trace_place *place, const char *line, struct trace_csv **csv);

/**
 * trace_csv_add() - read a line
 * @csv: the table
 * @place: which line it is
 * @line: the line, which is taken apart
 *
 * Return: 0, or -EBADMSG, explained by fail_set().
 */
int trace_csv_add(struct trace_csv *csv, const struct trace_place *place, char *line);

/**
 * trace_csv_end() - no line follows
 * @csv: the table
 */
void trace_csv_end(struct trace_csv *csv);

/**
 * trace_csv_next() - take the next record, in their order
 * @csv: the table
 * @place: receives the number of the line that it comes from
 * @record: receives the record
 *
 * Return: whether there is one. Those of a problem of minimalloc come after trace_csv_end().
 */
bool trace_csv_next(struct trace_csv *csv, struct trace_place *place, struct trace_record *record);

/**
 * trace_csv_free() - free a table
 * @csv: the table; NULL does nothing
 */
void trace_csv_free(struct trace_csv *csv);

/**
 * trace_strange() - what a file is that is no text
 * @start: how it begins
 * @length: of that
 *
 * Return: a sentence, without its end; NULL: it may be a trace.
 */
const char *trace_strange(const char *start, size_t length);

#endif /* TRACE_CSV_H */
