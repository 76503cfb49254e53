// SPDX-License-Identifier: LGPL-2.1-or-later
#include "progress.h"

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "units.h"

#define PATIENCE_US G_USEC_PER_SEC
#define REFRESH_US (G_USEC_PER_SEC / 10)
#define BAR 28
#define HOUR_S 3600

void progress_begin(struct progress *p, const char *what)
{
	int64_t now_us = g_get_monotonic_time();

	*p = (struct progress){
		.terminal = isatty(STDERR_FILENO) == 1,
		.what = what,
		.begin_us = now_us,
		.next_us = now_us + PATIENCE_US,
	};
}

static void format_time_left(double seconds, char text[32])
{
	unsigned int s;

	if (seconds >= 100 * HOUR_S) {
		g_strlcpy(text, "more than 99 hours left", 32);
		return;
	}
	s = (unsigned int)(seconds + 0.5);
	if (s >= HOUR_S)
		g_snprintf(text, 32, "%u:%02u:%02u left", s / HOUR_S, s / 60 % 60, s % 60);
	else
		g_snprintf(text, 32, "%u:%02u left", s / 60, s % 60);
}

void progress_format(const struct progress *p, uint64_t done, uint64_t total, int64_t now_us,
		     char line[PROGRESS_LINE])
{
	static const char full[] = "############################";
	char left[32] = "";
	double part;

	if (!total) {
		g_snprintf(line, PROGRESS_LINE, "%-16.16s %" PRIu64, p->what, (uint64_t)done);
		return;
	}
	part = (double)MIN(done, total) / (double)total;
	if (done)
		format_time_left((double)(now_us - p->begin_us) / G_USEC_PER_SEC * (1 - part) / part, left);
	g_snprintf(line, PROGRESS_LINE, "%-16.16s [%-*.*s] %3d%%%s%s", p->what, BAR, (int)(part * BAR), full,
		   (int)(part * 100), done ? "  " : "", left);
}

void progress_show(struct progress *p, uint64_t done, uint64_t total)
{
	unsigned int columns, left;
	char line[PROGRESS_LINE];
	int64_t now_us;

	p->done = done;
	p->total = total;
	if (!p->terminal)
		return;
	now_us = g_get_monotonic_time();
	if (now_us < p->next_us)
		return;
	p->next_us = now_us + REFRESH_US;
	p->shown = true;
	progress_format(p, done, total, now_us, line);
	/* A carriage return leads to the beginning of the terminal's line, not to that of a longer one. */
	columns = units_terminal(STDERR_FILENO, NULL);
	fprintf(stderr, "\r%.*s\033[K", (int)units_fit(line, columns - 1, &left), line);
	fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}
