// SPDX-License-Identifier: LGPL-2.1-or-later
#include "run-report.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "fail.h"
#include "stacks.h"
#include "units.h"

/* What is read of a line of the report. A member that an older object does not write is 0. */
#define MEMBERS(X) \
	X(device) X(mallocs) X(frees) X(reuses) X(steals) X(defrags) X(grows) X(waits) X(waits_sampled) X(wait_ns) \
	X(peak_requested) X(peak_live) X(peak_taken) X(creates) X(maps) X(accesses) X(unmaps) X(releases) X(driver_ns)

/* Stacks that are told, of those that hold most. */
#define STACKS_TOLD 5

struct line {
#define X(name) uint64_t name;
	MEMBERS(X)
#undef X
};

/* The objects have numbers only. */
static uint64_t member(const char *text, const char *name)
{
	g_autofree char *key = g_strdup_printf("\"%s\": ", name);
	const char *at = strstr(text, key);
	uint64_t value = at ? g_ascii_strtoull(at + strlen(key), NULL, 10) : 0;

	return value;
}

static struct line parse(const char *text)
{
	struct line line;

#define X(name) line.name = member(text, #name);
	MEMBERS(X)
#undef X
	return line;
}

static void tell_waits(FILE *out, const struct line *line)
{
	char time[UNITS_TEXT];

	units_format_seconds(time, line->waits_sampled ? (double)line->wait_ns / 1e9 / (double)line->waits_sampled *
							 (double)line->waits : 0);
	if (line->waits_sampled)
		table_count(out, "waits", line->waits, "of a stream for another, about %s in all", time);
	else
		table_count(out, "waits", line->waits, "of a stream for another, on the GPU");
}

static void tell_calls(FILE *out, const struct line *line)
{
	char time[UNITS_TEXT];

	table_count(out, "allocations", line->mallocs, "%s", "");
	table_count(out, "  reused", line->reuses, "by memory that was free");
	table_count(out, "  others'", line->steals, "by memory that another stream freed");
	table_count(out, "  remapped", line->defrags, "by free pieces, mapped together");
	table_count(out, "  grown", line->grows, "by new memory");
	table_count(out, "frees", line->frees, "%s", "");
	tell_waits(out, line);
	units_format_seconds(time, (double)line->driver_ns / 1e9);
	table_count(out, "driver calls",
		    line->creates + line->maps + line->accesses + line->unmaps + line->releases,
		    "to create and map memory, in %s", time);
}

static void tell_line(const struct run_report *report, pid_t pid, const struct line *line, bool again)
{
	FILE *out = report->out;

	table_begin(report, pid, (unsigned int)line->device, again ? "served by libvpmm, after a reset" : "served by libvpmm");
	tell_calls(out, line);
	table_memory_begin(out);
	table_memory(out, "requested by the program", line->peak_requested, 0);
	table_memory(out, "with sizes rounded up", line->peak_live, line->peak_requested);
	table_memory(out, "taken from the device", line->peak_taken, line->peak_requested);
	fputc('\n', out);
}

/* Prints the stacks of a pool that still hold something. Returns the line at which the next pool begins. */
static char **tell_stacks(FILE *out, char **lines)
{
	GPtrArray *stacks = stacks_new();
	char **at;
	guint hold = 0;

	for (at = lines; *at && **at != '{'; at++)
		stacks_add_line(stacks, *at);
	stacks_sort(stacks);
	while (hold < stacks->len && ((const struct stack *)stacks->pdata[hold])->live)
		hold++;
	if (stacks->len)
		fprintf(out, "  not freed: by %u sampled stack%s%s\n\n", hold, hold == 1 ? "" : "s",
			hold > STACKS_TOLD ? ", the first of them" : "");
	if (hold) {
		g_ptr_array_set_size(stacks, (gint)MIN(hold, STACKS_TOLD));
		stacks_resolve(stacks);
		stacks_print(stacks, STACKS_TOLD, out);
		fputc('\n', out);
	}
	g_ptr_array_unref(stacks);
	return at;
}

static int tell_file(const struct run_report *report, const struct traces_file *file, unsigned int *told)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;
	uint64_t known = 0;

	if (!g_file_get_contents(file->name, &text, NULL, &error)) {
		fprintf(stderr, "%s: %s\n", g_get_prgname(), error->message);
		return -EIO;
	}
	lines = g_strsplit(text, "\n", -1);
	for (char **at = lines; *at;) {
		struct line line = parse(*at++);
		uint64_t device = UINT64_C(1) << line.device % 64;

		if (!line.mallocs)
			continue;
		tell_line(report, file->pid, &line, known & device);
		at = tell_stacks(report->out, at);
		known |= device;
		++*told;
	}
	return 0;
}

int served_tell(const struct run_report *report)
{
	GArray *files = traces_list(report->files);
	unsigned int told = 0;
	int err = 0;

	for (guint i = 0; i < files->len; i++) {
		int wrong = tell_file(report, &g_array_index(files, struct traces_file, i), &told);

		err = err ? err : wrong;
	}
	if (told)
		fputs("  ratio    to what was requested: 1 is perfect, what is above it is lost\n", report->out);
	else if (!err)
		fprintf(report->out, "%s: %s: libvpmm served nothing in a process that exited; see DIAGNOSTICS in "
			"vpmm-run(1)\n", g_get_prgname(), report->program);
	g_array_unref(files);
	return err;
}
