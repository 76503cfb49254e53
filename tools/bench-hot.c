// SPDX-License-Identifier: LGPL-2.1-or-later
/* The benchmarks of one thread whose every pair is like the one before. */
#include <glib.h>
#include <inttypes.h>

#include "bench.h"
#include "fail.h"
#include "units.h"

/* How many pairs of a round are timed one by one. */
#define SINGLE_PAIRS 2000

/* How many times each block is replaced before a load passes for settled. */
#define SETTLED 100

/* One contender of a case under way. */
struct runner {
	struct allocator *a;
	struct mix mix;
	uint64_t pairs;			/* of a round; 0: it is out */
};

static void drop(struct bench *b, const struct bench_row *row, struct runner *r, enum contender who)
{
	bench_fail(b, row, who, r->a->ops->error());
	r->pairs = 0;
}

static void begin(struct bench *b, const struct bench_row *row, const struct mix_shape *shape,
		  struct CUstream_st *stream, struct runner *r, enum contender who)
{
	struct mix_shape chosen = *shape;

	chosen.cold = b->cold;
	*r = (struct runner){ 0 };
	if (bench_allocator(b, who, &r->a)) {
		r->a = NULL;
		bench_fail(b, row, who, fail_text());
		return;
	}
	if (mix_open(&r->mix, &chosen, r->a, stream) || mix_warm_up(&r->mix, b->batch_ns, &r->pairs))
		drop(b, row, r, who);
}

static void round_of(struct bench *b, struct bench_row *row, struct runner *r, enum contender who)
{
	uint64_t ns, slowest;

	if (mix_run(&r->mix, r->pairs, &ns) || mix_slowest(&r->mix, MIN(r->pairs, SINGLE_PAIRS), &slowest)) {
		drop(b, row, r, who);
		return;
	}
	bench_row_add(row, who, (double)ns / 1e9 / (double)r->pairs);
	bench_row_slow(row, who, slowest);
}

static void end(struct bench *b, struct runner *r)
{
	if (!r->a)
		return;
	mix_close(&r->mix);
	b->dev->ops->synchronize(b->dev);
	r->a->ops->destroy(r->a);
}

/* Fills in and prints the line. */
static void run_on(struct bench *b, struct bench_row *row, const struct mix_shape *shape, struct CUstream_st *stream)
{
	struct runner runners[BENCH_CONTENDERS];

	progress_begin(&b->progress, row->benchmark);
	for (unsigned int who = 0; who < b->contenders; who++)
		begin(b, row, shape, stream, &runners[who], who);
	for (unsigned int i = 0; i < b->rounds; i++) {
		for (unsigned int who = 0; who < b->contenders; who++) {
			if (runners[who].pairs)
				round_of(b, row, &runners[who], who);
		}
		progress_show(&b->progress, i, b->rounds);
	}
	for (unsigned int who = 0; who < b->contenders; who++)
		end(b, &runners[who]);
	progress_end(&b->progress);
	bench_print(b, row);
}

static void run_mix(struct bench *b, struct bench_row *row, const struct mix_shape *shape)
{
	run_on(b, row, shape, b->dev->streams[0]);
}

/* Twice a block of each contender, as what is cached need not fit. */
static void run_pairs(struct bench *b, const char *metric, struct CUstream_st *stream)
{
	static const size_t sizes[] = {
		512, 4 * BENCH_KIB, 64 * BENCH_KIB, BENCH_MIB, 2 * BENCH_MIB, 4 * BENCH_MIB, 16 * BENCH_MIB,
		64 * BENCH_MIB, 256 * BENCH_MIB, BENCH_GIB,
	};
	struct bench_row row;
	char text[32];

	for (unsigned int i = 0; i < G_N_ELEMENTS(sizes); i++) {
		struct mix_shape shape = { .least = sizes[i], .most = sizes[i] };

		bench_size_text(text, sizes[i]);
		bench_row_begin(&row, "pair", metric, BENCH_TIME, sizes[i], "%s", text);
		if (bench_fits(b, &row, 2 * b->contenders * sizes[i]))
			run_on(b, &row, &shape, stream);
	}
}

void bench_pair(struct bench *b)
{
	bench_print_head(b,
			 "pair: one block is allocated and freed over and over on a stream that was created; time of "
			 "both calls");
	run_pairs(b, "pair", b->dev->streams[0]);
	bench_print_head(b, "pair, the same on the default stream");
	run_pairs(b, "pair, default stream", NULL);
}

void bench_live(struct bench *b)
{
	struct mix_shape shape = {
		.least = 2 * BENCH_MIB,
		.most = 32 * BENCH_MIB,
		.step = BENCH_MIB,
		.live = 256,
	};
	struct bench_row row;
	bool fits;

	bench_print_head(b, "live: among blocks of 2 to 32 MiB, one at random is freed and another of random size is "
			 "allocated; time of both calls");
	bench_row_begin(&row, "live", "pair", BENCH_TIME, shape.live, "%zu live", shape.live);
	fits = bench_fits(b, &row, b->contenders * shape.live * 20 * BENCH_MIB);
	if (fits)
		run_mix(b, &row, &shape);
	/* What an allocator makes of it at first is not what it makes of it in the end. */
	shape.warm = SETTLED * shape.live;
	bench_row_begin(&row, "live", "pair", BENCH_TIME, shape.live, "%zu live, settled", shape.live);
	if (fits)
		run_mix(b, &row, &shape);
}

void bench_small(struct bench *b)
{
	struct mix_shape pairs = { .least = 512, .most = BENCH_MIB, .step = 512 };
	struct mix_shape live = { .least = 512, .most = 64 * BENCH_KIB, .step = 512 };
	struct bench_row row;
	char text[UNITS_TEXT];

	bench_print_head(b, "small: blocks of random size; none live, 512 B to 1 MiB, or many live, to 64 KiB; time of "
			 "both calls");
	bench_row_begin(&row, "small", "pair", BENCH_TIME, 0, "pair");
	run_mix(b, &row, &pairs);
	for (live.live = 1000; live.live <= b->small_live; live.live *= 100) {
		units_format_count(text, live.live);
		bench_row_begin(&row, "small", "pair", BENCH_TIME, live.live, "%s live", text);
		if (bench_fits(b, &row, b->contenders * live.live * live.most))
			run_mix(b, &row, &live);
	}
}

/* How many blocks of a page can live in the memory that there is, with a quarter as many free ones. */
static uint64_t most_regions(const struct bench *b)
{
	uint64_t bytes = g_str_equal(b->choice->info.backend, "host") ? b->choice->info.memory_total : b->limit;
	uint64_t pages = bytes / b->contenders / b->choice->info.page_size;

	return MIN(b->regions, pages / 5 * 4);
}

static void compare_regions(struct bench *b, const struct bench_row *few, const struct bench_row *many)
{
	struct bench_row row;

	bench_row_detail(&row, many, "many / thousand", BENCH_FACTOR);
	for (unsigned int who = 0; who < b->contenders; who++) {
		if (few->n[who] && many->n[who])
			bench_row_add(&row, who, bench_row_median(many, who) / bench_row_median(few, who));
	}
	bench_print(b, &row);
}

void bench_regions(struct bench *b)
{
	const uint64_t page = b->choice->info.page_size;
	const uint64_t counts[] = { BENCH_FEW_REGIONS, most_regions(b) };
	struct bench_row rows[G_N_ELEMENTS(counts)];
	char text[UNITS_TEXT];

	bench_print_head(b, "regions: among live blocks of a page, and a quarter as many free ones that do not touch, "
			 "one at random is freed and another allocated; time of both calls");
	bench_row_begin(&rows[0], "regions", "pair", BENCH_TIME, 0, "all");
	if (page == SIZE_MAX)
		return bench_skip(b, &rows[0], "the pool is switched off by its page size");
	if (counts[1] <= counts[0])
		return bench_skip(b, &rows[0], "there is room for %" PRIu64 " blocks of a page, and more are "
				  "compared with a thousand", (uint64_t)counts[1]);
	for (unsigned int i = 0; i < G_N_ELEMENTS(counts); i++) {
		struct mix_shape shape = { .least = page, .most = page, .live = counts[i], .spare = counts[i] / 4 };

		units_format_count(text, counts[i]);
		bench_row_begin(&rows[i], "regions", "pair", BENCH_TIME, counts[i], "%s live", text);
		run_mix(b, &rows[i], &shape);
	}
	compare_regions(b, &rows[0], &rows[1]);
}
