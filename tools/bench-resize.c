// SPDX-License-Identifier: LGPL-2.1-or-later
/* The benchmark of blocks that become larger with their contents kept: by the library, or by a new block and a copy. */
#include <errno.h>
#include <glib.h>

#include "bench.h"
#include "fail.h"
#include "util/clock.h"

/* Where a vector begins. */
#define VECTOR_LEAST (2 * BENCH_MIB)

/* One block of one contender. */
struct resized {
	struct bench *b;
	struct allocator *a;
	void *ptr;
	size_t size;
};

/* How a block becomes larger. */
struct resize_case {
	size_t from;
	size_t to;
	size_t step;			/* 0: each time by half */
	bool growable;
};

struct resize_rows {
	struct bench *b;
	struct resize_case c;
	struct bench_row time;
	struct bench_row taken;
};

/* What a program does whose allocator cannot. */
static int copy_to(struct resized *r, size_t size)
{
	struct CUstream_st *stream = r->b->dev->streams[0];
	void *ptr;
	int err;

	err = r->a->ops->alloc(r->a, &ptr, size, stream);
	if (err)
		return err;
	err = r->b->dev->ops->copy(r->b->dev, ptr, r->ptr, r->size);
	if (!err)
		err = r->a->ops->free(r->a, r->ptr, stream);
	if (err) {
		r->a->ops->free(r->a, ptr, stream);
		return err;
	}
	r->ptr = ptr;
	return 0;
}

static int resize(struct resized *r, size_t size)
{
	int err;

	if (r->a->ops->resize)
		err = r->a->ops->resize(r->a, &r->ptr, size, r->b->dev->streams[0]);
	else
		err = copy_to(r, size);
	if (!err)
		r->size = size;
	return err;
}

static size_t next_size(const struct resize_case *c, size_t size)
{
	size_t next = c->step ? size + c->step : size + size / 2;

	return MIN(next, c->to);
}

static int begin_block(struct resized *r, const struct resize_case *c)
{
	struct CUstream_st *stream = r->b->dev->streams[0];

	r->size = c->from;
	if (c->growable)
		return vpmm_malloc_growable(r->a->pool, &r->ptr, c->from, c->to, stream);
	return r->a->ops->alloc(r->a, &r->ptr, c->from, stream);
}

/* The time is until the device is done, as a copy is the device's. */
static int resize_block(struct resize_rows *rows, struct resized *r, enum contender who)
{
	struct vpmm_stats after = { .size = sizeof(after) };
	const struct resize_case *c = &rows->c;
	struct bench *b = rows->b;
	uint64_t start, ns;
	int err;

	err = begin_block(r, c) ?: b->dev->ops->synchronize(b->dev);
	start = clock_ns();
	while (!err && r->size < c->to)
		err = resize(r, next_size(c, r->size));
	if (!err)
		err = b->dev->ops->synchronize(b->dev);
	ns = clock_ns() - start;
	if (!err)
		err = r->a->ops->stats(r->a, &after);
	if (err)
		return err;
	bench_row_add(&rows->time, who, (double)ns / 1e9 / ((double)(c->to - c->from) / (double)BENCH_GIB));
	/* The driver's plain allocator does not say. */
	if (after.peak_taken)
		bench_row_add(&rows->taken, who, (double)after.peak_taken / (double)c->to);
	return 0;
}

static bool resize_once(struct resize_rows *rows, enum contender who)
{
	struct resized r = { .b = rows->b };
	bool good;

	r.b->dev->ops->settle(r.b->dev);
	if (bench_allocator(r.b, who, &r.a)) {
		bench_fail(r.b, &rows->time, who, fail_text());
		return false;
	}
	good = !resize_block(rows, &r, who);
	if (!good)
		bench_fail(r.b, &rows->time, who, r.a->ops->error());
	if (r.ptr)
		r.a->ops->free(r.a, r.ptr, r.b->dev->streams[0]);
	r.b->dev->ops->synchronize(r.b->dev);
	r.a->ops->destroy(r.a);
	return good;
}

/* The host backend's models of the driver's allocators have no memory to copy. */
static bool takes_part(const struct bench *b, const struct resize_case *c, enum contender who)
{
	return who == BENCH_VPMM || (b->dev->ops->copy && !c->growable);
}

static void resize_rounds(struct resize_rows *rows)
{
	struct bench *b = rows->b;
	bool in[BENCH_CONTENDERS] = { false };

	bench_row_detail(&rows->taken, &rows->time, "taken / size", BENCH_FACTOR);
	/* Who copies has both blocks at once. */
	if (!bench_fits(b, &rows->time, MAX(rows->c.to, rows->c.from + rows->c.step) / 3 * 5))
		return;
	for (unsigned int who = 0; who < b->contenders; who++)
		in[who] = takes_part(b, &rows->c, who);
	BENCH_ROUNDS(b, "resize", in, resize_once(rows, who));
	bench_print(b, &rows->time);
	bench_print(b, &rows->taken);
}

static void resize_as(struct bench *b, struct resize_case c, const char *what)
{
	struct resize_rows rows = { .b = b, .c = c };

	bench_row_begin(&rows.time, "resize", "a GiB", BENCH_TIME, c.to, "%s", what);
	resize_rounds(&rows);
}

void bench_resize(struct bench *b)
{
	size_t most = MIN(b->limit / 5 * 3, 64 * BENCH_GIB) / VECTOR_LEAST * VECTOR_LEAST;
	struct bench_row all;

	bench_print_head(b, "resize: one block becomes larger and keeps its contents; time until the device is done, "
			 "a GiB added");
	bench_row_begin(&all, "resize", "a GiB", BENCH_TIME, 0, "all");
	if (b->choice->info.page_size == SIZE_MAX)
		return bench_skip(b, &all, "the pool is switched off by its page size");
	resize_as(b, (struct resize_case){ BENCH_GIB * 3 / 2, 3 * BENCH_GIB, 0, false }, "1.5 to 3 GiB");
	resize_as(b, (struct resize_case){ VECTOR_LEAST, most, 0, false }, "from 2 MiB by half");
	resize_as(b, (struct resize_case){ BENCH_GIB, most, BENCH_GIB, true }, "growable by 1 GiB");
	resize_as(b, (struct resize_case){ BENCH_GIB, most, 64 * BENCH_MIB, true }, "growable by 64 MiB");
}
