// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shows the pools of all processes that publish them (VPMM_TOP=1), and the budgets that processes share. */
#include <glib.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "fail.h"
#include "json.h"
#include "top-scan.h"
#include "units.h"

#define PROGRAM "vpmm-top"

/* The shortest delay: processes publish less often, and each look reads all of /proc. */
#define STEP_US 100000

static struct {
	gboolean once;
	gboolean json;
	gboolean openmetrics;
	char *sort;
	char *delay;
	uint64_t delay_us;
} options = { .delay_us = 1000000 };

static const GOptionEntry entries[] = {
	{ "once", '1', 0, G_OPTION_ARG_NONE, &options.once, "Print one table and exit", NULL },
	{ "sort", 's', 0, G_OPTION_ARG_FILENAME, &options.sort,
	  "By taken (default), live, stranded, waits or pid", "COLUMN" },
	{ "delay", 'd', 0, G_OPTION_ARG_FILENAME, &options.delay, "Look again after T: 500ms, 2s (default: 1s)", "T" },
	{ "json", 'j', 0, G_OPTION_ARG_NONE, &options.json, "Print one JSON object for each pool and budget and exit", NULL },
	{ "openmetrics", 'o', 0, G_OPTION_ARG_NONE, &options.openmetrics, "Print OpenMetrics, for Prometheus, and exit",
	  NULL },
	G_OPTION_ENTRY_NULL
};

static const struct cli cli = {
	.summary = "- show the pools and budgets of all processes",
	.description = "A process publishes its pools with VPMM_TOP=1, or under vpmm-run --top. Exit status: 0,\n"
		       "or 2 if an option was refused or the output could not be written.\n",
	.entries = entries,
};

/* Time that streams stood in all waits, as far as the measured ones tell. */
static double stood_s(const struct top_pool *pool)
{
	if (!pool->waits_sampled)
		return 0;
	return (double)pool->wait_ns / 1e9 / (double)pool->waits_sampled * (double)pool->waits;
}

static uint64_t sort_key(const struct top_row *row)
{
	if (strcmp(options.sort, "live") == 0)
		return row->pool.live;
	if (strcmp(options.sort, "stranded") == 0)
		return row->pool.stranded;
	if (strcmp(options.sort, "waits") == 0)
		return row->pool.waits;
	return strcmp(options.sort, "pid") == 0 ? UINT64_MAX - (uint64_t)row->pid : row->pool.taken;
}

/* The largest first, and those of one process in their order. */
static gint compare_rows(gconstpointer a, gconstpointer b)
{
	const struct top_row *x = a, *y = b;
	uint64_t left = sort_key(x), right = sort_key(y);

	if (left != right)
		return left > right ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->pool.number > y->pool.number) - (x->pool.number < y->pool.number);
}

/* What was there a look before; NULL: nothing. */
static const struct top_row *find_before(const GArray *before, const struct top_row *row)
{
	for (guint i = 0; before && i < before->len; i++) {
		const struct top_row *other = &g_array_index(before, struct top_row, i);

		if (other->pid == row->pid && other->pool.number == row->pool.number)
			return other;
	}
	return NULL;
}

/* How often a second, since the look before, or "-". */
static void format_rate(char text[UNITS_TEXT], const struct top_row *row, const struct top_row *before, double change)
{
	double s = before ? (double)(row->updated_ns - before->updated_ns) / 1e9 : 0;

	if (s > 0)
		snprintf(text, UNITS_TEXT, "%.0f", MAX(change, 0) / s);
	else
		g_strlcpy(text, "-", UNITS_TEXT);
}

static void print_row(FILE *out, const struct top_row *row, const struct top_row *before)
{
	char taken[UNITS_TEXT], live[UNITS_TEXT], stranded[UNITS_TEXT], limit[UNITS_TEXT], calls[UNITS_TEXT];
	char waits[UNITS_TEXT], stood[UNITS_TEXT];
	const struct top_pool *p = &row->pool;

	units_format_bytes(taken, p->taken);
	units_format_bytes(live, p->live);
	units_format_bytes(stranded, p->stranded);
	if (p->limit == UINT64_MAX)
		g_strlcpy(limit, "-", sizeof(limit));
	else
		units_format_bytes(limit, p->limit);
	format_rate(calls, row, before, before ? (double)(p->mallocs - before->pool.mallocs) : 0);
	format_rate(waits, row, before, before ? (double)(p->waits - before->pool.waits) : 0);
	format_rate(stood, row, before, before ? 1e3 * (stood_s(p) - stood_s(&before->pool)) : 0);
	fprintf(out, "%7ld ", (long)row->pid);
	units_print_cell(out, row->command, 10);
	fprintf(out, " %3d %8s %8s %8s %8s %8s %6s %5s\n", p->device, taken, live, stranded, limit, calls, waits,
		stood);
}

/* Below their pool. */
static void print_tags(FILE *out, const struct top_pool *pool)
{
	char live[UNITS_TEXT];

	for (uint32_t i = 0; i < pool->tag_count; i++) {
		units_format_bytes(live, pool->tags[i].live);
		fprintf(out, "%10s", "");
		units_print_cell(out, pool->tags[i].name, 21);
		fprintf(out, " %8s\n", live);
	}
}

static void print_table(FILE *out, const GArray *rows, const GArray *before)
{
	uint64_t taken = 0;
	char text[UNITS_TEXT];

	for (guint i = 0; i < rows->len; i++)
		taken += g_array_index(rows, struct top_row, i).pool.taken;
	units_format_bytes(text, taken);
	fprintf(out, "%u pool%s, %s taken\n\n", rows->len, rows->len == 1 ? "" : "s", text);
	/* No wider than a terminal of 80 columns. */
	fprintf(out, "%7s %-10s %3s %8s %8s %8s %8s %8s %6s %5s\n", "PID", "COMMAND", "DEV", "TAKEN", "LIVE",
		"STRANDED", "LIMIT", "MALLOC/S", "WAIT/S", "STOOD");
	for (guint i = 0; i < rows->len; i++) {
		const struct top_row *row = &g_array_index(rows, struct top_row, i);

		print_row(out, row, find_before(before, row));
		print_tags(out, &row->pool);
	}
	if (!rows->len)
		fputs("No pools are published: start programs with VPMM_TOP=1, or by vpmm-run --top.\n", out);
}

static void print_json_tags(struct json *json, const struct top_pool *pool)
{
	json_open(json, "tags");
	for (uint32_t i = 0; i < pool->tag_count; i++) {
		json_open(json, pool->tags[i].name);
#define X(name) json_count(json, #name, pool->tags[i].name);
		TOP_TAG_NUMBERS(X)
#undef X
		json_close(json);
	}
	json_close(json);
}

static void print_json(const GArray *rows)
{
	for (guint i = 0; i < rows->len; i++) {
		const struct top_row *row = &g_array_index(rows, struct top_row, i);
		struct json json;

		json_begin(&json, stdout);
		json_count(&json, "pid", (uint64_t)row->pid);
		json_string(&json, "command", row->command);
		json_count(&json, "pool", row->pool.number);
		json_count(&json, "device", (uint64_t)row->pool.device);
		json_string(&json, "backend", row->pool.backend);
#define X(name) \
		if (row->pool.name != UINT64_MAX) \
			json_count(&json, #name, row->pool.name);
		TOP_NUMBERS(X)
#undef X
		print_json_tags(&json, &row->pool);
		json_end(&json);
	}
}

/* A family of samples: one for each pool, with a name, a type and a help text. */
struct family {
	const char *name;
	const char *unit;
	const char *help;
	size_t offset;
	bool counter;
	bool seconds;			/* of nanoseconds */
	bool tag;			/* one for each tag, whose @offset it is */
};

#define OF(name) offsetof(struct top_pool, name)
#define OF_TAG(name) offsetof(struct top_tag, name)

static const struct family families[] = {
	{ "taken", "bytes", "Device memory that the pool holds.", OF(taken), false, false },
	{ "live", "bytes", "Memory that is allocated, with sizes rounded up.", OF(live), false, false },
	{ "requested", "bytes", "Memory that is allocated, as it was requested.", OF(requested), false, false },
	{ "stranded", "bytes", "Free memory that cannot be mapped elsewhere.", OF(stranded), false, false },
	{ "limit", "bytes", "The most that the pool may hold.", OF(limit), false, false },
	{ "peak_taken", "bytes", "The most device memory that the pool held.", OF(peak_taken), false, false },
	{ "peak_requested", "bytes", "The most memory that was allocated.", OF(peak_requested), false, false },
	{ "mallocs", NULL, "Allocations.", OF(mallocs), true, false },
	{ "frees", NULL, "Frees.", OF(frees), true, false },
	{ "waits", NULL, "Waits of a stream for another.", OF(waits), true, false },
	{ "waits_measured", NULL, "Waits whose time was measured.", OF(waits_sampled), true, false },
	{ "waits_measured_time", "seconds", "Time that streams stood in measured waits.", OF(wait_ns), true, true },
	{ "driver_time", "seconds", "Time in calls of the driver.", OF(driver_ns), true, true },
	{ "tag_live", "bytes", "Memory that is allocated under a tag.", OF_TAG(live), .tag = true },
	{ "tag_requested", "bytes", "The same as it was requested.", OF_TAG(requested), .tag = true },
	{ "tag_blocks", NULL, "Allocations under a tag.", OF_TAG(blocks), .tag = true },
	{ "tag_peak_live", "bytes", "The most that was allocated under a tag.", OF_TAG(peak_live), .tag = true },
};

/* @tag: whose sample it is; NULL: it is the pool's. */
static void print_sample(const struct family *family, const struct top_row *row, const struct top_tag *tag)
{
	uint64_t number = top_number(tag ? (const void *)tag : &row->pool, family->offset);

	if (number == UINT64_MAX)
		return;
	printf("vpmm_%s%s%s%s", family->name, family->unit ? "_" : "", family->unit ? family->unit : "",
	       family->counter ? "_total" : "");
	printf("{pid=\"%ld\",pool=\"%" PRIu64 "\",device=\"%d\",command=", (long)row->pid, row->pool.number,
	       row->pool.device);
	top_print_label(row->command);
	if (tag) {
		fputs(",tag=", stdout);
		top_print_label(tag->name);
	}
	if (family->seconds)
		printf("} %" PRIu64 ".%09" PRIu64 "\n", number / 1000000000, number % 1000000000);
	else
		printf("} %" PRIu64 "\n", number);
}

static void print_samples(const struct family *family, const struct top_row *row)
{
	if (!family->tag)
		print_sample(family, row, NULL);
	for (uint32_t i = 0; family->tag && i < row->pool.tag_count; i++)
		print_sample(family, row, &row->pool.tags[i]);
}

static void print_openmetrics(const GArray *rows, const GArray *budgets)
{
	for (size_t f = 0; f < G_N_ELEMENTS(families); f++) {
		const struct family *family = &families[f];

		top_print_family(family->name, family->unit, family->help, family->counter);
		for (guint i = 0; i < rows->len; i++)
			print_samples(family, &g_array_index(rows, struct top_row, i));
	}
	top_budgets_print_openmetrics(budgets);
	puts("# EOF");
}

/* In the order in which they are printed. */
static GArray *look(GArray **budgets)
{
	GArray *rows = top_scan(budgets);

	g_array_sort(rows, compare_rows);
	return rows;
}

static int print_once(void)
{
	GArray *budgets, *rows = look(&budgets);

	if (options.json) {
		print_json(rows);
		top_budgets_print_json(budgets);
	} else if (options.openmetrics) {
		print_openmetrics(rows, budgets);
	} else {
		print_table(stdout, rows, NULL);
		top_budgets_print(stdout, budgets);
	}
	g_array_unref(budgets);
	g_array_unref(rows);
	return cli_finish_output("the table");
}

/* In short steps, as g_usleep() goes on after a signal. */
static void wait_for_delay(void)
{
	uint64_t step;

	for (uint64_t left = options.delay_us; left && !interrupt_signal; left -= step) {
		step = MIN(left, STEP_US);
		g_usleep(step);
	}
}

/*
 * As much of each line, and as many lines, as there is room for: more would scroll the largest pools away. A signal
 * ends a write to a terminal that takes nothing; the next one would wait again.
 */
static void show(char *text)
{
	unsigned int lines, left, columns = units_terminal(STDOUT_FILENO, &lines);
	char *line, *rest = text;

	fputs("\033[H\033[2J", stdout);
	while (!interrupt_signal && --lines && (line = strsep(&rest, "\n")) && rest)
		printf("%.*s\n", (int)units_fit(line, columns, &left), line);
	if (!interrupt_signal)
		cli_flush_output("the table");
}

static void show_table(const GArray *rows, const GArray *before, const GArray *budgets)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	print_table(out, rows, before);
	top_budgets_print(out, budgets);
	if (!fclose(out))
		show(text);
	free(text);
}

static int watch(void)
{
	GArray *before = NULL, *rows, *budgets;

	interrupt_catch(true);
	while (!interrupt_signal && !ferror(stdout)) {
		rows = look(&budgets);
		show_table(rows, before, budgets);
		g_array_unref(budgets);
		g_clear_pointer(&before, g_array_unref);
		before = rows;
		wait_for_delay();
	}
	interrupt_catch(false);
	g_clear_pointer(&before, g_array_unref);
	return interrupt_signal ? 0 : cli_finish_output("the table");
}

static int check_options(int argc, char **argv)
{
	static const char *const columns[] = { "taken", "live", "stranded", "waits", "pid", NULL };

	if (argc > 1)
		return cli_refuse("unexpected argument \"%s\"", argv[1]);
	if (!options.sort)
		options.sort = g_strdup("taken");
	if (!g_strv_contains(columns, options.sort))
		return cli_refuse("--sort: \"%s\": expected taken, live, stranded, waits or pid", options.sort);
	if (options.json && options.openmetrics)
		return cli_refuse("--json: expected no --openmetrics beside it");
	if (options.delay && units_parse_time("--delay", options.delay, &options.delay_us))
		return cli_refuse("%s", fail_text());
	if (options.delay_us < STEP_US)
		return cli_refuse("--delay: %s is too short: expected at least %dms", options.delay, STEP_US / 1000);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0;

	g_set_prgname(PROGRAM);
	if (cli_parse(&cli, &argc, &argv, &status)) {
		status = check_options(argc, argv);
		if (!status)
			status = options.once || options.json || options.openmetrics || !isatty(STDOUT_FILENO) ?
				 print_once() : watch();
	}
	g_free(options.sort);
	g_free(options.delay);
	interrupt_end();
	return status;
}
