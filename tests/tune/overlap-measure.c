// SPDX-License-Identifier: LGPL-2.1-or-later
/* Runs programs whose streams overlap on a pool, and tells what they took. */
#include <glib.h>
#include <stdio.h>

#include "measure.h"
#include "overlap.h"
#include "vpmm-host.h"
#include "vpmm.h"

/* How much slower a program may be with the least memory. */
#define SLOWER 1.02

struct pool_run {
	const struct overlap *program;
	struct vpmm_pool *pool;
	struct vpmm_stats stats;	/* at the latest call */
	void **blocks;
	struct overlap_measured *result;
};

static void check(struct pool_run *run, const char *what, int err)
{
	if (err && !run->result->failed)
		fprintf(stderr, "%s: %s: %s\n", run->program->name, what, vpmm_last_error());
	run->result->failed = run->result->failed || err;
}

/* The program's host waits for the driver calls that the pool makes. */
static void charge(struct pool_run *run)
{
	struct vpmm_stats now = { .size = sizeof(now) };

	check(run, "statistics", vpmm_pool_stats(run->pool, &now));
	check(run, "time", vpmm_host_time_pass((uint64_t)(measure_calls(&run->stats, &now) * 1e6)));
	run->stats = now;
}

static void pool_malloc(void *data, const struct overlap_run *run, uint32_t block)
{
	const struct overlap_block *b = &g_array_index(run->program->blocks, struct overlap_block, block);
	struct pool_run *pool_run = data;

	check(pool_run, "allocation",
	      vpmm_malloc(pool_run->pool, &pool_run->blocks[block], b->bytes, run->streams[b->stream]));
	charge(pool_run);
}

static void pool_use(void *data, const struct overlap_run *run, uint32_t block, uint32_t stream)
{
	struct pool_run *pool_run = data;

	check(pool_run, "use", vpmm_use(pool_run->pool, pool_run->blocks[block], run->streams[stream]));
}

static void pool_free(void *data, const struct overlap_run *run, uint32_t block)
{
	const struct overlap_block *b = &g_array_index(run->program->blocks, struct overlap_block, block);
	struct pool_run *pool_run = data;

	check(pool_run, "free", vpmm_free(pool_run->pool, pool_run->blocks[block], run->streams[b->stream]));
	charge(pool_run);
}

static void run_passes(struct pool_run *run)
{
	static const struct overlap_memory memory = { .malloc = pool_malloc, .use = pool_use, .free = pool_free };
	struct vpmm_stats before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
	struct overlap_measured *result = run->result;

	for (int pass = 0; pass < OVERLAP_PASSES && !result->failed; pass++) {
		check(run, "statistics", vpmm_pool_stats(run->pool, &before));
		result->ns[pass] = overlap_run(run->program, (uint32_t)pass, &memory, run);
		check(run, "check", vpmm_pool_check(run->pool));
	}
	check(run, "statistics", vpmm_pool_stats(run->pool, &after));
	result->taken = after.peak_taken;
	result->calls = measure_calls(&before, &after);
}

void overlap_measure(const struct overlap *p, int overhead, bool least, struct overlap_measured *result)
{
	struct vpmm_opts opts = { .size = sizeof(opts) };
	struct pool_run run = { .program = p, .result = result, .stats = { .size = sizeof(run.stats) } };
	struct overlap_ideal ideal;

	*result = (struct overlap_measured){ .live = p->peak };
	for (uint32_t pass = 0; pass < OVERLAP_PASSES; pass++) {
		overlap_ideal_run(p, pass, &ideal);
		result->ideal[pass] = ideal.ns;
		if (!pass && least)
			result->least = overlap_least(p, &ideal, SLOWER);
		overlap_ideal_clear(&ideal);
	}
	check(&run, "settings", vpmm_opts_from_env(&opts));
	opts.backend = "host";
	opts.overhead = overhead;
	if (!result->failed)
		check(&run, "creating the pool", vpmm_pool_create(&run.pool, &opts));
	if (result->failed)
		return;
	run.blocks = g_new0(void *, p->blocks->len);
	run_passes(&run);
	vpmm_pool_destroy(run.pool);
	g_free(run.blocks);
}
