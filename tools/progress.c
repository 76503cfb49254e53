// SPDX-License-Identifier: LGPL-2.1-or-later
#include "progress.h"

#include <glib.h>
#include <stdio.h>
#include <unistd.h>

#define PATIENCE_US G_USEC_PER_SEC
#define REFRESH_US (G_USEC_PER_SEC / 10)
#define BAR 40

void progress_begin(struct progress *p, const char *what)
{
	*p = (struct progress){
		.terminal = isatty(STDERR_FILENO) == 1,
		.what = what,
		.next_us = g_get_monotonic_time() + PATIENCE_US,
	};
}

void progress_show(struct progress *p, uint64_t done, uint64_t total)
{
	static const char full[] = "########################################";
	int64_t now_us;
	double part;

	if (!p->terminal)
		return;
	now_us = g_get_monotonic_time();
	if (now_us < p->next_us)
		return;
	p->next_us = now_us + REFRESH_US;
	p->shown = true;
	if (total) {
		part = (double)MIN(done, total) / (double)total;
		fprintf(stderr, "\r%-24.24s [%-*.*s] %3d%%", p->what, BAR, (int)(part * BAR), full, (int)(part * 100));
	} else {
		fprintf(stderr, "\r%-24.24s %" G_GUINT64_FORMAT, p->what, (guint64)done);
	}
	fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}
