// SPDX-License-Identifier: LGPL-2.1-or-later
/* Measures what allocations cost, beside the driver's own allocators in the same run. */
#include <glib.h>
#include <limits.h>
#include <string.h>

#include "bench.h"
#include "cli.h"
#include "fail.h"
#include "units.h"

#define PROGRAM "vpmm-bench"

#define DEFAULT_ROUNDS 9
#define DEFAULT_THREADS 16
#define DEFAULT_REGIONS 1000000
#define DEFAULT_SMALL 100000
#define DEFAULT_LIMIT (64 * BENCH_GIB)
#define DEFAULT_BATCH_NS 5000000

/* The host backend has no memory but the machine's, and this benchmark touches it. */
#define DEFAULT_SHARED (4 * BENCH_GIB)
#define DEFAULT_SHARED_HOST (256 * BENCH_MIB)

#define QUICK_ROUNDS 3
#define QUICK_THREADS 4
#define QUICK_REGIONS 10000
#define QUICK_SMALL 1000
#define QUICK_LIMIT (16 * BENCH_GIB)
#define QUICK_BATCH_NS 200000
#define QUICK_SHARED (512 * BENCH_MIB)
#define QUICK_SHARED_HOST (64 * BENCH_MIB)

/* Of the memory that is free; the driver takes some for itself. */
#define USABLE_PERCENT 90

static const struct {
	const char *name;
	void (*run)(struct bench *b);
} benchmarks[] = {
	{ "pair", bench_pair },
	{ "live", bench_live },
	{ "small", bench_small },
	{ "threads", bench_threads },
	{ "grow", bench_grow },
	{ "harvest", bench_harvest },
	{ "resize", bench_resize },
	{ "shared", bench_shared },
	{ "regions", bench_regions },
	{ "replay", bench_replay },
};

static struct {
	char *backend;
	char *limit;
	char **words;
	gboolean json;
	gboolean cold;
	gboolean quick;
	char *rounds;
	char *threads;
	char *regions;
	unsigned int n_rounds;
	unsigned int n_threads;
	unsigned int n_regions;
	uint64_t limit_bytes;
	bool chosen[G_N_ELEMENTS(benchmarks)];
	char **traces;			/* within words */
} options;

static const GOptionEntry entries[] = {
	{ "backend", 'b', 0, G_OPTION_ARG_FILENAME, &options.backend,
	  "cuda, host or auto (default: VPMM_BACKEND, or auto)", "B" },
	{ "cold", 'c', 0, G_OPTION_ARG_NONE, &options.cold,
	  "Do other work before each call of pair, live, small and regions", NULL },
	{ "json", 'j', 0, G_OPTION_ARG_NONE, &options.json,
	  "Print one JSON object for each line", NULL },
	{ "limit", 'm', 0, G_OPTION_ARG_FILENAME, &options.limit,
	  "Take at most BYTES of memory (default: 64G, or 90 % of what is free)", "BYTES" },
	{ "quick", 'q', 0, G_OPTION_ARG_NONE, &options.quick,
	  "Less of everything, for a first impression", NULL },
	{ "regions", 'n', 0, G_OPTION_ARG_FILENAME, &options.regions,
	  "Compare N live regions with a thousand (default: a million, or what fits)", "N" },
	{ "rounds", 'r', 0, G_OPTION_ARG_FILENAME, &options.rounds,
	  "Measure N times (default: 9)", "N" },
	{ "threads", 't', 0, G_OPTION_ARG_FILENAME, &options.threads,
	  "Go up to N threads (default: 16)", "N" },
	{ G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options.words, NULL,
	  "[BENCHMARK...] [replay TRACE...]" },
	G_OPTION_ENTRY_NULL
};

static const struct cli cli = {
	.summary = "- measure what allocations cost, beside the driver's allocators",
	.description =
		"Benchmarks: pair, live, small, threads, grow, harvest, resize, shared, regions, replay,\n"
		"or all (the default). The words after replay are traces. Exit status: 0, 1 if there\n"
		"were errors, 2 if an option, a trace or a setting was refused, or the output could not\n"
		"be written.\n",
	.entries = entries,
};

static int choose_benchmark(const char *name)
{
	bool found = false;

	for (size_t i = 0; i < G_N_ELEMENTS(benchmarks); i++) {
		if (strcmp(name, benchmarks[i].name) && strcmp(name, "all"))
			continue;
		options.chosen[i] = true;
		found = true;
	}
	if (found)
		return 0;
	fail_set(0, "\"%s\" is no benchmark; there are all, pair, live, small, threads, grow, harvest, resize, shared, "
		 "regions and replay", name);
	return cli_refuse("%s", fail_text());
}

/* What follows replay is traces. */
static int read_words(void)
{
	static char *nothing[] = { NULL };
	char **word = options.words;
	int status = 0;

	options.traces = nothing;
	if (!word)
		return choose_benchmark("all");
	for (; *word && !status; word++) {
		status = choose_benchmark(*word);
		if (strcmp(*word, "replay") == 0) {
			options.traces = word + 1;
			break;
		}
	}
	return status;
}

static int parse_counts(void)
{
	const bool quick = options.quick;

	options.n_rounds = quick ? QUICK_ROUNDS : DEFAULT_ROUNDS;
	options.n_threads = quick ? QUICK_THREADS : DEFAULT_THREADS;
	options.n_regions = quick ? QUICK_REGIONS : DEFAULT_REGIONS;
	if (units_parse_count("--rounds", options.rounds, 1, BENCH_MOST_ROUNDS, &options.n_rounds) ||
	    units_parse_count("--threads", options.threads, 1, BENCH_MOST_THREADS, &options.n_threads) ||
	    units_parse_count("--regions", options.regions, BENCH_FEW_REGIONS + 1, INT_MAX, &options.n_regions))
		return cli_refuse("%s", fail_text());
	return 0;
}

static int check_options(void)
{
	int status;

	status = parse_counts();
	if (!status && options.limit && units_parse_bytes("--limit", options.limit, &options.limit_bytes))
		status = cli_refuse("%s", fail_text());
	if (!status && options.limit && !options.limit_bytes)
		status = cli_refuse("--limit: expected at least one byte");
	return status ? status : read_words();
}

static void free_options(void)
{
	g_free(options.backend);
	g_free(options.limit);
	g_free(options.rounds);
	g_free(options.threads);
	g_free(options.regions);
	g_strfreev(options.words);
}

int bench_allocator(struct bench *b, enum contender who, struct allocator **a)
{
	if (who == BENCH_VPMM)
		return allocator_vpmm_create(&b->choice->opts, a);
	if (who == BENCH_ASYNC)
		return b->dev->ops->async(b->dev, a);
	return b->dev->ops->malloc(b->dev, a);
}

/*
 * Nobody touches the memory of a benchmark but shared's, which is little, so a device of the host backend may have as
 * much as a million regions take. What the user has set stays. Mappings are the kernel's: there are as many as it
 * allows the process.
 */
static void enlarge_host(void)
{
	g_setenv("VPMM_HOST_CAPACITY", "16T", FALSE);
}

/* How many extents of a page can be mapped: some take two mappings, and old ones stay for a time. 0: unknown. */
static uint64_t most_pages(const struct bench *b)
{
	return b->choice->info.mapping_limit / 3;
}

static void set_bounds(struct bench *b)
{
	const uint64_t usable = b->choice->info.memory_free / 100 * USABLE_PERCENT;
	const bool host = strcmp(b->choice->opts.backend, "host") == 0;

	b->json = options.json;
	b->cold = options.cold;
	b->rounds = options.n_rounds;
	b->heavy_rounds = (b->rounds + 2) / 3;
	b->threads = options.n_threads;
	b->regions = options.n_regions;
	b->batch_ns = options.quick ? QUICK_BATCH_NS : DEFAULT_BATCH_NS;
	b->small_live = options.quick ? QUICK_SMALL : DEFAULT_SMALL;
	if (host)
		b->shared = options.quick ? QUICK_SHARED_HOST : DEFAULT_SHARED_HOST;
	else
		b->shared = options.quick ? QUICK_SHARED : DEFAULT_SHARED;
	b->limit = options.limit ? options.limit_bytes : options.quick ? QUICK_LIMIT : DEFAULT_LIMIT;
	b->limited = options.limit && b->limit <= usable;
	b->limit = MIN(b->limit, usable);
	if (!most_pages(b) || b->choice->info.page_size == SIZE_MAX)
		return;
	b->limit = MIN(b->limit, most_pages(b) * b->choice->info.page_size);
	b->regions = MIN(b->regions, most_pages(b));
}

static int load_traces(struct bench *b)
{
	b->traces = g_new0(struct trace *, g_strv_length(options.traces));
	for (char **name = options.traces; *name; name++) {
		if (trace_load(*name, NULL, NULL, &b->traces[b->n_traces]))
			return cli_refuse("%s", fail_text());
		b->n_traces++;
		if (b->traces[b->n_traces - 1]->next)
			return cli_refuse("%s: the trace has several pools, and only vpmm-replay runs those", *name);
	}
	return 0;
}

static void free_traces(struct bench *b)
{
	for (size_t i = 0; i < b->n_traces; i++)
		trace_free(b->traces[i]);
	g_free(b->traces);
}

static int open_device(struct bench *b)
{
	const struct device_ops *ops = strcmp(b->choice->opts.backend, "cuda") ? &device_host : &device_cuda;
	struct device_opts opts = { .streams = b->threads, .uncounted = true };

	for (size_t i = 0; i < b->n_traces; i++)
		opts.streams = MAX(opts.streams, b->traces[i]->streams);
	return ops->open(&opts, &b->dev) ? cli_refuse("%s", fail_text()) : 0;
}

static int run_chosen(struct bench *b)
{
	bench_print_setup(b);
	for (size_t i = 0; i < G_N_ELEMENTS(benchmarks); i++) {
		if (options.chosen[i])
			benchmarks[i].run(b);
	}
	if (b->errors && !b->json)
		printf("\n%u error%s, printed where they happened.\n", b->errors, b->errors == 1 ? "" : "s");
	if (cli_finish_output("the figures"))
		return CLI_REFUSED;
	return b->errors ? CLI_ERRORS : 0;
}

static int measure(const struct choice *choice)
{
	struct bench b = { .choice = choice };
	int status;

	b.contenders = strcmp(choice->opts.backend, "host") ? BENCH_CONTENDERS : BENCH_ASYNC + 1;
	set_bounds(&b);
	status = load_traces(&b);
	if (!status)
		status = open_device(&b);
	if (!status) {
		status = run_chosen(&b);
		b.dev->ops->close(b.dev);
	}
	free_traces(&b);
	return status;
}

static int bench(void)
{
	struct choice choice;
	int status;

	status = check_options();
	if (status)
		return status;
	enlarge_host();
	if (choose_backend(options.backend, &choice))
		return cli_refuse("%s", fail_text());
	status = measure(&choice);
	g_free(choice.why);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0;

	g_set_prgname(PROGRAM);
	if (cli_parse(&cli, &argc, &argv, &status))
		status = bench();
	free_options();
	return status;
}
