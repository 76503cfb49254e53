// SPDX-License-Identifier: LGPL-2.1-or-later
#include "overlap-rows.h"

#include <errno.h>
#include <string.h>

#include "cli.h"
#include "device.h"
#include "fail.h"
#include "json.h"
#include "replay.h"
#include "units.h"
#include "vpmm-host.h"

/* With so much more memory no stream waits for want of it; and how often the time of work is halved to find it. */
#define OVERLAP_PLENTY 1000
#define HALVINGS 6

/* A setting is as good as another with more memory if it takes no more than this part longer. */
#define AS_GOOD 1.01

static const struct {
	const char *name;
	int overlap;
} settings[] = {
	{ "0", VPMM_OVERLAP_NONE },
	{ "25", 25 },
	{ "50", 50 },
	{ "100", 100 },
	{ "auto", VPMM_OVERLAP_AUTO },
};

static uint64_t trace_ns(const struct trace *trace)
{
	return (trace->ops[trace->n_ops - 1].us - trace->ops[0].us) * 1000;
}

/* What keeps the stream that allocates most busy for all of the time of the trace; 0: there is no such time. */
static double slowest_pace(const struct trace *trace)
{
	double *bytes = g_new0(double, trace->streams), most = 0;

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		if (op->kind != TRACE_ALLOC && op->kind != TRACE_RESIZE)
			continue;
		bytes[op->stream] += (double)op->bytes;
		most = MAX(most, bytes[op->stream]);
	}
	g_free(bytes);
	return most > 0 ? (double)trace_ns(trace) / most : 0;
}

static int run_one(const struct overlap_rows *rows, struct replay_setup *setup, int overlap,
		   struct replay_result *result, uint64_t *ns)
{
	struct vpmm_opts opts = rows->choice->opts;
	uint64_t start = 0;
	bool done = true;
	int err;

	opts.overlap = overlap;
	err = replay_open(setup, (struct device_opts){ .ns_per_byte = rows->ns_per_byte }, "vpmm", &opts);
	if (err)
		return err;
	for (unsigned int pass = 1; pass <= setup->passes && done; pass++) {
		start = vpmm_host_time();
		done = replay_pass(setup, pass, result);
	}
	*ns = vpmm_host_time() - start;
	replay_close(setup);
	return done ? 0 : fail_set(-EINTR, "%s: interrupted", rows->trace->name);
}

/*
 * A trace does not have the times of work. So work is taken to be in proportion to the bytes of allocations, and as
 * slow as the time of the trace allows: with memory in plenty the replay takes no longer than that, but for 2 % in
 * which the last work ends.
 */
static int find_pace(struct overlap_rows *rows, struct replay_setup *setup)
{
	uint64_t most = trace_ns(rows->trace) / 100 * 102, ns;
	double high = slowest_pace(rows->trace), low = 0;
	struct replay_result result = { 0 };
	int err = 0;

	if (high <= 0)
		return fail_set(-EINVAL, "%s: all of it happens at one time, or has no bytes, so that there is no work "
				"to take time", rows->trace->name);
	setup->quiet = true;
	for (unsigned int i = 0; i <= HALVINGS && !err; i++) {
		rows->ns_per_byte = i ? (low + high) / 2 : high;
		err = run_one(rows, setup, OVERLAP_PLENTY, &result, &ns);
		if (!err && ns <= most)
			low = rows->ns_per_byte;
		else
			high = rows->ns_per_byte;
		if (low >= high)
			break;
	}
	setup->quiet = false;
	rows->ns_per_byte = low > 0 ? low : high;
	return err;
}

static void add_row(struct overlap_rows *rows, const char *name, const struct replay_result *result, uint64_t ns)
{
	const struct vpmm_stats *stats = &result->stats;
	struct overlap_row row = {
		.name = name,
		.clock_s = (double)ns / 1e9,
		.waits = stats->waits,
		.errors = result->errors,
		.peak_live = result->peak_live,
		.peak_taken = stats->peak_taken,
	};

	if (stats->waits_sampled)
		row.stood_s = (double)stats->wait_ns / 1e9 / (double)stats->waits_sampled * (double)stats->waits;
	g_array_append_val(rows->rows, row);
}

static int run_all(struct overlap_rows *rows, struct replay_setup *setup)
{
	struct replay_result result = { 0 };
	uint64_t ns;
	int err;

	err = find_pace(rows, setup);
	for (size_t i = 0; i < G_N_ELEMENTS(settings) && !err; i++) {
		err = run_one(rows, setup, settings[i].overlap, &result, &ns);
		if (!err)
			add_row(rows, settings[i].name, &result, ns);
	}
	return err;
}

int overlap_rows_run(struct overlap_rows *rows, unsigned int passes)
{
	struct replay_setup setup = {
		.trace = rows->trace,
		.page_size = rows->choice->info.page_size,
		.passes = passes,
		.stop = &interrupt_signal,
	};

	rows->rows = g_array_new(FALSE, FALSE, sizeof(struct overlap_row));
	/* A copy beside a kernel. With one at a time no stream is missed that stands, with more all of them are. */
	g_setenv("VPMM_HOST_KERNELS", "2", FALSE);
	return run_all(rows, &setup);
}

/* Of the settings other than auto the one with the least memory that takes hardly longer than the fastest. */
static const struct overlap_row *find_best(const struct overlap_rows *rows)
{
	const struct overlap_row *all = (const struct overlap_row *)(const void *)rows->rows->data;
	guint n = rows->rows->len - 1, best = 0;
	double least = all[0].clock_s;

	for (guint i = 1; i < n; i++)
		least = MIN(least, all[i].clock_s);
	while (best < n - 1 && all[best].clock_s > least * AS_GOOD)
		best++;
	return &all[best];
}

static void print_row(const struct overlap_row *row, FILE *out)
{
	char taken[UNITS_TEXT], time[UNITS_TEXT], waits[UNITS_TEXT], stood[UNITS_TEXT];

	units_format_bytes(taken, row->peak_taken);
	units_format_seconds(time, row->clock_s);
	units_format_count(waits, row->waits);
	units_format_seconds(stood, row->stood_s);
	fprintf(out, "%-12s %10s %7.3f %10s %10s %10s\n", row->name, taken,
		(double)row->peak_taken / (double)row->peak_live, time, waits, stood);
}

void overlap_rows_table(const struct overlap_rows *rows, FILE *out)
{
	const struct trace *trace = rows->trace;
	g_autofree char *name = units_printable(g_strdup(trace->name));
	char time[UNITS_TEXT];

	units_format_seconds(time, (double)trace_ns(trace) / 1e9);
	fprintf(out, "%s: recorded over %s, %u stream%s\n\n", name, time, trace->streams,
		trace->streams == 1 ? "" : "s");
	fprintf(out, "%-12s %10s %7s %10s %10s %10s\n", "VPMM_OVERLAP", "taken", "ratio", "time", "waits", "stood");
	for (guint i = 0; i < rows->rows->len; i++)
		print_row(&g_array_index(rows->rows, struct overlap_row, i), out);
	fprintf(out, "\n  taken  the most memory that the pool took from the device\n"
		"  ratio  taken / the most that the program held\n"
		"  time   until all work is done, if work on an allocation takes %.3g ns for each KiB\n"
		"  waits  times that a stream was made to wait for another\n"
		"  stood  for how long, all streams together; about, from some of the waits\n\n", rows->ns_per_byte * 1024);
	fprintf(out, "VPMM_OVERLAP=%s is the least that takes no more than 1 %% longer than the fastest.\n",
		find_best(rows)->name);
}

void overlap_rows_json(const struct overlap_rows *rows, FILE *out)
{
	for (guint i = 0; i < rows->rows->len; i++) {
		const struct overlap_row *row = &g_array_index(rows->rows, struct overlap_row, i);
		struct json json;

		json_begin(&json, out);
		json_string(&json, "trace", rows->trace->name);
		json_string(&json, "VPMM_OVERLAP", row->name);
		json_count(&json, "peak_live", row->peak_live);
		json_count(&json, "peak_taken", row->peak_taken);
		json_decimal(&json, "clock_s", row->clock_s, 6);
		json_count(&json, "waits", row->waits);
		json_decimal(&json, "stood_s", row->stood_s, 6);
		json_decimal(&json, "ns_per_byte", rows->ns_per_byte, 9);
		json_count(&json, "errors", row->errors);
		json_bool(&json, "least", row == find_best(rows));
		json_end(&json);
	}
}

bool overlap_rows_failed(const struct overlap_rows *rows)
{
	bool failed = false;

	for (guint i = 0; i < rows->rows->len; i++)
		failed = failed || g_array_index(rows->rows, struct overlap_row, i).errors;
	return failed;
}

void overlap_rows_clear(struct overlap_rows *rows)
{
	g_array_free(rows->rows, TRUE);
}
