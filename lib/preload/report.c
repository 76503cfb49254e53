// SPDX-License-Identifier: LGPL-2.1-or-later
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/file.h"
#include "preload/library.h"
#include "preload/primary.h"
#include "preload/report.h"
#include "preload/settings.h"

/* As vpmm_pool_stats(3) has them. */
#define REPORTED(X) \
	X(mallocs) X(frees) X(reuses) X(steals) X(defrags) X(grows) X(waits) \
	X(peak_requested) X(peak_live) X(peak_taken) X(live) X(mapped) \
	X(creates) X(maps) X(accesses) X(unmaps) X(releases) X(driver_ns) X(grown) X(remapped) X(waits_sampled) X(wait_ns)

/* The process exits, and all has been reported; the program may release its contexts after that. */
static atomic_bool over;

/* Opened and closed for each line, which is written at once: several processes can have one file. */
void report_pool(int device)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	FILE *file;

	if (!settings()->report || over || LIBRARY(vpmm_pool_stats, NULL, &stats) || !stats.mallocs)
		return;
	file = file_open("VPMM_PRELOAD_REPORT", "ae", NULL);
	if (!file)
		return;
	fprintf(file, "{\"pid\": %ld, \"device\": %d", (long)getpid(), device);
#define X(name) fprintf(file, ", \"" #name "\": %" PRIu64, stats.name);
	REPORTED(X)
#undef X
	fputs("}\n", file);
	fclose(file);
}

static void report_all(void)
{
	int device;

	for (device = 0; device < DEVICES_KNOWN && library_used(); device++) {
		if (!primary_retains(device) || primary_push(device))
			continue;
		report_pool(device);
		primary_pop();
	}
	over = true;
}

static void register_once(void)
{
	atexit(report_all);
}

void report_at_exit(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (settings()->report)
		pthread_once(&once, register_once);
}
