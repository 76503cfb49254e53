/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What VPMM_OVERLAP buys for a trace: its time and its memory with several, by the clock of the host backend. */
#ifndef OVERLAP_ROWS_H
#define OVERLAP_ROWS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "choose.h"
#include "trace.h"

/**
 * struct overlap_row - a replay with one VPMM_OVERLAP
 * @name: the setting
 * @clock_s: seconds until all work was done
 * @stood_s: seconds that streams stood because of the pool, all together, as far as the measured waits tell
 * @waits: how often one did
 * @errors: calls that failed
 * @peak_live: the most bytes that the program had
 * @peak_taken: the most that the pool took
 */
struct overlap_row {
	const char *name;
	double clock_s;
	double stood_s;
	uint64_t waits;
	uint64_t errors;
	uint64_t peak_live;
	uint64_t peak_taken;
};

/**
 * struct overlap_rows - the replays of a trace
 * @trace: the trace
 * @choice: the host backend, and the settings other than VPMM_OVERLAP
 * @ns_per_byte: that work on an allocation takes
 * @rows: of struct overlap_row, that with the least memory first and VPMM_OVERLAP=auto last
 */
struct overlap_rows {
	const struct trace *trace;
	const struct choice *choice;
	double ns_per_byte;
	GArray *rows;
};

/**
 * overlap_rows_run() - replay a trace with several VPMM_OVERLAP, on a device that does two pieces of work at once
 * @rows: @trace and @choice are set; receives the rest
 * @passes: of the trace in each replay, of which the last counts
 *
 * Context: overlap_rows_clear() is due whether it fails or not.
 * Return: 0, or a negative errno value, explained by fail_set().
 */
int overlap_rows_run(struct overlap_rows *rows, unsigned int passes);

/**
 * overlap_rows_table() - print them for people, with the setting that they speak for
 * @rows: the rows
 * @out: where to
 */
void overlap_rows_table(const struct overlap_rows *rows, FILE *out);

/**
 * overlap_rows_json() - print an object for each
 * @rows: the rows
 * @out: where to
 */
void overlap_rows_json(const struct overlap_rows *rows, FILE *out);

/**
 * overlap_rows_failed() - whether a call failed in any of them
 * @rows: the rows
 */
bool overlap_rows_failed(const struct overlap_rows *rows);

/**
 * overlap_rows_clear() - free what they have
 * @rows: the rows
 */
void overlap_rows_clear(struct overlap_rows *rows);

#endif /* OVERLAP_ROWS_H */
