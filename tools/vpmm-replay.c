// SPDX-License-Identifier: LGPL-2.1-or-later
/* Runs recorded allocations of real programs, and tells what they cost. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "cli.h"
#include "export.h"
#include "fail.h"
#include "output.h"
#include "overlap-rows.h"
#include "picture.h"
#include "progress.h"
#include "replay.h"
#include "report.h"
#include "stacks.h"
#include "trace-tags.h"
#include "units.h"

#define PROGRAM "vpmm-replay"

struct options {
	char *backend;
	char *allocator;
	char *lag;
	char *limit;
	char *tags;
	char *picture;
	char *export;
	char *output;
	char **traces;
	gboolean verify;
	gboolean overlap;
	gboolean json;
	char *repeat;
	unsigned int passes;
	uint64_t lag_us;
	uint64_t limit_bytes;
};

static struct options options = { .passes = 1 };

static const GOptionEntry entries[] = {
	{ "backend", 'b', 0, G_OPTION_ARG_FILENAME, &options.backend,
	  "cuda, host or auto (default: VPMM_BACKEND, or auto)", "B" },
	{ "allocator", 'a', 0, G_OPTION_ARG_FILENAME, &options.allocator,
	  "vpmm (default), async or malloc", "A" },
	{ "verify", 'v', 0, G_OPTION_ARG_NONE, &options.verify,
	  "Write to each allocation, and check it before its free", NULL },
	{ "lag", 'l', 0, G_OPTION_ARG_FILENAME, &options.lag,
	  "Complete work T after it was submitted: 50us, 1ms, 2s (host)", "T" },
	{ "repeat", 'r', 0, G_OPTION_ARG_FILENAME, &options.repeat,
	  "Run each trace N times on the same pool", "N" },
	{ "limit", 'm', 0, G_OPTION_ARG_FILENAME, &options.limit,
	  "Limit the device to BYTES of memory: 512M, 8G", "BYTES" },
	{ "overlap", 'O', 0, G_OPTION_ARG_NONE, &options.overlap,
	  "Compare memory and time for values of VPMM_OVERLAP (host)", NULL },
	{ "tags", 't', 0, G_OPTION_ARG_FILENAME, &options.tags,
	  "Give blocks pausable tags by RULE: kept, stream, size", "RULE" },
	{ "picture", 'p', 0, G_OPTION_ARG_FILENAME, &options.picture,
	  "Draw memory and addresses: FILE.svg, FILE.html", "FILE" },
	{ "export", 'e', 0, G_OPTION_ARG_FILENAME, &options.export,
	  "Write a replay as memory_viz or perfetto, the stacks of a dump as pprof or stacks", "FORMAT" },
	{ "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
	  "Where the export goes (default: standard output)", "FILE" },
	{ "json", 'j', 0, G_OPTION_ARG_NONE, &options.json,
	  "Print one JSON object for each pass", NULL },
	{ G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options.traces, NULL, "TRACE..." },
	G_OPTION_ENTRY_NULL
};

static const struct cli cli = {
	.summary = "- run recorded allocations and report what they cost",
	.description =
		"A trace is plain or compressed by gzip; - is standard input. Exit status: 0, 1 if\n"
		"there were errors, 2 if an option, a trace or a setting was refused, or the output\n"
		"could not be written. ^C ends it with a report of the passes that are done.\n",
	.entries = entries,
};

static int check_picture(void)
{
	if (picture_check_name(options.picture))
		return cli_refuse("%s", fail_text());
	if (strcmp(options.allocator, "vpmm") != 0)
		return cli_refuse("--picture: expected --allocator=vpmm; the others are in its picture");
	if (options.traces[1])
		return cli_refuse("--picture: expected one trace");
	return 0;
}

static int check_export(void)
{
	if (strcmp(options.allocator, "vpmm") != 0)
		return cli_refuse("--export: expected --allocator=vpmm");
	if (options.traces[1] || options.passes > 1)
		return cli_refuse("--export: expected one trace, and one pass");
	if (options.picture)
		return cli_refuse("--export: expected no --picture beside it");
	if (options.json && !options.output)
		return cli_refuse("--export: with --json, name a file by --output");
	return 0;
}

/* Work has other times then, and nothing else of it is told. */
static int check_overlap(void)
{
	if (strcmp(options.allocator, "vpmm") != 0)
		return cli_refuse("--overlap: expected --allocator=vpmm");
	if (options.verify || options.lag)
		return cli_refuse("--overlap: expected neither --verify nor --lag beside it");
	if (options.picture || options.export)
		return cli_refuse("--overlap: expected neither --picture nor --export beside it");
	if (!options.backend)
		options.backend = g_strdup("host");
	return 0;
}

static int check_options(void)
{
	if (!options.allocator)
		options.allocator = g_strdup("vpmm");
	if (!g_strv_contains((const char *const[]){ "vpmm", "async", "malloc", NULL }, options.allocator))
		return cli_refuse("--allocator: \"%s\": expected vpmm, async or malloc", options.allocator);
	if (units_parse_count("--repeat", options.repeat, 1, INT_MAX, &options.passes))
		return cli_refuse("%s", fail_text());
	if (options.lag && units_parse_time("--lag", options.lag, &options.lag_us))
		return cli_refuse("%s", fail_text());
	if (options.limit && units_parse_bytes("--limit", options.limit, &options.limit_bytes))
		return cli_refuse("%s", fail_text());
	if (options.limit && !options.limit_bytes)
		return cli_refuse("--limit: expected at least one byte");
	if (options.tags && trace_tags_check(options.tags))
		return cli_refuse("%s", fail_text());
	if (!options.traces)
		return cli_refuse("no trace given; see " PROGRAM " --help");
	if (options.output && !options.export)
		return cli_refuse("--output: expected --export beside it");
	if (options.overlap)
		return check_overlap();
	if (options.export)
		return check_export();
	return options.picture ? check_picture() : 0;
}

static void free_options(void)
{
	g_free(options.backend);
	g_free(options.allocator);
	g_free(options.lag);
	g_free(options.limit);
	g_free(options.repeat);
	g_free(options.tags);
	g_free(options.picture);
	g_free(options.export);
	g_free(options.output);
	g_strfreev(options.traces);
}

static bool show_reading(void *data, uint64_t done, uint64_t total)
{
	progress_show(data, done, total);
	return !interrupt_signal;
}

static int load(const char *name, struct trace **trace)
{
	struct progress progress;
	int err;

	/* Standard input may keep the reader waiting for ever. */
	interrupt_catch(true);
	progress_begin(&progress, "reading");
	err = trace_load(name, show_reading, &progress, trace);
	progress_end(&progress);
	interrupt_catch(false);
	for (struct trace *pool = *trace; pool && options.tags; pool = pool->next)
		trace_tags_give(pool, options.tags);
	return err;
}

static int interrupted(const struct replay_setup *setup, const struct replay_result *result)
{
	char done[UNITS_TEXT], all[UNITS_TEXT];

	units_format_count(done, result->operations);
	units_format_count(all, setup->trace->n_ops);
	return fail_set(-EINTR, "%s: interrupted in pass %u of %u, after %s of its %s operations", setup->trace->name,
			result->pass, setup->passes, done, all);
}

static int keep_row(const struct report_run *run, struct report_row *row, const struct replay_setup *setup,
		    GArray *rows)
{
	row->trace = g_strdup(setup->trace->name);
	g_array_append_vals(rows, row, 1);
	if (!options.json)
		return 0;
	progress_end(setup->progress);
	report_json(stdout, run, row);
	return cli_flush_output("the report");
}

/* Without @rows they are only watched. */
static int run_passes(struct replay_setup *setup, const struct report_run *run, struct picture *picture, GArray *rows)
{
	struct report_row row;
	int err = 0;

	setup->passes = options.passes;
	setup->stop = &interrupt_signal;
	progress_begin(setup->progress, "replaying");
	for (unsigned int pass = 1; pass <= setup->passes && !err; pass++) {
		row = (struct report_row){ .numbered = setup->passes > 1 };
		if (!replay_pass(setup, pass, &row.result)) {
			err = interrupted(setup, &row.result);
			break;
		}
		if (picture)
			picture_note(picture, &row.result);
		if (rows)
			err = keep_row(run, &row, setup, rows);
	}
	progress_end(setup->progress);
	return err;
}

static int open_setup(struct replay_setup *setup, const struct report_run *run, const char *allocator)
{
	const struct device_opts dev_opts = {
		.verify = options.verify,
		.lag = options.lag,
		.lag_us = options.lag_us,
		.limit = options.limit_bytes,
	};

	return replay_open(setup, dev_opts, allocator, &run->choice->opts);
}

/* An allocator that this device does not have is missing from the picture. */
static int compare(const struct replay_setup *like, const struct report_run *run, struct picture *picture,
		   const char *allocator, enum picture_line line)
{
	struct replay_setup setup = *like;
	int err;

	setup.quiet = true;
	if (open_setup(&setup, run, allocator))
		return 0;
	setup.watch = picture_watch(picture, setup.allocator, line);
	err = run_passes(&setup, run, picture, NULL);
	replay_close(&setup);
	return err;
}

static int draw(const struct replay_setup *setup, const struct report_run *run, struct picture *picture)
{
	int err = 0;

	/* The host backend's model of it took up to half more than a GPU's driver did. */
	if (strcmp(run->choice->info.backend, "host") != 0)
		err = compare(setup, run, picture, "async", PICTURE_ASYNC);
	if (!err)
		err = compare(setup, run, picture, "malloc", PICTURE_MALLOC);
	return err ? err : picture_write(picture, run);
}

/* Who looks on; either may be NULL. */
struct lookers {
	struct picture *picture;
	struct export *export;
};

static int run_pool(const struct trace *trace, const struct report_run *run, const struct lookers *lookers,
		    GArray *rows)
{
	struct progress progress;
	struct replay_setup setup = {
		.trace = trace,
		.page_size = run->choice->info.page_size,
		.progress = &progress,
	};
	struct picture *picture = lookers->picture;
	int err;

	err = open_setup(&setup, run, options.allocator);
	if (err)
		return err;
	if (picture) {
		picture_begin(picture, trace, options.passes);
		setup.watch = picture_watch(picture, setup.allocator, PICTURE_TAKEN);
	} else if (lookers->export) {
		setup.watch = export_watch(lookers->export, trace, setup.allocator);
	}
	err = run_passes(&setup, run, picture, rows);
	replay_close(&setup);
	return err || !picture ? err : draw(&setup, run, picture);
}

/* Each pool of the file is replayed by itself, with the device to itself. */
static int run_trace(const char *name, const struct report_run *run, const struct lookers *lookers, GArray *rows)
{
	struct trace *trace = NULL;
	int err;

	err = load(name, &trace);
	if (!err && lookers->picture && trace->next)
		err = fail_set(-EINVAL, "--picture: %s has several pools, and a picture is of one", name);
	for (const struct trace *pool = trace; pool && !err; pool = pool->next)
		err = run_pool(pool, run, lookers, rows);
	trace_free(trace);
	return err;
}

static void clear_row(void *row)
{
	g_free(((struct report_row *)row)->trace);
}

/* Opens what is to be written before anything is run. */
static int open_lookers(struct lookers *lookers, struct picture *picture, struct export *export)
{
	int err = 0;

	if (options.picture) {
		lookers->picture = picture;
		err = picture_open(picture, options.picture);
	} else if (options.export) {
		lookers->export = export;
		err = export_open(export, options.export, options.output);
	}
	return err;
}

static void close_lookers(const struct lookers *lookers)
{
	if (lookers->picture)
		picture_close(lookers->picture);
	if (lookers->export)
		export_close(lookers->export);
}

/* Where an export goes to standard output, the report has no place. */
static bool has_table(void)
{
	return !options.json && !(options.export && !options.output);
}

static int run_traces(const struct choice *choice)
{
	struct report_run run = {
		.choice = choice,
		.allocator = options.allocator,
		.verify = options.verify,
		.lag = options.lag,
		.lag_us = options.lag_us,
		.limit = options.limit_bytes,
	};
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct report_row));
	struct lookers lookers = { NULL, NULL };
	struct picture picture;
	struct export export;
	int err, status = 0;

	pool_settings_collect(&run.settings, choice, options.backend);
	g_array_set_clear_func(rows, clear_row);
	err = open_lookers(&lookers, &picture, &export);
	for (char **name = options.traces; name && *name && !err; name++)
		err = run_trace(*name, &run, &lookers, rows);
	if (!err && lookers.export)
		err = export_write(&export);
	close_lookers(&lookers);
	if (has_table() && rows->len)
		report_table(stdout, &run, (struct report_row *)(void *)rows->data, rows->len);
	if (err) {
		/* The reason stands below the table, on a terminal. */
		fflush(stdout);
		status = cli_refuse("%s", fail_text());
	} else {
		status = cli_finish_output(has_table() || options.json ? "the report" : "the export");
	}
	for (guint i = 0; i < rows->len && !status; i++) {
		if (g_array_index(rows, struct report_row, i).result.errors)
			status = CLI_ERRORS;
	}
	g_array_free(rows, TRUE);
	return status;
}

/* Each pool of the file by itself. */
static int tell_overlap(const char *name, const struct choice *choice, bool *failed)
{
	struct trace *trace = NULL;
	int err;

	err = load(name, &trace);
	for (const struct trace *pool = trace; pool && !err; pool = pool->next) {
		struct overlap_rows rows = { .trace = pool, .choice = choice };

		err = overlap_rows_run(&rows, options.passes);
		if (!err && options.json)
			overlap_rows_json(&rows, stdout);
		else if (!err)
			overlap_rows_table(&rows, stdout);
		if (!err)
			err = cli_flush_output("the report");
		*failed = *failed || overlap_rows_failed(&rows);
		overlap_rows_clear(&rows);
	}
	trace_free(trace);
	return err;
}

static int tell_overlaps(const struct choice *choice)
{
	bool failed = false;
	int err = 0;

	if (strcmp(choice->opts.backend, "host") != 0)
		return cli_refuse("--overlap: only the host backend has a clock for it; this one is cuda");
	for (char **name = options.traces; *name && !err; name++)
		err = tell_overlap(*name, choice, &failed);
	if (err)
		return cli_refuse("%s", fail_text());
	return failed ? CLI_ERRORS : 0;
}

/* On the host backend a limit is the capacity of the device; on cuda the device of the replay sees to it. */
static int choose(struct choice *choice)
{
	char capacity[UNITS_TEXT];
	int err;

	err = choose_backend(options.backend, choice);
	if (err || !options.limit || strcmp(choice->opts.backend, "host") != 0)
		return err;
	g_free(choice->why);
	if (options.limit_bytes < choice->info.granularity)
		return fail_set(-EINVAL,
				"--limit: %s: expected %" PRIu64 " bytes or more, the least that the "
				"device can map", options.limit, choice->info.granularity);
	snprintf(capacity, sizeof(capacity), "%" PRIu64, (uint64_t)options.limit_bytes);
	g_setenv("VPMM_HOST_CAPACITY", capacity, TRUE);
	return choose_backend(options.backend, choice);
}

static bool is_of_dump(const char *format)
{
	return format && (strcmp(format, "pprof") == 0 || strcmp(format, "stacks") == 0);
}

static int write_stacks(GPtrArray *stacks, FILE *out)
{
	if (strcmp(options.export, "pprof") == 0)
		return stacks_write_pprof(stacks, out);
	stacks_print(stacks, stacks->len, out);
	return 0;
}

static int write_stacks_file(GPtrArray *stacks)
{
	struct output output;
	int err;

	err = output_begin(&output, options.output);
	if (err)
		return fail_set(err, "--output: %s: %s", options.output, g_strerror(-err));
	errno = 0;
	err = write_stacks(stacks, output.file);
	if (err) {
		output_drop(&output);
		return err;
	}
	err = output_finish(&output);
	return err ? fail_set(err, "--output: %s: %s", options.output, g_strerror(-err)) : 0;
}

/* A dump is not replayed: no device is needed. */
static int export_stacks(void)
{
	GPtrArray *stacks;
	int err;

	err = stacks_load(options.traces[0], &stacks);
	if (!err) {
		stacks_resolve(stacks);
		err = options.output ? write_stacks_file(stacks) : write_stacks(stacks, stdout);
		g_ptr_array_unref(stacks);
	}
	return err ? cli_refuse("%s", fail_text()) : cli_finish_output("the export");
}

static int replay(void)
{
	struct choice choice;
	int status;

	status = check_options();
	if (status)
		return status;
	if (is_of_dump(options.export))
		return export_stacks();
	if (choose(&choice))
		return cli_refuse("%s", fail_text());
	if (options.overlap)
		status = tell_overlaps(&choice);
	else if (options.lag && strcmp(choice.opts.backend, "host") != 0)
		status = cli_refuse("--lag: only streams of the host backend can be held back; this one is cuda");
	else
		status = run_traces(&choice);
	g_free(choice.why);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0;

	g_set_prgname(PROGRAM);
	if (cli_parse(&cli, &argc, &argv, &status))
		status = replay();
	free_options();
	interrupt_end();
	return status;
}
