// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "run-monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "choose.h"
#include "device.h"
#include "fail.h"
#include "interrupt.h"
#include "progress.h"
#include "replay.h"
#include "run-table.h"
#include "run-use.h"
#include "trace.h"
#include "units.h"

/* What the host backend's device has at least, and in relation to what the program had at once. */
#define CAPACITY ((uint64_t)80 << 30)
#define CAPACITY_FACTOR 4

static const char *const kind_names[USE_KINDS] = { "  by cudaMalloc", "  by cudaMallocAsync" };

/* What the allocators would have taken. */
struct outcome {
	uint64_t plain;
	struct replay_result vpmm;
	bool limited;
};

/* A pass on an allocator of its own, with a device to itself. */
static int replay(const struct trace *trace, const struct choice *choice, const char *allocator,
		  struct replay_result *result)
{
	struct progress progress;
	struct replay_setup setup = {
		.trace = trace,
		.page_size = choice->info.page_size,
		.passes = 1,
		.progress = &progress,
		.quiet = true,
		.stop = &interrupt_signal,
	};
	bool whole;
	int err;

	err = replay_open(&setup, (struct device_opts){ 0 }, allocator, &choice->opts);
	if (err)
		return err;
	progress_begin(&progress, "replaying");
	whole = replay_pass(&setup, 1, result);
	progress_end(&progress);
	replay_close(&setup);
	return whole ? 0 : fail_set(-EINTR, "%s: interrupted in its replay", trace->name);
}

/* A device that the trace fits on, whatever of it is lost, unless the user has said how large it is. */
static bool set_capacity(uint64_t peak)
{
	uint64_t capacity = MAX(CAPACITY, peak < G_MAXINT64 / CAPACITY_FACTOR ? peak * CAPACITY_FACTOR : peak);
	char number[UNITS_TEXT];

	g_snprintf(number, sizeof(number), "%" PRIu64, (uint64_t)capacity);
	return !g_getenv("VPMM_HOST_CAPACITY") && g_setenv("VPMM_HOST_CAPACITY", number, TRUE);
}

/* The host backend's model of cudaMallocAsync() took up to half more than a GPU's driver did, so it has no part in it. */
static int replay_on(const struct choice *choice, const struct trace *trace, struct outcome *outcome)
{
	struct replay_result plain = { 0 };
	int err;

	outcome->limited = choice->info.limit != UINT64_MAX;
	err = replay(trace, choice, "vpmm", &outcome->vpmm);
	if (!err)
		err = replay(trace, choice, "malloc", &plain);
	/* The host may have too little memory for a model. */
	if (!err)
		outcome->plain = plain.errors ? TABLE_UNKNOWN : plain.stats.peak_taken;
	return err;
}

static int replay_all(const struct trace *trace, const struct use *use, struct outcome *outcome)
{
	bool set = set_capacity(use->peak);
	struct choice choice;
	int err;

	err = choose_backend("host", &choice);
	if (!err) {
		/* Nobody asked for a trace of the replay. */
		choice.opts.trace = NULL;
		err = replay_on(&choice, trace, outcome);
		g_free(choice.why);
	}
	if (set)
		g_unsetenv("VPMM_HOST_CAPACITY");
	return err;
}

static void tell_use(FILE *out, const struct trace *trace, const struct use *use)
{
	char bytes[UNITS_TEXT], largest[UNITS_TEXT], seconds[UNITS_TEXT];
	uint64_t allocs = use->kinds[USE_PLAIN].allocs + use->kinds[USE_ORDERED].allocs;

	units_format_seconds(seconds, (double)(trace->ops[trace->n_ops - 1].us - trace->ops[0].us) / 1e6);
	table_count(out, "allocations", allocs, "%s from the first call to the last", seconds);
	for (int kind = 0; kind < USE_KINDS; kind++) {
		if (!use->kinds[kind].allocs)
			continue;
		units_format_bytes(bytes, use->kinds[kind].bytes);
		units_format_bytes(largest, use->kinds[kind].largest);
		table_count(out, kind_names[kind], use->kinds[kind].allocs, "%s in all, the largest %s", bytes,
			    largest);
	}
	units_format_bytes(bytes, use->live);
	if (use->live)
		table_count(out, "frees", use->frees, "%s not freed", bytes);
	else
		table_count(out, "frees", use->frees, "%s", "");
}

/* What vpmm_realloc() could have done without the copy. */
static void tell_moves(FILE *out, const struct use *use)
{
	char bytes[UNITS_TEXT];

	units_format_bytes(bytes, use->moved);
	if (use->moves)
		table_count(out, "  copied to grow", use->moves, "%s copied", bytes);
	else
		table_count(out, "  copied to grow", 0, "%s", "");
	if (use->moves_used)
		table_count(out, "    used between", use->moves_used, "%s", "other work before the old was freed");
}

static void tell_memory(FILE *out, const struct use *use, const struct outcome *outcome)
{
	const bool plain = use->kinds[USE_PLAIN].allocs;

	table_memory_begin(out);
	table_memory(out, "requested by the program", use->peak, 0);
	table_memory(out, "in pages of the driver", use->pages, use->peak);
	table_memory(out, plain ? "model: cudaMalloc" : "model: cudaMalloc instead", outcome->plain, use->peak);
	table_memory(out, "libvpmm", outcome->vpmm.stats.peak_taken, use->peak);
	fputc('\n', out);
}

static void tell_failures(FILE *out, const struct outcome *outcome)
{
	char count[UNITS_TEXT];

	units_format_count(count, outcome->vpmm.errors);
	fprintf(out, "  With libvpmm, %s request%s would have failed%s.\n", count,
		outcome->vpmm.errors == 1 ? "" : "s",
		outcome->limited ? " by VPMM_LIMIT" : "; with --trace, vpmm-replay tells why");
}

/* The driver holds the pages that blocks are in, and may hold more: with cudaMallocAsync(), what was freed. */
static void tell_difference(FILE *out, const struct use *use, const struct outcome *outcome)
{
	uint64_t vpmm = outcome->vpmm.stats.peak_taken;
	uint64_t difference = use->pages > vpmm ? use->pages - vpmm : vpmm - use->pages;
	char bytes[UNITS_TEXT];

	if (outcome->vpmm.errors) {
		tell_failures(out, outcome);
		return;
	}
	units_format_bytes(bytes, difference);
	if (difference * 1000 < use->pages)
		fputs("  libvpmm would have taken as much as the pages in use.\n", out);
	else
		fprintf(out, "  libvpmm would have taken %s (%.1f %%) %s than the pages in use.\n", bytes,
			100.0 * (double)difference / (double)use->pages, use->pages > vpmm ? "less" : "more");
}

/* One pool of a trace: a device until its reset. */
static int tell_pool(const struct monitor *monitor, pid_t pid, const struct trace *trace, bool again)
{
	struct outcome outcome = { 0 };
	struct use use = use_count(trace);
	int err;

	err = replay_all(trace, &use, &outcome);
	if (err)
		return err;
	table_begin(monitor->out, &(struct table_process){ monitor->program, monitor->main, pid, trace->device },
		    again ? "served by the driver, after a reset" : "served by the driver");
	tell_use(monitor->out, trace, &use);
	tell_moves(monitor->out, &use);
	tell_memory(monitor->out, &use, &outcome);
	tell_difference(monitor->out, &use, &outcome);
	fputc('\n', monitor->out);
	return 0;
}

static bool was_before(const struct trace *first, const struct trace *trace)
{
	for (; first != trace; first = first->next) {
		if (first->device == trace->device)
			return true;
	}
	return false;
}

static bool show_reading(void *data, uint64_t done, uint64_t total)
{
	progress_show(data, done, total);
	return !interrupt_signal;
}

static int tell_file(const struct monitor *monitor, const struct traces_file *file, unsigned int *told)
{
	struct trace *trace = NULL;
	struct progress progress;
	int err;

	progress_begin(&progress, "reading");
	err = trace_load_so_far(file->name, show_reading, &progress, &trace);
	progress_end(&progress);
	if (err)
		return err;
	for (const struct trace *pool = trace; pool && !err; pool = pool->next) {
		err = tell_pool(monitor, file->pid, pool, was_before(trace, pool));
		*told += !err;
	}
	trace_free(trace);
	return err;
}

static void tell_words(FILE *out)
{
	fputs("  pages    of 2 MiB with blocks in them: the driver took these, and with\n"
	      "           cudaMallocAsync perhaps others, which it kept for later\n"
	      "  model    of the driver's allocator, without a GPU\n"
	      "  libvpmm  in a replay without a GPU, all work complete at once\n"
	      "  ratio    to what was requested: 1 is perfect, what is above it is lost\n", out);
}

/* Writes what is wrong, if anything is. */
static void check_here(int out)
{
	struct choice choice;
	const char *why;

	if (!choose_backend("host", &choice))
		_exit(0);
	why = fail_text();
	_exit(write(out, why, strlen(why)) < 0);
}

int monitor_check(void)
{
	char why[1024];
	ssize_t length;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return fail_set(-errno, "a pipe: %s", g_strerror(errno));
	/* A process that has had pools cannot have any in its own children, and they make the tables so far. */
	pid = fork();
	if (!pid)
		check_here(ends[1]);
	close(ends[1]);
	do
		length = read(ends[0], why, sizeof(why));
	while (length < 0 && errno == EINTR);
	close(ends[0]);
	if (pid < 0)
		return fail_set(-EAGAIN, "a process to check the settings: %s", g_strerror(EAGAIN));
	waitpid(pid, NULL, 0);
	return length > 0 ? fail_set(-EINVAL, "%.*s", (int)length, why) : 0;
}

int monitor_tell(const struct monitor *monitor)
{
	GArray *files = traces_list(monitor->traces);
	unsigned int told = 0;
	int err = 0;

	for (guint i = 0; i < files->len && err != -EINTR; i++) {
		int wrong = tell_file(monitor, &g_array_index(files, struct traces_file, i), &told);

		if (!wrong)
			continue;
		fprintf(stderr, "%s: %s\n", g_get_prgname(), fail_text());
		if (!err || wrong == -EINTR)
			err = wrong;
	}
	if (told)
		tell_words(monitor->out);
	else if (!err)
		fprintf(monitor->out, "%s: %s: no allocation of device memory was recorded; see DIAGNOSTICS in "
			"vpmm-run(1)\n", g_get_prgname(), monitor->program);
	g_array_unref(files);
	return err;
}
