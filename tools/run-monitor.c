// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "run-report.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "choose.h"
#include "cli.h"
#include "device.h"
#include "fail.h"
#include "progress.h"
#include "replay.h"
#include "trace.h"
#include "units.h"

/* What the host backend's device has at least, and in relation to what the program had at once. */
#define CAPACITY ((uint64_t)80 << 30)
#define CAPACITY_FACTOR 4

/* In what the driver takes memory for its allocators. */
#define PAGE ((uint64_t)2 << 20)

/* The calls that allocate: cudaMalloc() and cudaMallocAsync(), each with its kin. */
enum use_kind { USE_PLAIN, USE_ORDERED, USE_KINDS };

/**
 * struct use - what was asked of one device
 * @kinds: by kind, how many allocations, their bytes, and those of the largest
 * @frees: how many
 * @moves: of those, how many of blocks that the program had copied whole to the start of a larger one
 * @moves_used: of those, how many with other work between the copy and the free
 * @moved: bytes copied in that way
 * @live: bytes that were not freed
 * @peak: the most bytes that were allocated at once
 * @pages: bytes of the pages of the driver that blocks were in, the most at once
 */
struct use {
	struct {
		uint64_t allocs;
		uint64_t bytes;
		size_t largest;
	} kinds[USE_KINDS];
	uint64_t frees;
	uint64_t moves;
	uint64_t moves_used;
	uint64_t moved;
	uint64_t live;
	uint64_t peak;
	uint64_t pages;
};

static const char *const kind_names[USE_KINDS] = { "  by cudaMalloc", "  by cudaMallocAsync" };

/* Pages with a block in them. Those that a block has to itself are only counted. */
struct pages {
	GHashTable *shared;		/* number of the page to that of the blocks */
	uint64_t used;
	uint64_t peak;
};

static void use_page(struct pages *pages, uint64_t page, bool more)
{
	gpointer key = GSIZE_TO_POINTER((gsize)page);
	gsize blocks = GPOINTER_TO_SIZE(g_hash_table_lookup(pages->shared, key));

	if (more) {
		pages->used += !blocks;
		g_hash_table_insert(pages->shared, key, GSIZE_TO_POINTER(blocks + 1));
	} else if (blocks > 1) {
		g_hash_table_insert(pages->shared, key, GSIZE_TO_POINTER(blocks - 1));
	} else if (blocks) {
		g_hash_table_remove(pages->shared, key);
		pages->used--;
	}
}

static void use_pages(struct pages *pages, uint64_t address, uint64_t bytes, bool more)
{
	uint64_t first = address / PAGE, last = (address + (bytes ? bytes - 1 : 0)) / PAGE;

	use_page(pages, first, more);
	if (last > first) {
		use_page(pages, last, more);
		pages->used += more ? last - first - 1 : first + 1 - last;
	}
	pages->peak = MAX(pages->peak, pages->used);
}

static void count_alloc(struct use *use, const struct trace_op *op)
{
	int kind = op->flags & TRACE_IDLE ? USE_PLAIN : USE_ORDERED;

	use->kinds[kind].allocs++;
	use->kinds[kind].bytes += op->bytes;
	use->kinds[kind].largest = MAX(use->kinds[kind].largest, op->bytes);
	use->live += op->bytes;
	use->peak = MAX(use->peak, use->live);
}

static void count_free(struct use *use, const struct trace_op *op)
{
	use->frees++;
	use->live -= op->bytes;
	use->moves += op->max > 0;
	use->moves_used += op->flags & TRACE_USED ? 1 : 0;
	use->moved += op->max;
}

/* By a trace of the preload object: its ids are addresses, and idle blocks are those of cudaMalloc(). */
static struct use use_count(const struct trace *trace)
{
	struct pages pages = { .shared = g_hash_table_new(NULL, NULL) };
	uint64_t *addresses = g_new0(uint64_t, trace->slots);
	struct use use = { 0 };

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		if (op->kind == TRACE_ALLOC) {
			count_alloc(&use, op);
			addresses[op->slot] = op->id;
			use_pages(&pages, op->id, op->bytes, true);
		} else if (op->kind == TRACE_FREE) {
			count_free(&use, op);
			use_pages(&pages, addresses[op->slot], op->bytes, false);
		}
	}
	use.pages = pages.peak * PAGE;
	g_free(addresses);
	g_hash_table_destroy(pages.shared);
	return use;
}

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

/*
 * The host backend's model of cudaMallocAsync() took up to half more than a GPU's driver did, so it has no part in it.
 */
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
		outcome->limited ? " by VPMM_LIMIT" : "; with --trace, vpmm-replay prints why");
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
static int tell_pool(const struct run_report *report, pid_t pid, const struct trace *trace, bool again)
{
	struct outcome outcome = { 0 };
	struct use use = use_count(trace);
	int err;

	err = replay_all(trace, &use, &outcome);
	if (err)
		return err;
	table_begin(report, pid, trace->device, again ? "served by the driver, after a reset" : "served by the driver");
	tell_use(report->out, trace, &use);
	tell_moves(report->out, &use);
	tell_memory(report->out, &use, &outcome);
	tell_difference(report->out, &use, &outcome);
	fputc('\n', report->out);
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

static int tell_file(const struct run_report *report, const struct traces_file *file, unsigned int *told)
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
		err = tell_pool(report, file->pid, pool, was_before(trace, pool));
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

int monitor_tell(const struct run_report *report)
{
	GArray *files = traces_list(report->files);
	unsigned int told = 0;
	int err = 0;

	for (guint i = 0; i < files->len && err != -EINTR; i++) {
		int wrong = tell_file(report, &g_array_index(files, struct traces_file, i), &told);

		if (!wrong)
			continue;
		fprintf(stderr, "%s: %s\n", g_get_prgname(), fail_text());
		if (!err || wrong == -EINTR)
			err = wrong;
	}
	if (told)
		tell_words(report->out);
	else if (!err)
		fprintf(report->out, "%s: %s: no allocation of device memory was recorded; see DIAGNOSTICS in "
			"vpmm-run(1)\n", g_get_prgname(), report->program);
	g_array_unref(files);
	return err;
}
