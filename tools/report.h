/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a replay has to say: a table for people, or JSON for programs. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "choose.h"
#include "pool-settings.h"
#include "replay.h"

/**
 * struct report_run - what all passes have in common
 * @choice: the backend and what is there
 * @allocator: "vpmm", "async" or "malloc"
 * @settings: of the pool
 * @verify: whether patterns were looked at
 * @lag: whether work lasted
 * @lag_us: how many microseconds
 * @limit: how many bytes the device was left; 0: all
 */
struct report_run {
	const struct choice *choice;
	const char *allocator;
	struct pool_settings settings;
	bool verify;
	bool lag;
	uint64_t lag_us;
	uint64_t limit;
};

/**
 * struct report_row - one pass of one trace
 * @trace: the trace's name, as it was opened
 * @numbered: whether there is more than one pass
 * @result: the measurements
 */
struct report_row {
	char *trace;
	bool numbered;
	struct replay_result result;
};

/**
 * report_json() - one object on a line of its own
 */
void report_json(FILE *out, const struct report_run *run, const struct report_row *row);

/**
 * report_table() - a table with what its words mean
 * @rows: of all traces and passes
 * @n: how many
 */
void report_table(FILE *out, const struct report_run *run, const struct report_row *rows, size_t n);

#endif /* REPORT_H */
