// SPDX-License-Identifier: LGPL-2.1-or-later
#include "report.h"

#include <glib.h>
#include <string.h>

#include "json.h"
#include "units.h"

/* The name of a trace in the table: without folder and suffixes, with the pass where there are several. */
#define NAME_WIDTH 20

/* What a program that keeps many of them tells them apart by. */
static void json_setup(struct json *json, const struct report_run *run)
{
	const struct vpmm_info *info = &run->choice->info;

	json_string(json, "version", vpmm_version());
	json_string(json, "backend", info->backend);
	json_count(json, "device", (uint64_t)info->device);
	json_string(json, "device_name", info->device_name);
	json_count(json, "driver_version", (uint64_t)info->driver_version);
	json_string(json, "allocator", run->allocator);
	json_open(json, "settings");
	for (unsigned int i = 0; i < run->settings.n; i++)
		pool_setting_json(json, run->settings.all[i].variable, &run->settings.all[i]);
	json_close(json);
	json_bool(json, "verify", run->verify);
	if (run->lag)
		json_count(json, "lag_us", run->lag_us);
	if (run->limit)
		json_count(json, "limit", run->limit);
}

void report_json(FILE *out, const struct report_run *run, const struct report_row *row)
{
	const struct replay_result *r = &row->result;
	struct json json;

	json_begin(&json, out);
	json_string(&json, "trace", row->trace);
	json_setup(&json, run);
	json_count(&json, "pass", r->pass);
	json_count(&json, "operations", r->operations);
	json_count(&json, "errors", r->errors);
	json_count(&json, "streams", r->streams);
	json_count(&json, "peak_live", r->peak_live);
	json_count(&json, "peak_rounded", r->peak_rounded);
	json_count(&json, "peak_mapped", r->stats.peak_mapped);
	json_count(&json, "peak_small", r->stats.peak_small);
	json_count(&json, "peak_taken", r->stats.peak_taken);
	json_count(&json, "peak_requested", r->stats.peak_requested);
	json_decimal(&json, "wall_s", r->wall_s, 6);
	json_decimal(&json, "trace_s", r->trace_s, 6);
	json_decimal(&json, "driver_s", (double)r->stats.driver_ns / 1e9, 6);
	json_decimal(&json, "op_us_p50", r->op_us_p50, 3);
	json_decimal(&json, "op_us_p99", r->op_us_p99, 3);
	json_decimal(&json, "op_us_max", r->op_us_max, 3);
#define X(name) json_count(&json, #name, r->stats.name);
	REPLAY_COUNTS(X)
	REPLAY_LEVELS(X)
#undef X
	json_end(&json);
}

static char *short_name(const struct report_row *row)
{
	g_autofree char *name = units_trace_name(row->trace), *number = g_strdup_printf(" #%u", row->result.pass);
	unsigned int left;

	if (!row->numbered)
		return g_steal_pointer(&name);
	return g_strdup_printf("%.*s%s", (int)units_fit(name, NAME_WIDTH - (unsigned int)strlen(number), &left), name,
			       number);
}

static void table_head(FILE *out, const struct report_run *run)
{
	const struct vpmm_info *info = &run->choice->info;
	g_autofree char *pool = choose_describe_pool(info);
	char total[UNITS_TEXT];

	units_format_bytes(total, info->memory_total);
	units_print_wrapped(out, 11, "Backend:   %s (%s)", info->backend, run->choice->why);
	fprintf(out, "Device:    %s, %s of memory\n", info->device_name, total);
	if (strcmp(run->allocator, "async") == 0)
		fprintf(out, "Allocator: async, the driver's stream-ordered one%s\n\n",
			strcmp(info->backend, "host") ? "" : ", as the host backend models it");
	else if (strcmp(run->allocator, "malloc") == 0)
		fprintf(out, "Allocator: malloc, %s; reckoned in 2 MiB\n\n",
			strcmp(info->backend, "host") ? "the driver's plain one" : "ordinary memory");
	else
		fprintf(out, "Allocator: vpmm %s, %s\n\n", vpmm_version(), pool);
}

static void table_memory(FILE *out, const struct report_row *rows, size_t n)
{
	char ops[UNITS_TEXT], median[UNITS_TEXT], slowest[UNITS_TEXT], live[UNITS_TEXT], taken[UNITS_TEXT];

	fprintf(out, "%-*s %10s %9s %9s %9s %9s %7s\n", NAME_WIDTH, "trace", "operations", "median", "slowest",
		"program", "taken", "ratio");
	for (size_t i = 0; i < n; i++) {
		const struct replay_result *r = &rows[i].result;
		g_autofree char *name = short_name(&rows[i]);

		units_format_count(ops, r->operations);
		units_format_seconds(median, r->op_us_p50 / 1e6);
		units_format_seconds(slowest, r->op_us_max / 1e6);
		units_format_bytes(live, r->peak_live);
		units_format_bytes(taken, r->stats.peak_taken);
		units_print_cell(out, name, NAME_WIDTH);
		fprintf(out, " %10s %9s %9s %9s %9s ", ops, median, slowest, live, taken);
		/* What failed is in neither of the two. */
		if (r->peak_live && !r->errors)
			fprintf(out, "%7.3f\n", (double)r->stats.peak_taken / (double)r->peak_live);
		else
			fprintf(out, "%7s\n", "-");
	}
	fputs("\n  median   half of the calls, to allocate or to free, took no longer than this\n"
	      "  program  the most memory that the program held at once, as it asked for it\n"
	      "  taken    the most that the allocator took from the device for it\n"
	      "  ratio    taken / program: 1 is perfect, what is above it is lost\n", out);
}

/* The clock of the host backend stands still in a replay, so only a device has something to tell. */
static void table_stood(FILE *out, const struct report_run *run, const struct report_row *rows, size_t n)
{
	uint64_t sampled = 0, ns = 0, waits = 0;
	char mean[UNITS_TEXT], count[UNITS_TEXT], all[UNITS_TEXT];

	for (size_t i = 0; i < n; i++) {
		sampled += rows[i].result.stats.waits_sampled;
		ns += rows[i].result.stats.wait_ns;
		waits += rows[i].result.stats.waits;
	}
	if (!sampled || strcmp(run->choice->info.backend, "host") == 0)
		return;
	units_format_seconds(mean, (double)ns / 1e9 / (double)sampled);
	units_format_count(count, sampled);
	units_format_seconds(all, (double)ns / 1e9 / (double)sampled * (double)waits);
	fprintf(out, "           %s of them were measured: they took %s on average, about %s in all\n", count, mean,
		all);
}

static void table_pool(FILE *out, const struct report_run *run, const struct report_row *rows, size_t n)
{
	fprintf(out, "\n%-*s %9s %9s %9s %9s %9s %9s\n", NAME_WIDTH, "trace", "small", "reused", "others'", "remapped",
		"grown", "waits");
	for (size_t i = 0; i < n; i++) {
		const struct vpmm_stats *s = &rows[i].result.stats;
		g_autofree char *name = short_name(&rows[i]);
		char text[6][UNITS_TEXT];

		units_format_count(text[0], rows[i].result.small);
		units_format_count(text[1], s->reuses);
		units_format_count(text[2], s->steals);
		units_format_count(text[3], s->defrags);
		units_format_count(text[4], s->grows);
		units_format_count(text[5], s->waits);
		units_print_cell(out, name, NAME_WIDTH);
		fprintf(out, " %9s %9s %9s %9s %9s %9s\n", text[0], text[1], text[2], text[3], text[4], text[5]);
	}
	fprintf(out, "\n  small    requests below a page%s\n",
		choose_driver_serves_small(&run->choice->info) ? ", which the driver's allocator serves" : "");
	fputs("  reused   requests served by memory that was free and mapped already\n"
	      "  others'  requests that took memory which another stream had freed\n"
	      "  remapped requests for which free pieces were mapped together, without a copy\n"
	      "  grown    requests for which memory was created\n"
	      "  waits    times that a stream was made to wait for another, instead of\n"
	      "           taking more memory\n", out);
	table_stood(out, run, rows, n);
}

static void table_errors(FILE *out, const struct report_run *run, const struct report_row *rows, size_t n)
{
	char text[UNITS_TEXT];
	uint64_t errors = 0;

	for (size_t i = 0; i < n; i++)
		errors += rows[i].result.errors;
	units_format_count(text, errors);
	if (errors)
		fprintf(out, "\n%s error%s; the first of them are printed on standard error. A trace with requests that\n"
			"failed has no ratio.\n", text, errors == 1 ? "" : "s");
	else if (run->verify)
		fputs("\nNo errors: every allocation kept what was written to it until it was freed.\n", out);
	else
		fputs("\nNo errors. Contents of blocks were not checked: see --verify.\n", out);
}

void report_table(FILE *out, const struct report_run *run, const struct report_row *rows, size_t n)
{
	table_head(out, run);
	table_memory(out, rows, n);
	if (strcmp(run->allocator, "vpmm") == 0)
		table_pool(out, run, rows, n);
	table_errors(out, run, rows, n);
}
