// SPDX-License-Identifier: LGPL-2.1-or-later
/* The benchmarks that begin with an empty allocator: memory has to come from somewhere. */
#include <glib.h>

#include "bench.h"
#include "fail.h"
#include "util/clock.h"

/* What harvest asks for, out of pieces that are free, and as much between them that is not. */
#define HARVEST_BYTES BENCH_GIB

/* Blocks of one size, of one contender, for one round. */
struct blocks {
	struct bench *b;
	struct allocator *a;
	size_t size;
	size_t n;
	void **ptrs;
};

static struct CUstream_st *stream_of(const struct blocks *blocks)
{
	return blocks->b->dev->streams[0];
}

static int blocks_begin(struct blocks *blocks, struct bench *b, enum contender who, size_t size, size_t n)
{
	*blocks = (struct blocks){ .b = b, .size = size, .n = n };
	b->dev->ops->settle(b->dev);
	if (bench_allocator(b, who, &blocks->a))
		return -1;
	blocks->ptrs = g_new0(void *, n);
	return 0;
}

/* Takes one allocator away before the next comes. */
static void blocks_end(struct blocks *blocks)
{
	for (size_t i = 0; i < blocks->n; i++) {
		if (blocks->ptrs[i])
			blocks->a->ops->free(blocks->a, blocks->ptrs[i], stream_of(blocks));
	}
	blocks->b->dev->ops->synchronize(blocks->b->dev);
	blocks->a->ops->destroy(blocks->a);
	g_free(blocks->ptrs);
}

/* Each call lasts long enough to be timed by itself. */
static int blocks_fill(struct blocks *blocks, uint64_t *ns, uint64_t *slowest)
{
	uint64_t start, took;
	int err;

	*ns = 0;
	*slowest = 0;
	for (size_t i = 0; i < blocks->n; i++) {
		start = clock_ns();
		err = blocks->a->ops->alloc(blocks->a, &blocks->ptrs[i], blocks->size, stream_of(blocks));
		took = clock_ns() - start;
		if (err)
			return err;
		*ns += took;
		*slowest = MAX(*slowest, took);
	}
	return 0;
}

static bool grow_once(struct bench *b, struct bench_row *row, enum contender who, size_t size, size_t n)
{
	struct blocks blocks;
	uint64_t ns, slowest;
	bool good;

	if (blocks_begin(&blocks, b, who, size, n)) {
		bench_fail(b, row, who, fail_text());
		return false;
	}
	good = !blocks_fill(&blocks, &ns, &slowest);
	if (good) {
		bench_row_add(row, who, (double)ns / 1e9 / ((double)(n * size) / (double)BENCH_GIB));
		bench_row_slow(row, who, slowest);
	} else {
		bench_fail(b, row, who, blocks.a->ops->error());
	}
	blocks_end(&blocks);
	return good;
}

static void grow_size(struct bench *b, size_t size)
{
	bool in[BENCH_CONTENDERS] = { true, true, true };
	struct bench_row row;
	char text[32];

	bench_size_text(text, size);
	bench_row_begin(&row, "grow", "a GiB", BENCH_TIME, size, "by %s", text);
	if (!bench_fits(b, &row, size))
		return;
	BENCH_ROUNDS(b, row.benchmark, in, grow_once(b, &row, who, size, b->limit / size));
	bench_print(b, &row);
}

void bench_grow(struct bench *b)
{
	static const size_t sizes[] = { 2 * BENCH_MIB, 16 * BENCH_MIB, 64 * BENCH_MIB, BENCH_GIB };
	char text[32], *head;

	bench_size_text(text, b->limit);
	head = g_strdup_printf("grow: from nothing to %s in requests of one size; time a GiB", text);
	bench_print_head(b, head);
	for (unsigned int i = 0; i < G_N_ELEMENTS(sizes); i++)
		grow_size(b, sizes[i]);
	bench_print_head(b, NULL);
	g_free(head);
}

/* The lines of one size of pieces. */
struct harvest {
	struct bench *b;
	struct bench_row time;
	struct bench_row remapped;
	struct bench_row taken;
};

static void note_memory(struct harvest *h, enum contender who, struct allocator *a, uint64_t live,
			const struct vpmm_stats *before)
{
	struct vpmm_stats after = { .size = sizeof(after) };

	if (a->ops->stats(a, &after)) {
		bench_fail(h->b, &h->taken, who, a->ops->error());
		return;
	}
	if (who == BENCH_VPMM)
		bench_row_add(&h->remapped, who, 100.0 * (double)(after.remapped - before->remapped) / HARVEST_BYTES);
	/* The driver's plain allocator does not say. */
	if (after.peak_taken)
		bench_row_add(&h->taken, who, (double)after.peak_taken / (double)live);
}

static int harvest_blocks(struct harvest *h, struct blocks *blocks, enum contender who)
{
	struct vpmm_stats before = { .size = sizeof(before) };
	struct allocator *a = blocks->a;
	uint64_t ns, slowest, start;
	void *whole;
	int err;

	err = blocks_fill(blocks, &ns, &slowest);
	for (size_t i = 0; i < blocks->n && !err; i += 2) {
		err = a->ops->free(a, blocks->ptrs[i], stream_of(blocks));
		if (!err)
			blocks->ptrs[i] = NULL;
	}
	if (!err)
		err = a->ops->stats(a, &before);
	if (err)
		return err;
	start = clock_ns();
	err = a->ops->alloc(a, &whole, HARVEST_BYTES, stream_of(blocks));
	ns = clock_ns() - start;
	if (err)
		return err;
	bench_row_add(&h->time, who, (double)ns / 1e9 / ((double)HARVEST_BYTES / (double)BENCH_GIB));
	bench_row_slow(&h->time, who, ns);
	note_memory(h, who, a, 2 * HARVEST_BYTES, &before);
	return a->ops->free(a, whole, stream_of(blocks));
}

static bool harvest_once(struct harvest *h, enum contender who, size_t size)
{
	struct blocks blocks;
	bool good;

	if (blocks_begin(&blocks, h->b, who, size, 2 * HARVEST_BYTES / size)) {
		bench_fail(h->b, &h->time, who, fail_text());
		return false;
	}
	good = !harvest_blocks(h, &blocks, who);
	if (!good)
		bench_fail(h->b, &h->time, who, blocks.a->ops->error());
	blocks_end(&blocks);
	return good;
}

static void harvest_size(struct bench *b, size_t size)
{
	bool in[BENCH_CONTENDERS] = { true, true, true };
	struct harvest h = { .b = b };
	char text[32];

	bench_size_text(text, size);
	bench_row_begin(&h.time, "harvest", "a GiB", BENCH_TIME, size, "of %s", text);
	bench_row_detail(&h.remapped, &h.time, "remapped", BENCH_PERCENT);
	bench_row_detail(&h.taken, &h.time, "taken / live", BENCH_FACTOR);
	if (!bench_fits(b, &h.time, 3 * HARVEST_BYTES))
		return;
	BENCH_ROUNDS(b, "harvest", in, harvest_once(&h, who, size));
	bench_print(b, &h.time);
	bench_print(b, &h.remapped);
	bench_print(b, &h.taken);
}

void bench_harvest(struct bench *b)
{
	static const size_t sizes[] = { 2 * BENCH_MIB, 16 * BENCH_MIB, 64 * BENCH_MIB };
	struct bench_row all;

	bench_print_head(b, "harvest: of 2 GiB in pieces of one size every second one is freed, then one block of "
			 "1 GiB is allocated; time of that, a GiB");
	bench_row_begin(&all, "harvest", "a GiB", BENCH_TIME, 0, "all");
	if (b->choice->info.page_size == SIZE_MAX)
		return bench_skip(b, &all, "the pool is switched off by its page size");
	for (unsigned int i = 0; i < G_N_ELEMENTS(sizes); i++)
		harvest_size(b, sizes[i]);
}
