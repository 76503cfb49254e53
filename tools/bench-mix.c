// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

#include <glib.h>

#include "util/clock.h"

#define SEED UINT64_C(0x9e3779b97f4a7c15)

/* What a warm-up is at least, and what more live blocks make of it at most. */
#define WARM_PAIRS 16
#define WARM_PAIRS_MOST 100000

/* A cold call takes this long at least, with the work before it: a batch has so many fewer. */
#define COLD_NS 25000

/* How often the clock is read to see how long that takes. */
#define CLOCK_READINGS 1000

/* xorshift64*: a nanosecond, so that it does not show beside what is measured. */
static uint64_t next_random(struct mix *mix)
{
	mix->random ^= mix->random >> 12;
	mix->random ^= mix->random << 25;
	mix->random ^= mix->random >> 27;
	return mix->random * UINT64_C(2685821657736338717) >> 32;
}

static uint64_t below(struct mix *mix, uint64_t n)
{
	return next_random(mix) * n >> 32;
}

static size_t next_size(struct mix *mix)
{
	const struct mix_shape *shape = &mix->shape;

	if (shape->least == shape->most)
		return shape->least;
	return shape->least + below(mix, (shape->most - shape->least) / shape->step + 1) * shape->step;
}

static int allocate(struct mix *mix, void **ptr)
{
	return mix->a->ops->alloc(mix->a, ptr, next_size(mix), mix->stream);
}

static int release(struct mix *mix, void **ptr)
{
	int err = mix->a->ops->free(mix->a, *ptr, mix->stream);

	if (!err)
		*ptr = NULL;
	return err;
}

/* Those to spare come between the others, each of them alone. */
static int fill(struct mix *mix)
{
	const struct mix_shape *shape = &mix->shape;
	void **spare = g_new0(void *, shape->spare);
	size_t every = shape->spare ? shape->live / shape->spare : 0, n = 0;
	int err = 0;

	for (size_t i = 0; i < shape->live && !err; i++) {
		err = allocate(mix, &mix->blocks[i]);
		if (!err && every && i % every == 0 && n < shape->spare)
			err = allocate(mix, &spare[n++]);
	}
	for (size_t i = 0; i < n; i++) {
		int failed = spare[i] ? release(mix, &spare[i]) : 0;

		if (!err)
			err = failed;
	}
	g_free(spare);
	return err;
}

static uint64_t clock_cost(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < CLOCK_READINGS; i++) {
		uint64_t start = clock_ns();

		least = MIN(least, clock_ns() - start);
	}
	return least;
}

int mix_open(struct mix *mix, const struct mix_shape *shape, struct allocator *a, struct CUstream_st *stream)
{
	*mix = (struct mix){
		.shape = *shape,
		.a = a,
		.stream = stream,
		.random = SEED,
		.blocks = g_new0(void *, shape->live),
		.work = shape->cold ? g_malloc0(MIX_WORK_BYTES) : NULL,
		.clock_ns = clock_cost(),
	};
	return fill(mix);
}

void mix_close(struct mix *mix)
{
	for (size_t i = 0; i < mix->shape.live; i++) {
		if (mix->blocks[i])
			release(mix, &mix->blocks[i]);
	}
	g_free(mix->blocks);
	g_free((void *)mix->work);
	mix->blocks = NULL;
	mix->work = NULL;
}

static int run_pairs(struct mix *mix, uint64_t pairs)
{
	void *ptr = NULL;
	int err;

	for (uint64_t i = 0; i < pairs; i++) {
		err = allocate(mix, &ptr);
		if (!err)
			err = release(mix, &ptr);
		if (err)
			return err;
	}
	return 0;
}

static int run_replacing(struct mix *mix, uint64_t pairs)
{
	int err;

	for (uint64_t i = 0; i < pairs; i++) {
		void **block = &mix->blocks[below(mix, mix->shape.live)];

		err = release(mix, block);
		if (!err)
			err = allocate(mix, block);
		if (err)
			return err;
	}
	return 0;
}

static int run_warm(struct mix *mix, uint64_t pairs)
{
	return mix->shape.live ? run_replacing(mix, pairs) : run_pairs(mix, pairs);
}

/* Writes as well, so that lines have to be written back before others can come. */
static void do_work(struct mix *mix)
{
	for (size_t i = 0; i < MIX_WORK_BYTES / sizeof(*mix->work); i += 64 / sizeof(*mix->work))
		mix->work[i]++;
}

/* Only the call counts. The clock is read once more before that, as the work has displaced it, too. */
static int run_cold(struct mix *mix, int (*call)(struct mix *mix, void **block), void **block, uint64_t *ns)
{
	uint64_t start, spent;
	int err;

	do_work(mix);
	clock_ns();
	start = clock_ns();
	err = call(mix, block);
	spent = clock_ns() - start;
	*ns += spent - MIN(spent, mix->clock_ns);
	return err;
}

static int run_all_cold(struct mix *mix, uint64_t pairs, uint64_t *ns)
{
	void *ptr = NULL;
	int err = 0;

	*ns = 0;
	for (uint64_t i = 0; i < pairs && !err; i++) {
		void **block = mix->shape.live ? &mix->blocks[below(mix, mix->shape.live)] : &ptr;

		if (*block)
			err = run_cold(mix, release, block, ns);
		if (!err)
			err = run_cold(mix, allocate, block, ns);
		if (!err && !mix->shape.live)
			err = run_cold(mix, release, block, ns);
	}
	return err;
}

int mix_run(struct mix *mix, uint64_t pairs, uint64_t *ns)
{
	uint64_t start;
	int err;

	if (mix->work)
		return run_all_cold(mix, pairs, ns);
	start = clock_ns();
	err = run_warm(mix, pairs);
	*ns = clock_ns() - start;
	return err;
}

int mix_warm_up(struct mix *mix, uint64_t batch_ns, uint64_t *pairs)
{
	uint64_t n = CLAMP(2 * mix->shape.live, WARM_PAIRS, WARM_PAIRS_MOST), ns;
	int err;

	err = run_warm(mix, MAX(n, mix->shape.warm));
	if (mix->work) {
		*pairs = MAX(batch_ns / COLD_NS, WARM_PAIRS);
		return err;
	}
	for (n = 1; !err; n *= 2) {
		err = mix_run(mix, n, &ns);
		if (!err && ns >= batch_ns / 2)
			break;
	}
	*pairs = n;
	return err;
}

int mix_slowest(struct mix *mix, uint64_t pairs, uint64_t *slowest)
{
	void *ptr = NULL, **block = &ptr;
	uint64_t start;
	int err = 0;

	*slowest = 0;
	for (uint64_t i = 0; i < pairs && !err; i++) {
		if (mix->shape.live) {
			block = &mix->blocks[below(mix, mix->shape.live)];
			err = release(mix, block);
			if (err)
				break;
		}
		if (mix->work)
			do_work(mix);
		start = clock_ns();
		err = allocate(mix, block);
		*slowest = MAX(*slowest, clock_ns() - start);
		if (!err && !mix->shape.live)
			err = release(mix, block);
	}
	return err;
}
