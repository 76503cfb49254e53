// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Many operations by several threads on streams that they all share: soak [OPERATIONS [SEED]], half of them on a pool
 * in whole pages, half on one with extents.
 *
 * A table of slots holds what is allocated. An operation takes a slot at random: an empty one is allocated and filled on
 * a stream, a full one verified and freed, on its stream or on another that waits for it, whichever thread had it
 * before. Work completes now and then, on whatever thread that is. Now and then everything is held against the rest.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "progress.h"

#define THREADS 8
#define SOAK_STREAMS 16
#define SLOTS 256
#define CHECK_EVERY 20000

struct slot {
	pthread_mutex_t lock;
	char *ptr;
	size_t size;
	struct CUstream_st *stream;
	uint64_t pattern;
};

struct soak {
	struct vpmm_pool *pool;
	bool paged;
	struct CUstream_st *streams[SOAK_STREAMS];
	struct slot slots[SLOTS];
	uint64_t operations;		/* of each thread */
	uint64_t done;			/* of all, atomic */
	struct progress bar;
};

struct worker {
	struct soak *soak;
	pthread_t thread;
	guint32 seed;
	uint64_t patterns;
};

struct work {
	char *ptr;
	size_t size;
	uint64_t pattern;
};

static uint64_t *first_of(const struct work *work)
{
	return (uint64_t *)(void *)work->ptr;
}

static uint64_t *last_of(const struct work *work)
{
	return (uint64_t *)(void *)(work->ptr + work->size - 8);
}

static void fill(void *data)
{
	struct work *work = data;

	*first_of(work) = work->pattern;
	*last_of(work) = ~work->pattern;
	g_free(work);
}

static void verify(void *data)
{
	struct work *work = data;

	g_assert_cmphex(*first_of(work), ==, work->pattern);
	g_assert_cmphex(*last_of(work), ==, ~work->pattern);
	g_free(work);
}

static void launch(const struct slot *slot, vpmm_host_fn fn)
{
	struct work *work = g_new(struct work, 1);

	*work = (struct work){ .ptr = slot->ptr, .size = slot->size, .pattern = slot->pattern };
	assert_ok(vpmm_host_stream_launch(slot->stream, fn, work));
}

static struct CUstream_st *any_stream(struct soak *soak, GRand *rand)
{
	return soak->streams[g_rand_int_range(rand, 0, SOAK_STREAMS)];
}

static void fill_slot(struct worker *w, struct slot *slot, GRand *rand)
{
	void *ptr;

	/* Mostly one page or two, some larger, some small, some that leave part of a page. */
	switch (g_rand_int_range(rand, 0, 8)) {
	case 3:
		slot->size = (size_t)g_rand_int_range(rand, 8192, 4 * (gint32)PAGE) & ~(size_t)15;
		break;
	case 0:
		slot->size = (size_t)g_rand_int_range(rand, 3, 9) * PAGE;
		break;
	case 1: case 2:
		slot->size = (size_t)g_rand_int_range(rand, 1, 8192) * 16;
		break;
	default:
		slot->size = (size_t)g_rand_int_range(rand, 1, 3) * PAGE;
	}
	slot->stream = any_stream(w->soak, rand);
	slot->pattern = (uint64_t)w->seed << 48 | ++w->patterns;
	assert_ok(vpmm_malloc(w->soak->pool, &ptr, slot->size, slot->stream));
	slot->ptr = ptr;
	launch(slot, fill);
}

static void empty_slot(struct worker *w, struct slot *slot, GRand *rand)
{
	struct CUstream_st *stream = slot->stream;

	if (!g_rand_int_range(rand, 0, 8))
		stream = any_stream(w->soak, rand);
	if (stream != slot->stream)
		assert_ok(vpmm_host_stream_wait(stream, slot->stream));
	slot->stream = stream;
	launch(slot, verify);
	assert_ok(vpmm_free(w->soak->pool, slot->ptr, stream));
	slot->ptr = NULL;
}

static void complete(struct soak *soak, GRand *rand)
{
	int err = vpmm_host_stream_complete(any_stream(soak, rand), (unsigned int)g_rand_int_range(rand, 1, 16));

	g_assert_true(err == 0 || err == -EBUSY);
}

static void check(struct soak *soak)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_check(soak->pool));
	assert_ok(vpmm_pool_stats(soak->pool, &stats));
	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped);
	if (soak->paged)
		g_assert_cmpuint(stats.mapped, ==, stats.peak_live);
	g_assert_cmpuint(stats.mapped, >=, stats.peak_live);
	g_assert_cmpuint(stats.live + stats.free + stats.holes + stats.zombies, ==, stats.reserved);
}

static void *work(void *data)
{
	struct worker *w = data;
	struct soak *soak = w->soak;
	GRand *rand = g_rand_new_with_seed(w->seed);

	for (uint64_t i = 1; i <= soak->operations; i++) {
		struct slot *slot = &soak->slots[g_rand_int_range(rand, 0, SLOTS)];

		pthread_mutex_lock(&slot->lock);
		if (slot->ptr)
			empty_slot(w, slot, rand);
		else
			fill_slot(w, slot, rand);
		pthread_mutex_unlock(&slot->lock);
		if (i % 2)
			complete(soak, rand);
		if (i % CHECK_EVERY == 0)
			check(soak);
		if (i % PROGRESS_STRIDE)
			continue;
		__atomic_add_fetch(&soak->done, PROGRESS_STRIDE, __ATOMIC_RELAXED);
		if (w->seed % THREADS == 0)
			progress_show(&soak->bar, __atomic_load_n(&soak->done, __ATOMIC_RELAXED),
				      soak->operations * THREADS);
	}
	g_rand_free(rand);
	return NULL;
}

static void soak_open(struct soak *soak, struct vpmm_opts opts)
{
	assert_ok(vpmm_pool_create(&soak->pool, &opts));
	for (int i = 0; i < SOAK_STREAMS; i++)
		assert_ok(vpmm_host_stream_create(&soak->streams[i]));
	for (int i = 0; i < SLOTS; i++)
		pthread_mutex_init(&soak->slots[i].lock, NULL);
}

static void soak_close(struct soak *soak)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	GRand *rand = g_rand_new_with_seed(0);
	struct worker w = { .soak = soak };
	bool busy = true;

	for (int i = 0; i < SLOTS; i++) {
		if (soak->slots[i].ptr)
			empty_slot(&w, &soak->slots[i], rand);
		pthread_mutex_destroy(&soak->slots[i].lock);
	}
	while (busy) {
		busy = false;
		for (int i = 0; i < SOAK_STREAMS; i++)
			busy |= vpmm_host_stream_complete(soak->streams[i], UINT_MAX) == -EBUSY;
	}
	check(soak);
	assert_ok(vpmm_pool_stats(soak->pool, &stats));
	g_assert_cmpuint(stats.live, ==, 0);
	g_assert_cmpuint(stats.small_live, ==, 0);
	g_assert_cmpuint(stats.mallocs, ==, stats.frees);
	vpmm_pool_destroy(soak->pool);
	for (int i = 0; i < SOAK_STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(soak->streams[i]));
	fixture_assert_nothing_left();
	g_rand_free(rand);
	printf("%" G_GUINT64_FORMAT " allocations, of which %" G_GUINT64_FORMAT " found a free block, %" G_GUINT64_FORMAT
	       " were gathered and %" G_GUINT64_FORMAT " grew the pool to %" G_GUINT64_FORMAT " MiB, after %"
	       G_GUINT64_FORMAT " waits\n", stats.mallocs, stats.reuses, stats.defrags, stats.grows,
	       stats.peak_mapped >> 20, stats.waits);
}

static uint64_t number(const char *text)
{
	guint64 value;

	if (!g_ascii_string_to_unsigned(text, 10, 1, INT64_MAX, &value, NULL)) {
		fprintf(stderr, "soak: %s is no number of operations, nor a seed\n", text);
		exit(2);
	}
	return value;
}

static void run(struct vpmm_opts opts, uint64_t operations, guint32 seed)
{
	static struct soak soak;
	struct worker workers[THREADS];

	soak = (struct soak){ .operations = (operations + THREADS - 1) / THREADS, .paged = opts.extent_max == PAGE };
	soak_open(&soak, opts);
	progress_begin(&soak.bar, "soak");
	for (guint32 i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .soak = &soak, .seed = seed * THREADS + i };
		g_assert_cmpint(pthread_create(&workers[i].thread, NULL, work, &workers[i]), ==, 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	progress_end(&soak.bar);
	soak_close(&soak);
}

int main(int argc, char **argv)
{
	uint64_t operations = argc > 1 ? number(argv[1]) : 100000;
	guint32 seed = argc > 2 ? (guint32)number(argv[2]) : 1;

	run((struct vpmm_opts){ FIXTURE_OPTS }, (operations + 1) / 2, seed);
	run((struct vpmm_opts){ FIXTURE_PACKED }, (operations + 1) / 2, seed);
	return 0;
}
