/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A bar on the terminal for what takes longer than a second. Shows nothing where standard error is no terminal. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* How many steps a caller may leave between calls of progress_show(). */
#define PROGRESS_STRIDE 256

/* Room for what progress_format() writes. */
#define PROGRESS_LINE 120

struct progress {
	bool terminal;
	bool shown;
	const char *what;
	int64_t begin_us;
	int64_t next_us;
	uint64_t done;			/* of total, as told last */
	uint64_t total;
};

/**
 * progress_begin() - begin
 * @p: the bar
 * @what: what takes its time; valid until progress_end()
 */
void progress_begin(struct progress *p, const char *what);

/**
 * progress_show() - tell how far it has come
 * @p: the bar
 * @done: of @total
 * @total: 0: not known
 */
void progress_show(struct progress *p, uint64_t done, uint64_t total);

/**
 * progress_format() - what the terminal would show
 * @p: the bar
 * @done: of @total
 * @total: 0: not known
 * @now_us: on the clock of g_get_monotonic_time()
 * @line: receives the bar and the time that is left at this pace, in less than 80 columns
 */
void progress_format(const struct progress *p, uint64_t done, uint64_t total, int64_t now_us,
		     char line[PROGRESS_LINE]);

/**
 * progress_end() - take the bar away; progress_show() brings it back
 * @p: the bar
 */
void progress_end(struct progress *p);

#endif /* PROGRESS_H */
