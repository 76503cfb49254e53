// SPDX-License-Identifier: LGPL-2.1-or-later
/* Recorded allocations of real programs, twice on the same allocator: its memory is there the second time. */
#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "bench.h"
#include "fail.h"
#include "replay.h"
#include "units.h"

#define PASSES 2

/* Columns of a trace's name, which the number of the pass follows: for programs, and in a table. */
#define NAME_WIDTH 48
#define NAME_WIDTH_CELL (BENCH_WHAT_WIDTH - 3)

/* The lines of a trace and a pass. */
struct pass {
	struct bench_row wall;
	struct bench_row driver;
	struct bench_row taken;
	struct bench_row creates;
	struct bench_row maps;
};

static void begin_pass(struct pass *p, const struct bench *b, const struct trace *trace, unsigned int pass)
{
	g_autofree char *name = units_trace_name(trace->name);
	unsigned int left;

	name[units_fit(name, b->json ? NAME_WIDTH : NAME_WIDTH_CELL, &left)] = '\0';
	bench_row_begin(&p->wall, "replay", "wall", BENCH_TIME, trace->n_ops, "%s #%u", name, pass + 1);
	bench_row_detail(&p->driver, &p->wall, "driver / trace", BENCH_PERCENT);
	bench_row_detail(&p->creates, &p->wall, "creates", BENCH_COUNT);
	bench_row_detail(&p->maps, &p->wall, "maps / mallocs", BENCH_PERCENT);
	bench_row_detail(&p->taken, &p->wall, "taken / live", BENCH_FACTOR);
}

static void add_result(struct pass *p, enum contender who, const struct replay_result *r)
{
	const struct vpmm_stats *s = &r->stats;

	bench_row_add(&p->wall, who, r->wall_s);
	bench_row_slow(&p->wall, who, r->malloc_ns_max);
	/* The driver's plain allocator does not say. */
	if (s->peak_taken && r->peak_live)
		bench_row_add(&p->taken, who, (double)s->peak_taken / (double)r->peak_live);
	if (who != BENCH_VPMM)
		return;
	if (r->trace_s > 0)
		bench_row_add(&p->driver, who, (double)s->driver_ns / 1e7 / r->trace_s);
	bench_row_add(&p->creates, who, (double)s->creates);
	if (s->mallocs)
		bench_row_add(&p->maps, who, 100.0 * (double)s->maps / (double)s->mallocs);
}

/*
 * The driver's plain allocator takes up to a thousand times as long, and keeps nothing for the second pass: it has one
 * round, of one pass.
 */
static bool has_round(enum contender who, unsigned int round)
{
	return who != BENCH_MALLOC || round == 0;
}

static unsigned int passes_of(enum contender who)
{
	return who == BENCH_MALLOC ? 1 : PASSES;
}

static bool replay_once(struct bench *b, struct pass *passes, enum contender who, const struct trace *trace)
{
	struct replay_setup setup = {
		.trace = trace,
		.dev = b->dev,
		.page_size = b->choice->info.page_size,
		.passes = passes_of(who),
		.progress = &b->progress,
	};
	struct replay_result result;
	bool good = true;
	char *why;

	b->dev->ops->settle(b->dev);
	if (bench_allocator(b, who, &setup.allocator)) {
		bench_fail(b, &passes[0].wall, who, fail_text());
		return false;
	}
	progress_begin(&b->progress, "replaying");
	for (unsigned int i = 0; i < passes_of(who) && good; i++) {
		replay_pass(&setup, i + 1, &result);
		good = !result.errors;
		if (good) {
			add_result(&passes[i], who, &result);
		} else {
			why = g_strdup_printf("%" PRIu64 " error%s", (uint64_t)result.errors,
					      result.errors == 1 ? "" : "s");
			bench_fail(b, &passes[i].wall, who, why);
			g_free(why);
		}
	}
	progress_end(&b->progress);
	b->dev->ops->synchronize(b->dev);
	setup.allocator->ops->destroy(setup.allocator);
	return good;
}

static void replay_trace(struct bench *b, const struct trace *trace)
{
	bool in[BENCH_CONTENDERS] = { true, true, true };
	struct pass *passes = g_new(struct pass, PASSES);

	for (unsigned int i = 0; i < PASSES; i++)
		begin_pass(&passes[i], b, trace, i);
	for (unsigned int i = 0; i < b->heavy_rounds; i++) {
		for (unsigned int who = 0; who < b->contenders; who++)
			in[who] = in[who] && (!has_round(who, i) || replay_once(b, passes, who, trace));
	}
	for (unsigned int i = 0; i < PASSES; i++) {
		bench_print(b, &passes[i].wall);
		bench_print(b, &passes[i].driver);
		bench_print(b, &passes[i].creates);
		bench_print(b, &passes[i].maps);
		bench_print(b, &passes[i].taken);
	}
	g_free(passes);
}

void bench_replay(struct bench *b)
{
	struct bench_row all;

	bench_print_head(b, "replay: the allocations and frees of a program, as fast as they go; time of all, and "
			 "again on the same pool");
	bench_row_begin(&all, "replay", "wall", BENCH_TIME, 0, "all");
	if (!b->n_traces)
		return bench_skip(b, &all, "no trace was named: put \"replay TRACE...\" last");
	for (size_t i = 0; i < b->n_traces; i++)
		replay_trace(b, b->traces[i]);
}
