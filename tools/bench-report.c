// SPDX-License-Identifier: LGPL-2.1-or-later
/* How figures become lines: of a table for people, or of JSON for programs. */
#include <glib.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli.h"
#include "json.h"
#include "units.h"

#define FIGURE "%9s"

static const char *const unit_names[] = { "us", "factor", "percent", "count", "GB/s" };

/* The program stops at the first figure that cannot be written, because later ones would be lost, too. */
static void flush_figures(void)
{
	if (cli_finish_output("the figures"))
		exit(CLI_REFUSED);
}

static bool on_host(const struct bench *b)
{
	return strcmp(b->choice->info.backend, "host") == 0;
}

static const char *contender_name(const struct bench_row *row, enum contender who)
{
	switch (who) {
	case BENCH_VPMM:
		return "vpmm";
	case BENCH_ASYNC:
		return row->by_hand ? "pinned" : "async";
	default:
		return row->by_hand ? "plain" : "malloc";
	}
}

/* In a table nobody is to take the model for the driver. */
static const char *column_name(const struct bench *b, const struct bench_row *row, enum contender who)
{
	if (who == BENCH_ASYNC && on_host(b))
		return "model";
	return contender_name(row, who);
}

void bench_size_text(char text[32], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int unit = 0;

	while (unit + 1 < G_N_ELEMENTS(units) && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 32, "%" PRIu64 " %s", (uint64_t)bytes, units[unit]);
}

void bench_row_begin(struct bench_row *row, const char *benchmark, const char *metric, enum bench_unit unit,
		     uint64_t number, const char *format, ...)
{
	va_list args;

	*row = (struct bench_row){ .benchmark = benchmark, .metric = metric, .unit = unit, .number = number };
	va_start(args, format);
	vsnprintf(row->what, sizeof(row->what), format, args);
	va_end(args);
}

void bench_row_detail(struct bench_row *row, const struct bench_row *of, const char *metric, enum bench_unit unit)
{
	bench_row_begin(row, of->benchmark, metric, unit, of->number, "%s", of->what);
	row->detail = true;
	row->by_hand = of->by_hand;
}

void bench_row_add(struct bench_row *row, enum contender who, double value)
{
	row->samples[who][row->n[who]++] = value;
}

void bench_row_slow(struct bench_row *row, enum contender who, uint64_t ns)
{
	row->slowest_ns[who] = MAX(row->slowest_ns[who], ns);
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Returns how many there are. */
static unsigned int sort_samples(const struct bench_row *row, enum contender who, double sorted[BENCH_MOST_ROUNDS])
{
	memcpy(sorted, row->samples[who], sizeof(row->samples[who]));
	qsort(sorted, row->n[who], sizeof(*sorted), compare_doubles);
	return row->n[who];
}

double bench_row_median(const struct bench_row *row, enum contender who)
{
	double sorted[BENCH_MOST_ROUNDS];
	unsigned int n = sort_samples(row, who, sorted);

	return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : NAN;
}

/*
 * vpmm beside async; NAN where one of them has no figure, or nothing to divide by. Of rates the other way round, so
 * that below 1 vpmm takes less time.
 */
static double ratio_of(const struct bench_row *row)
{
	bool rate = row->unit == BENCH_RATE;
	double over = bench_row_median(row, rate ? BENCH_ASYNC : BENCH_VPMM);
	double under = bench_row_median(row, rate ? BENCH_VPMM : BENCH_ASYNC);

	return under > 0 ? over / under : NAN;
}

/* What programs read has these units. */
static double scale_of(enum bench_unit unit)
{
	return unit == BENCH_TIME ? 1e6 : unit == BENCH_RATE ? 1e-9 : 1;
}

static void json_begin_line(const struct bench *b, const struct bench_row *row, struct json *json)
{
	const struct vpmm_info *info = &b->choice->info;

	json_begin(json, stdout);
	json_string(json, "benchmark", row->benchmark);
	json_string(json, "case", row->what);
	json_count(json, "number", row->number);
	json_string(json, "metric", row->metric);
	json_string(json, "backend", info->backend);
	json_string(json, "device", info->device_name);
	json_count(json, "driver_version", (uint64_t)info->driver_version);
	json_string(json, "version", vpmm_version());
	if (b->cold)
		json_bool(json, "cold", true);
}

static void json_line(const struct bench *b, const struct bench_row *row)
{
	double scale = scale_of(row->unit), ratio = ratio_of(row), sorted[BENCH_MOST_ROUNDS];
	struct json json;

	json_begin_line(b, row, &json);
	json_string(&json, "unit", unit_names[row->unit]);
	for (unsigned int who = 0; who < b->contenders; who++) {
		unsigned int n = sort_samples(row, who, sorted);

		if (!n)
			continue;
		json_open(&json, contender_name(row, who));
		json_count(&json, "rounds", n);
		json_decimal(&json, "median", bench_row_median(row, who) * scale, 4);
		json_decimal(&json, "least", sorted[0] * scale, 4);
		json_decimal(&json, "most", sorted[n - 1] * scale, 4);
		if (row->slowest_ns[who])
			json_decimal(&json, "slowest_us", (double)row->slowest_ns[who] / 1e3, 3);
		json_close(&json);
	}
	if (!isnan(ratio))
		json_decimal(&json, "ratio", ratio, 4);
	json_end(&json);
	flush_figures();
}

static void format_time(char text[UNITS_TEXT], double seconds)
{
	if (seconds < 1e-6)
		snprintf(text, UNITS_TEXT, "%.*f ns", seconds < 1e-8 ? 1 : 0, seconds * 1e9);
	else
		units_format_seconds(text, seconds);
}

/* As wide as a column at most. */
static void format_rate(char text[UNITS_TEXT], double rate)
{
	double gb = rate / 1e9;

	snprintf(text, UNITS_TEXT, "%.*f GB/s", gb < 9.995 ? 2 : gb < 99.95 ? 1 : 0, gb);
}

static void format_figure(char text[UNITS_TEXT], enum bench_unit unit, double value)
{
	if (isnan(value))
		g_strlcpy(text, "-", UNITS_TEXT);
	else if (unit == BENCH_TIME)
		format_time(text, value);
	else if (unit == BENCH_PERCENT)
		snprintf(text, UNITS_TEXT, "%.2f %%", value);
	else if (unit == BENCH_RATE)
		format_rate(text, value);
	else if (unit == BENCH_FACTOR)
		snprintf(text, UNITS_TEXT, "%.3f", value);
	else
		units_format_count(text, (uint64_t)(value + 0.5));
}

static void format_ratio(char text[UNITS_TEXT], double ratio)
{
	if (isnan(ratio))
		g_strlcpy(text, "-", UNITS_TEXT);
	else
		snprintf(text, UNITS_TEXT, "%.*f", ratio < 100 ? 3 : ratio < 10000 ? 1 : 0, ratio);
}

static void print_pending_head(struct bench *b, const struct bench_row *row)
{
	if (!b->head)
		return;
	putchar('\n');
	units_print_wrapped(stdout, 2, "%s", b->head);
	printf("%-21s", "");
	for (unsigned int who = 0; who < b->contenders; who++)
		printf(" " FIGURE, column_name(b, row, who));
	printf(" %7s", "ratio");
	/* Nothing is allocated by hand. */
	for (unsigned int who = 0; who <= BENCH_ASYNC && !row->by_hand; who++)
		printf(" %5s max", column_name(b, row, who));
	putchar('\n');
	b->head = NULL;
}

static void table_line(struct bench *b, const struct bench_row *row)
{
	double ratio = ratio_of(row);
	char text[UNITS_TEXT];

	print_pending_head(b, row);
	fputs(row->detail ? "    " : "  ", stdout);
	units_print_cell(stdout, row->detail ? row->metric : row->what, BENCH_WHAT_WIDTH - (row->detail ? 2 : 0));
	for (unsigned int who = 0; who < b->contenders; who++) {
		format_figure(text, row->unit, bench_row_median(row, who));
		printf(" " FIGURE, text);
	}
	format_ratio(text, ratio);
	printf(" %7s", text);
	for (unsigned int who = 0; who <= BENCH_ASYNC && row->slowest_ns[BENCH_VPMM]; who++) {
		format_figure(text, BENCH_TIME, row->slowest_ns[who] ? (double)row->slowest_ns[who] / 1e9 : NAN);
		printf(" " FIGURE, text);
	}
	putchar('\n');
	flush_figures();
}

void bench_print(struct bench *b, const struct bench_row *row)
{
	unsigned int n = 0;

	for (unsigned int who = 0; who < b->contenders; who++)
		n += row->n[who];
	if (!n)
		return;
	if (b->json)
		json_line(b, row);
	else
		table_line(b, row);
}

void bench_print_head(struct bench *b, const char *text)
{
	b->head = b->json ? NULL : text;
}

static void print_remark(struct bench *b, const struct bench_row *row, const char *key, const char *who,
			 const char *why)
{
	unsigned int left;
	struct json json;
	size_t length;

	if (b->json) {
		json_begin_line(b, row, &json);
		if (who)
			json_string(&json, "contender", who);
		json_string(&json, key, why);
		json_end(&json);
	} else {
		print_pending_head(b, row);
		length = units_fit(row->what, BENCH_WHAT_WIDTH, &left);
		units_print_wrapped(stdout, 22, "  %.*s%*s %s: %s%s%s", (int)length, row->what, (int)left, "", key,
				    who ? who : "", who ? ": " : "", why);
	}
	flush_figures();
}

void bench_skip(struct bench *b, const struct bench_row *row, const char *format, ...)
{
	va_list args;
	g_autofree char *why = NULL;

	va_start(args, format);
	why = g_strdup_vprintf(format, args);
	va_end(args);
	print_remark(b, row, "skipped", NULL, why);
}

void bench_note(struct bench *b, const struct bench_row *row, const char *what)
{
	print_remark(b, row, "note", NULL, what);
}

bool bench_fits(struct bench *b, const struct bench_row *row, uint64_t bytes)
{
	char needed[UNITS_TEXT], limit[UNITS_TEXT];

	if (bytes <= b->limit)
		return true;
	units_format_bytes(needed, bytes);
	units_format_bytes(limit, b->limit);
	bench_skip(b, row, b->limited ? "needs up to %s, and --limit is %s" :
		   "needs up to %s, and no more than %s are to be taken", needed, limit);
	return false;
}

void bench_fail(struct bench *b, const struct bench_row *row, enum contender who, const char *why)
{
	progress_end(&b->progress);
	b->errors++;
	fprintf(stderr, "%s: %s, %s, %s: %s\n", g_get_prgname(), row->benchmark, row->what,
		contender_name(row, who), why);
	print_remark(b, row, "error", contender_name(row, who), why);
}

static void explain_contenders(const struct bench *b)
{
	const struct vpmm_info *info = &b->choice->info;
	char *pool = choose_describe_pool(info);

	printf("vpmm     libvpmm %s, %s\n", vpmm_version(), pool);
	g_free(pool);
	if (on_host(b)) {
		units_print_wrapped(stdout, 9, "model    the host backend's model of the driver's stream-ordered "
				    "allocator, cuMemAllocAsync. It is no driver: these figures compare programs on "
				    "this CPU, and say nothing about a GPU.");
	} else {
		units_print_wrapped(stdout, 9, "async    the driver's stream-ordered allocator, cuMemAllocAsync, with "
				    "a memory pool of its own that keeps what it has");
		puts("malloc   the driver's plain allocator, cuMemAlloc");
	}
	printf("ratio    vpmm / %s: below 1, vpmm takes less\n", on_host(b) ? "model" : "async");
}

void bench_print_setup(const struct bench *b)
{
	const struct vpmm_info *info = &b->choice->info;
	char total[UNITS_TEXT], limit[UNITS_TEXT];

	if (b->json)
		return;
	units_format_bytes(total, info->memory_total);
	units_format_bytes(limit, b->limit);
	units_print_wrapped(stdout, 9, "Backend: %s (%s)", info->backend, b->choice->why);
	units_print_wrapped(stdout, 9, "Device:  %s, %s of memory, of which at most %s are taken",
			    info->device_name, total, limit);
	putchar('\n');
	explain_contenders(b);
	puts("max      the slowest single allocation of all rounds");
	putchar('\n');
	units_print_wrapped(stdout, 0, "Figures are medians over rounds in which they take turns: %u, and %u in grow, "
			    "harvest, resize, shared and replay.", b->rounds, b->heavy_rounds);
	if (b->cold)
		units_print_wrapped(stdout, 0,
				    "Before each call of pair, live, small and regions, other work takes the "
				    "processor's caches: it reads and writes %zu MiB. Only the calls are timed.",
				    MIX_WORK_BYTES / BENCH_MIB);
	flush_figures();
}
