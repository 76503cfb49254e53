// SPDX-License-Identifier: LGPL-2.1-or-later
/* Runs a CUDA program on libvpmm, unchanged; or on the driver, and tells what libvpmm would have taken. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "budget/parse.h"
#include "cli.h"
#include "fail.h"
#include "run-child.h"
#include "run-report.h"
#include "units.h"
#include "vpmm.h"

#define PROGRAM "vpmm-run"

struct options {
	gboolean monitor;
	char *report;			/* "": on standard error */
	char *trace;
	char *limit;
	char *budget;
	gboolean top;
	gboolean pausable;
	char *trace_pattern;
	FILE *out;			/* of the report */
};

static struct options options;

static const GOptionEntry entries[] = {
	{ "monitor", 0, 0, G_OPTION_ARG_NONE, &options.monitor,
	  "Leave all to the driver; print what libvpmm would take", NULL },
	{ "report", 0, 0, G_OPTION_ARG_FILENAME, &options.report,
	  "Print what libvpmm did, to FILE or standard error", "[FILE]" },
	{ "trace", 0, 0, G_OPTION_ARG_FILENAME, &options.trace,
	  "Record allocations and frees, for vpmm-replay", "FILE" },
	{ "limit", 0, 0, G_OPTION_ARG_FILENAME, &options.limit,
	  "Let libvpmm take no more than SIZE: 512M, 8G", "SIZE" },
	{ "budget", 0, 0, G_OPTION_ARG_FILENAME, &options.budget,
	  "Have all programs with this NAME share SIZE", "NAME[:SIZE]" },
	{ "pausable", 0, 0, G_OPTION_ARG_NONE, &options.pausable,
	  "Let vpmm-pause give the program's memory back for a while", NULL },
	{ "top", 0, 0, G_OPTION_ARG_NONE, &options.top, "Have vpmm-top show the pools of the program", NULL },
	G_OPTION_ENTRY_NULL
};

static const struct cli cli = {
	.summary = "[--] PROGRAM [ARGUMENT...] - run a CUDA program on libvpmm, unchanged",
	.description =
		"The variables of vpmm(7) and vpmm-preload(7) apply. SIGUSR1 has --monitor print\n"
		"its tables so far. Exit status: that of the program; 2 if an option, a setting or the\n"
		"program was refused, 126 if it cannot be run, 127 if it is not found.\n",
	.entries = entries,
	.command = true,
};

/* GLib would take the next argument for the value of an option that can do without. */
static void complete_report(int argc, char **argv)
{
	static char complete[] = "--report=";

	for (int i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--report") == 0)
			argv[i] = complete;
		else if (strcmp(argv[i], "--trace") == 0 || strcmp(argv[i], "--limit") == 0 ||
			 strcmp(argv[i], "--budget") == 0)
			i++;
	}
}

static void set_bytes(const char *variable, uint64_t bytes)
{
	g_autofree char *text = g_strdup_printf("%" PRIu64, (uint64_t)bytes);

	g_setenv(variable, text, TRUE);
}

static int check_limit(void)
{
	uint64_t bytes;

	if (!options.limit)
		return 0;
	if (units_parse_bytes("--limit", options.limit, &bytes))
		return -EINVAL;
	if (!bytes)
		return fail_set(-EINVAL, "--limit: expected at least one byte");
	set_bytes("VPMM_LIMIT", bytes);
	return 0;
}

static int check_budget(void)
{
	const char *why;
	uint64_t size;
	size_t name;

	if (!options.budget)
		return 0;
	why = budget_parse(options.budget, &name, &size);
	if (why)
		return fail_set(-EINVAL, "--budget: %s: %s", options.budget, why);
	if (options.monitor)
		return fail_set(-EINVAL, "--budget: not with --monitor, which leaves all to the driver");
	g_setenv("VPMM_BUDGET", options.budget, TRUE);
	return 0;
}

/* What --monitor records is not compressed, so that it can be read before it is complete. */
static int check_trace(void)
{
	const char *variable = g_getenv("VPMM_TRACE");
	const char *name = options.trace ? options.trace : options.monitor ? variable : NULL;
	int err;

	if (!name || (!options.trace && (!*name || !strcmp(name, "none"))))
		return 0;
	if (options.monitor && g_str_has_suffix(name, ".gz"))
		return fail_set(-EINVAL, "--trace: %s: with --monitor a trace cannot be compressed", name);
	err = traces_absolute("--trace", name, &options.trace_pattern);
	if (!err && options.monitor)
		err = traces_replaceable("--trace", options.trace_pattern);
	if (err)
		return err;
	/* Pools of the program's own would replace what the object records of the program. */
	if (options.monitor)
		g_unsetenv("VPMM_TRACE");
	else
		g_setenv("VPMM_TRACE", options.trace_pattern, TRUE);
	return 0;
}

static int check_report(void)
{
	options.out = stderr;
	if (!options.report || !*options.report)
		return 0;
	/* The old report stays until there is a new one. */
	options.out = fopen(options.report, "ae");
	if (!options.out) {
		int err = errno;

		return fail_set(-err, "--report: %s: %s", options.report, g_strerror(err));
	}
	return 0;
}

/* Better now than by a program that finds no memory, or by the replay when the program has ended. */
static int check_settings(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts) };
	int err;

	if (options.monitor)
		return monitor_check();
	err = vpmm_opts_from_env(&opts);
	return err ? fail_set(err, "%s", vpmm_last_error()) : 0;
}

static void set_unless_given(const char *variable, const char *text)
{
	const char *value = g_getenv(variable);

	if (!value || !*value)
		g_setenv(variable, text, TRUE);
}

/* Threads allocate under a tag that can be paused. */
static void set_pausable(void)
{
	g_setenv("VPMM_PAUSABLE", "1", TRUE);
	set_unless_given("VPMM_TAG", "program");
}

static int check_options(void)
{
	int err;

	if (options.monitor && options.report)
		return fail_set(-EINVAL, "--report: not with --monitor, which leaves all to the driver");
	if (options.monitor && options.top)
		return fail_set(-EINVAL, "--top: with --monitor the program has no pool");
	if (options.monitor && options.pausable)
		return fail_set(-EINVAL, "--pausable: with --monitor the program has no pool");
	/* The program can share all of its memory with other processes by CUDA's legacy IPC. */
	set_unless_given("VPMM_EXPORT", "auto");
	if (options.pausable)
		set_pausable();
	if (options.top)
		g_setenv("VPMM_TOP", "1", TRUE);
	err = check_limit();
	if (!err)
		err = check_budget();
	if (!err)
		err = check_trace();
	if (!err)
		err = check_settings();
	return err;
}

static void tell_so_far(const struct child *child, void *data)
{
	monitor_tell(&(struct run_report){ child->argv[0], child->pid, data, stderr });
}

/* Emptied; a device or a pipe has nothing to empty. */
static FILE *report_file(void)
{
	if (options.out != stderr && ftruncate(fileno(options.out), 0) && errno != EINVAL)
		fprintf(stderr, "%s: --report: %s: %s\n", PROGRAM, options.report, g_strerror(errno));
	return options.out;
}

static void tell(const struct child *child, const struct traces *files)
{
	/* Whoever reads the tables may have seen enough; there are records to remove, and a status to end with. */
	signal(SIGPIPE, SIG_IGN);
	if (options.monitor)
		monitor_tell(&(struct run_report){ child->argv[0], child->pid, files, stderr });
	else
		served_tell(&(struct run_report){ child->argv[0], child->pid, files, report_file() });
	if (options.out != stderr && fflush(options.out))
		fprintf(stderr, "%s: --report: %s: %s\n", PROGRAM, options.report, g_strerror(errno));
}

/* Stays until the program has ended. */
static int watch(struct child *child)
{
	const char *variable = options.monitor ? "VPMM_PRELOAD_TRACE" : "VPMM_PRELOAD_REPORT";
	static struct traces traces;
	int status = 0, err;

	child_hold_signals(child);
	err = traces_begin(&traces, options.monitor ? options.trace_pattern : NULL,
			   options.monitor ? ".trace" : ".report");
	if (err)
		return cli_refuse("%s", fail_text());
	g_setenv(variable, traces.pattern, TRUE);
	g_setenv("VPMM_PRELOAD_MONITOR", options.monitor ? "1" : "0", TRUE);
	if (options.monitor) {
		child->asked = tell_so_far;
		child->data = &traces;
	}
	/* Once the program has ended, as there are files to remove; until then these are passed on. */
	interrupt_catch(false);
	err = child_run(child, &status);
	if (!err)
		tell(child, &traces);
	traces_end(&traces);
	if (err)
		return cli_refuse("%s", fail_text());
	interrupt_end();
	return child_end_like(status);
}

static int say(int status)
{
	fprintf(stderr, "%s: %s\n", PROGRAM, fail_text());
	return status;
}

static int run(struct child *child)
{
	g_autofree char *path = NULL;

	/* Without one GLib looks into the current folder as well, and execvp() into these two. */
	g_setenv("PATH", "/bin:/usr/bin", FALSE);
	path = g_find_program_in_path(child->argv[0]);
	child->path = path ? path : child->argv[0];
	/* What is wrong with a program that cannot be run, execvp() knows. */
	if (!path)
		return say(child_exec(child));
	if (target_check(path) || object_preload() || check_report())
		return cli_refuse("%s", fail_text());
	return options.monitor || options.report ? watch(child) : say(child_exec(child));
}

static void free_options(void)
{
	if (options.out && options.out != stderr)
		fclose(options.out);
	g_free(options.report);
	g_free(options.trace);
	g_free(options.limit);
	g_free(options.budget);
	g_free(options.trace_pattern);
}

int main(int argc, char **argv)
{
	struct child child = { 0 };
	int status = 0;

	g_set_prgname(PROGRAM);
	child_look(&child.before);
	complete_report(argc, argv);
	if (!cli_parse(&cli, &argc, &argv, &status))
		return status;
	child.argv = argv + 1;
	if (!*child.argv)
		status = cli_refuse("no program given; see " PROGRAM " --help");
	else if (check_options())
		status = cli_refuse("%s", fail_text());
	else
		status = run(&child);
	free_options();
	return status;
}
