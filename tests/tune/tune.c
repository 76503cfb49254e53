// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The evidence for the policy: what programs that nobody tuned for take in memory and in driver calls. All of it runs
 * on the host backend and gives the same figures each time, so anyone can repeat it.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"
#include "measure.h"
#include "overlap.h"
#include "program.h"
#include "rules.h"
#include "save.h"
#include "tune.h"
#include "policy/tuning.h"

static struct {
	gint overhead;
	gint seeds;
	gint jobs;
	gboolean each;
	gboolean rules;
	gchar *write;
	gchar *keep;
	gchar **only;
	gchar **set;
	gchar **traces;
} options = { .overhead = 1, .seeds = 3 };

static const GOptionEntry option_entries[] = {
	{ "overhead", 'o', 0, G_OPTION_ARG_INT, &options.overhead, "VPMM_OVERHEAD of the pools", "PERCENT" },
	{ "seeds", 's', 0, G_OPTION_ARG_INT, &options.seeds, "copies of a trace and programs of a family", "N" },
	{ "jobs", 'j', 0, G_OPTION_ARG_INT, &options.jobs, "processes at a time", "N" },
	{ "each", 'e', 0, G_OPTION_ARG_NONE, &options.each, "a line for each program", NULL },
	{ "rules", 'r', 0, G_OPTION_ARG_NONE, &options.rules, "a table with each rule of the policy off by itself", NULL },
	{ "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options.set, "another value for a number of the policy", "NAME=VALUE" },
	{ "price", 0, 0, G_OPTION_ARG_DOUBLE, &measure_price, "driver calls as many times as dear as on an H200", "FACTOR" },
	{ "keep", 0, 0, G_OPTION_ARG_STRING, &options.keep,
	  "what a pass leaves is freed before or after the next allocates in its place; 40 passes", "before|after" },
	{ "write", 'w', 0, G_OPTION_ARG_FILENAME, &options.write, "only write what can be a trace, into DIR", "DIR" },
	{ "only", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options.only, "only programs whose name has TEXT in it", "TEXT" },
	{ G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options.traces, NULL, "TRACE..." },
	{ NULL }
};

static const char *const kind_names[KINDS] = { "recorded traces", "other sizes", "other lifetimes", "families" };

static bool is_wanted(const char *name)
{
	bool wanted = !options.only;

	for (gchar **only = options.only; only && *only; only++)
		wanted = wanted || strstr(name, *only);
	return wanted;
}

static void add(GArray *entries, enum kind kind, struct trace *trace)
{
	struct entry entry = { .kind = kind, .trace = trace };

	if (is_wanted(trace->name))
		g_array_append_val(entries, entry);
	else
		trace_free(trace);
}

static void add_trace(GArray *entries, const char *file)
{
	struct trace *trace = NULL;
	char *base = g_path_get_basename(file);

	if (trace_load(file, NULL, NULL, &trace)) {
		fprintf(stderr, "tune: %s\n", fail_text());
		exit(2);
	}
	for (size_t i = 0; i < trace->n_ops; i++) {
		if (trace->ops[i].kind == TRACE_ALLOC || trace->ops[i].kind == TRACE_FREE)
			continue;
		fprintf(stderr, "tune: %s:%u: only allocations and frees can be varied\n", file, trace->ops[i].line);
		exit(2);
	}
	g_free(trace->name);
	base[strcspn(base, ".")] = 0;
	trace->name = base;
	for (gint i = 1; i <= options.seeds; i++) {
		add(entries, KIND_SIZES, copy_sizes(trace, (uint32_t)i));
		add(entries, KIND_LIFETIMES, copy_lifetimes(trace, (uint32_t)i));
	}
	add(entries, KIND_TRACE, trace);
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->kind != y->kind)
		return (int)x->kind - (int)y->kind;
	return strcmp(x->trace->name, y->trace->name);
}

static GArray *make_entries(void)
{
	GArray *entries = g_array_new(FALSE, FALSE, sizeof(struct entry));

	for (gchar **file = options.traces; file && *file; file++)
		add_trace(entries, *file);
	for (size_t i = 0; i < n_families; i++) {
		for (gint seed = 1; seed <= options.seeds; seed++)
			add(entries, KIND_FAMILY, family_program(&families[i], (uint32_t)seed));
	}
	g_array_sort(entries, compare_entries);
	return entries;
}

static GPtrArray *make_overlaps(void)
{
	GPtrArray *overlaps = g_ptr_array_new();

	for (size_t i = 0; i < n_overlap_families; i++) {
		for (gint seed = 1; seed <= options.seeds; seed++) {
			struct overlap *p = overlap_program(&overlap_families[i], (uint32_t)seed);

			if (is_wanted(p->name))
				g_ptr_array_add(overlaps, p);
			else
				overlap_free(p);
		}
	}
	return overlaps;
}

/* Memory that the processes share. */
static void *share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		fprintf(stderr, "tune: out of memory\n");
		exit(2);
	}
	return memory;
}

static struct results share_results(const struct programs *programs)
{
	return (struct results){
		.entries = share((programs->entries->len + 1) * sizeof(struct measured)),
		.overlaps = share((programs->overlaps->len + 1) * sizeof(struct overlap_measured)),
	};
}

static void measure_program(guint i, const struct programs *programs, const struct results *results)
{
	if (i < programs->entries->len)
		measure(g_array_index(programs->entries, struct entry, i).trace, options.overhead, &results->entries[i]);
	else
		overlap_measure(programs->overlaps->pdata[i - programs->entries->len], options.overhead, !results->off,
				&results->overlaps[i - programs->entries->len]);
}

/* With the rule of @results off. */
static void measure_entry(guint i, const struct programs *programs, const struct results *results)
{
	const struct tuning_number *off = results->off;
	int64_t value = off ? *off->value : 0;

	if (off)
		*off->value = off->off;
	measure_program(i, programs, results);
	if (off)
		*off->value = value;
}

/*
 * Measures each program for each of @results, of struct results. Processes rather than threads: the host backend has
 * one device, and one clock, for all of a process.
 */
static void measure_all(const struct programs *programs, const GArray *results)
{
	guint n = programs->entries->len + programs->overlaps->len;
	guint *next = share(sizeof(*next));
	gint jobs = options.jobs ? options.jobs : (gint)g_get_num_processors();

	for (gint job = 0; job < jobs; job++) {
		pid_t child = fork();

		if (child < 0) {
			fprintf(stderr, "tune: a process could not be started\n");
			exit(2);
		}
		if (child)
			continue;
		for (;;) {
			guint i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);

			if (i >= n * results->len)
				_exit(0);
			measure_entry(i % n, programs, &g_array_index(results, struct results, i / n));
		}
	}
	for (gint job = 0; job < jobs; job++) {
		int status;

		if (wait(&status) < 0 || status)
			fprintf(stderr, "tune: a process failed\n");
	}
	munmap(next, sizeof(*next));
}

static void print_each(const GArray *entries, const struct measured *results)
{
	printf("%-44s %8s %9s %8s %8s %8s\n", "program", "taken", "live MB", "ms", "pass 2", "last");
	for (guint i = 0; i < entries->len; i++)
		printf("%-44s %8.4f %9.1f %8.1f %8.1f %8.1f%s\n", g_array_index(entries, struct entry, i).trace->name,
		       measured_ratio(&results[i]), (double)results[i].live / 1e6, results[i].first, results[i].second,
		       results[i].last, results[i].failed ? "  FAILED" : "");
}

/* Of the programs of one kind: what they took, and what the driver's calls would cost. */
static void print_kind(enum kind kind, const GArray *entries, const struct measured *results)
{
	double sum = 0, first = 0, second = 0, last = 0;
	guint n = 0, worst = 0;

	for (guint i = 0; i < entries->len; i++) {
		if (g_array_index(entries, struct entry, i).kind != kind)
			continue;
		if (!n++ || measured_ratio(&results[i]) > measured_ratio(&results[worst]))
			worst = i;
		sum += measured_ratio(&results[i]);
		first += results[i].first;
		second += results[i].second;
		last += results[i].last;
	}
	if (n)
		printf("%-18s %8u %8.4f %8.4f %9.1f %8.1f %8.1f   %s\n", kind_names[kind], n, sum / n, measured_ratio(&results[worst]),
		       first, second, last, g_array_index(entries, struct entry, worst).trace->name);
}

static void print_kinds(const GArray *entries, const struct measured *results)
{
	printf("%-18s %8s %8s %8s %9s %8s %8s   %s\n", "kind", "programs", "mean", "worst", "ms", "pass 2", "last",
	       "the worst");
	for (enum kind kind = 0; kind < KINDS; kind++)
		print_kind(kind, entries, results);
}

static bool any_failed(const struct programs *programs, const struct results *results)
{
	for (guint i = 0; i < programs->entries->len; i++) {
		if (results->entries[i].failed || !results->entries[i].live)
			return true;
	}
	for (guint i = 0; i < programs->overlaps->len; i++) {
		if (results->overlaps[i].failed || !results->overlaps[i].live)
			return true;
	}
	return false;
}

static bool set_keep(const char *text)
{
	static const char *const names[] = { [MEASURE_KEEP_BEFORE] = "before", [MEASURE_KEEP_AFTER] = "after" };

	for (size_t i = MEASURE_KEEP_BEFORE; i < G_N_ELEMENTS(names); i++) {
		if (!strcmp(text, names[i]))
			measure_keep = (enum measure_keep)i;
	}
	if (measure_keep)
		return true;
	fprintf(stderr, "tune: --keep=%s: expected before or after\n", text);
	return false;
}

static bool set_number(const char *text)
{
	const char *equals = strchr(text, '=');

	for (const struct tuning_number *number = tuning_numbers; equals && number->name; number++) {
		if (strlen(number->name) != (size_t)(equals - text) || strncmp(number->name, text, strlen(number->name)))
			continue;
		*number->value = g_ascii_strtoll(equals + 1, NULL, 10);
		return true;
	}
	fprintf(stderr, "tune: --set=%s names no number of the policy\n", text);
	return false;
}

static bool parse(int argc, char **argv)
{
	GOptionContext *context = g_option_context_new(NULL);
	GError *error = NULL;
	bool good;

	g_option_context_add_main_entries(context, option_entries, NULL);
	good = g_option_context_parse(context, &argc, &argv, &error);
	g_option_context_free(context);
	if (!good) {
		fprintf(stderr, "tune: %s\n", error->message);
		g_error_free(error);
		return false;
	}
	if (options.seeds < 1 || options.jobs < 0) {
		fprintf(stderr, "tune: --seeds is a number from 1 on, --jobs from 0 on\n");
		return false;
	}
	if (options.keep && !set_keep(options.keep))
		return false;
	for (gchar **set = options.set; set && *set; set++) {
		if (!set_number(*set))
			return false;
	}
	return true;
}

static void print(const struct programs *programs, const struct results *results)
{
	if (options.each && programs->entries->len)
		print_each(programs->entries, results->entries);
	if (programs->entries->len)
		print_kinds(programs->entries, results->entries);
	if (options.each && programs->overlaps->len)
		overlap_print_each(programs->overlaps, results->overlaps);
	overlap_print_families(programs->overlaps, results->overlaps);
}

/* The policy as it is, and then with each rule off. */
static GArray *make_results(const struct programs *programs)
{
	GArray *all = g_array_new(FALSE, FALSE, sizeof(struct results));
	struct results results = share_results(programs);

	g_array_append_val(all, results);
	for (const struct tuning_number *number = tuning_numbers; options.rules && number->name; number++) {
		if (number->off == *number->value)
			continue;
		results = share_results(programs);
		results.off = number;
		g_array_append_val(all, results);
	}
	return all;
}

/* Return: the exit status. */
static int measure_programs(const struct programs *programs)
{
	GArray *all = make_results(programs);
	bool failed = false;

	measure_all(programs, all);
	print(programs, &g_array_index(all, struct results, 0));
	if (options.rules)
		rules_print(programs, all);
	for (guint i = 0; i < all->len; i++)
		failed = any_failed(programs, &g_array_index(all, struct results, i)) || failed;
	g_array_free(all, TRUE);
	return failed ? 1 : 0;
}

/* Return: the exit status. */
static int write_entries(const GArray *entries)
{
	for (guint i = 0; i < entries->len; i++) {
		if (save_trace(g_array_index(entries, struct entry, i).trace, options.write)) {
			fprintf(stderr, "tune: %s\n", fail_text());
			return 2;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct programs programs;
	int status;

	if (!parse(argc, argv))
		return 2;
	/* A GPU has 524090; but a pool that comes to what the kernel allows a process by default fails. */
	g_setenv("VPMM_HOST_MAPPINGS", "61435", FALSE);
	programs.entries = make_entries();
	programs.overlaps = make_overlaps();
	status = options.write ? write_entries(programs.entries) : measure_programs(&programs);
	for (guint i = 0; i < programs.entries->len; i++)
		trace_free(g_array_index(programs.entries, struct entry, i).trace);
	for (guint i = 0; i < programs.overlaps->len; i++)
		overlap_free(programs.overlaps->pdata[i]);
	g_array_free(programs.entries, TRUE);
	g_ptr_array_free(programs.overlaps, TRUE);
	return status;
}
