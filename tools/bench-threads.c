// SPDX-License-Identifier: LGPL-2.1-or-later
/* Threads that allocate and free all at once, each on a stream that no other uses. */
#include <glib.h>
#include <pthread.h>

#include "bench.h"
#include "fail.h"
#include "util/clock.h"

#define BLOCK (4 * BENCH_MIB)

/* How many pairs of a round are timed one by one. */
#define SINGLE_PAIRS 200

/* The driver's CU_STREAM_PER_THREAD, and VPMM_HOST_STREAM_PER_THREAD. */
#define PER_THREAD ((struct CUstream_st *)0x2)

enum order { ORDER_RUN, ORDER_QUIT };

struct team;

struct worker {
	struct team *team;
	pthread_t thread;
	struct CUstream_st *stream;
	struct mix mixes[BENCH_CONTENDERS];
	uint64_t begin_ns;
	uint64_t end_ns;
	uint64_t slowest_ns;
	char failure[512];		/* empty: none */
};

/* What the main thread writes before the barrier, and the workers read after it. */
struct team {
	struct bench *b;
	struct allocator *allocators[BENCH_CONTENDERS];	/* NULL: out */
	struct worker workers[BENCH_MOST_THREADS];
	unsigned int threads;
	pthread_mutex_t gate;		/* locked until it is known whether all threads are there */
	bool abandoned;
	pthread_barrier_t barrier;
	enum order order;
	enum contender who;
	uint64_t pairs;
	uint64_t single_pairs;
};

static void note_failure(struct worker *w, const char *why)
{
	g_strlcpy(w->failure, *why ? why : "no sentence", sizeof(w->failure));
}

static void run_once(struct worker *w)
{
	struct team *team = w->team;
	struct mix *mix = &w->mixes[team->who];
	uint64_t ns;
	int err;

	w->begin_ns = clock_ns();
	err = mix_run(mix, team->pairs, &ns);
	w->end_ns = clock_ns();
	if (!err)
		err = mix_slowest(mix, team->single_pairs, &w->slowest_ns);
	if (err)
		note_failure(w, mix->a->ops->error());
}

static void *work(void *data)
{
	struct worker *w = data;
	struct device *dev = w->team->b->dev;
	bool abandoned;

	pthread_mutex_lock(&w->team->gate);
	abandoned = w->team->abandoned;
	pthread_mutex_unlock(&w->team->gate);
	if (abandoned)
		return NULL;
	if (dev->ops->attach(dev))
		note_failure(w, fail_text());
	for (;;) {
		pthread_barrier_wait(&w->team->barrier);
		if (w->team->order == ORDER_QUIT)
			return NULL;
		if (!w->failure[0])
			run_once(w);
		pthread_barrier_wait(&w->team->barrier);
	}
}

/* All threads at once; NULL, or what one of them has to complain of. */
static const char *run_round(struct team *team, enum contender who, uint64_t pairs, uint64_t *ns, uint64_t *slowest)
{
	uint64_t begin = UINT64_MAX, end = 0;
	const char *failure = NULL;

	*slowest = 0;
	team->order = ORDER_RUN;
	team->who = who;
	team->pairs = pairs;
	team->single_pairs = MIN(pairs, SINGLE_PAIRS);
	pthread_barrier_wait(&team->barrier);
	pthread_barrier_wait(&team->barrier);
	for (unsigned int i = 0; i < team->threads; i++) {
		struct worker *w = &team->workers[i];

		if (w->failure[0])
			failure = w->failure;
		begin = MIN(begin, w->begin_ns);
		end = MAX(end, w->end_ns);
		*slowest = MAX(*slowest, w->slowest_ns);
	}
	*ns = end - begin;
	return failure;
}

/* A contender that failed is out, and leaves the threads to the others. */
static void expel(struct team *team, const struct bench_row *row, enum contender who, const char *failure)
{
	bench_fail(team->b, row, who, failure);
	for (unsigned int i = 0; i < team->threads; i++)
		team->workers[i].failure[0] = '\0';
}

/* 0 if it failed. */
static uint64_t warm_up(struct team *team, const struct bench_row *row, enum contender who)
{
	uint64_t pairs = 16, ns, slowest;
	unsigned int enough = 0;
	const char *failure;

	if (!team->allocators[who])
		return 0;
	/* The first round may take long because the allocator grows; what counts is how long the next one takes. */
	while (enough < 2) {
		failure = run_round(team, who, pairs, &ns, &slowest);
		if (failure) {
			expel(team, row, who, failure);
			return 0;
		}
		if (ns >= team->b->batch_ns / 2) {
			enough++;
		} else {
			enough = 0;
			pairs *= 2;
		}
	}
	return pairs;
}

static void measure(struct team *team, struct bench_row *row)
{
	uint64_t pairs[BENCH_CONTENDERS] = { 0 }, ns, slowest;
	struct bench *b = team->b;
	const char *failure;

	for (unsigned int who = 0; who < b->contenders; who++)
		pairs[who] = warm_up(team, row, who);
	for (unsigned int i = 0; i < b->rounds; i++) {
		for (unsigned int who = 0; who < b->contenders; who++) {
			if (!pairs[who])
				continue;
			failure = run_round(team, who, pairs[who], &ns, &slowest);
			if (failure) {
				expel(team, row, who, failure);
				pairs[who] = 0;
				continue;
			}
			bench_row_add(row, who, (double)ns / 1e9 / (double)(pairs[who] * team->threads));
			bench_row_slow(row, who, slowest);
		}
		progress_show(&b->progress, i, b->rounds);
	}
}

static void open_mixes(struct team *team, const struct bench_row *row)
{
	const struct mix_shape shape = { .least = BLOCK, .most = BLOCK };
	struct bench *b = team->b;

	for (unsigned int who = 0; who < b->contenders; who++) {
		if (bench_allocator(b, who, &team->allocators[who])) {
			team->allocators[who] = NULL;
			bench_fail(b, row, who, fail_text());
			continue;
		}
		/* With nothing live there is nothing to fail. */
		for (unsigned int i = 0; i < team->threads; i++)
			mix_open(&team->workers[i].mixes[who], &shape, team->allocators[who], team->workers[i].stream);
	}
}

static void close_mixes(struct team *team)
{
	struct bench *b = team->b;

	b->dev->ops->synchronize(b->dev);
	for (unsigned int who = 0; who < b->contenders; who++) {
		if (!team->allocators[who])
			continue;
		for (unsigned int i = 0; i < team->threads; i++)
			mix_close(&team->workers[i].mixes[who]);
		team->allocators[who]->ops->destroy(team->allocators[who]);
	}
}

/* The barrier is for all of them, so either all are there or there is no run. */
static unsigned int start_threads(struct team *team)
{
	unsigned int i;

	pthread_mutex_init(&team->gate, NULL);
	pthread_barrier_init(&team->barrier, NULL, team->threads + 1);
	pthread_mutex_lock(&team->gate);
	for (i = 0; i < team->threads; i++) {
		if (pthread_create(&team->workers[i].thread, NULL, work, &team->workers[i]))
			break;
	}
	team->abandoned = i < team->threads;
	pthread_mutex_unlock(&team->gate);
	return i;
}

static void end_threads(struct team *team, unsigned int started)
{
	if (!team->abandoned) {
		team->order = ORDER_QUIT;
		pthread_barrier_wait(&team->barrier);
	}
	for (unsigned int i = 0; i < started; i++)
		pthread_join(team->workers[i].thread, NULL);
	pthread_barrier_destroy(&team->barrier);
	pthread_mutex_destroy(&team->gate);
}

static void run_team(struct bench *b, struct bench_row *row, unsigned int threads, bool per_thread)
{
	struct team *team = g_new0(struct team, 1);
	unsigned int started;

	team->b = b;
	team->threads = threads;
	for (unsigned int i = 0; i < threads; i++) {
		team->workers[i].team = team;
		team->workers[i].stream = per_thread ? PER_THREAD : b->dev->streams[i];
	}
	progress_begin(&b->progress, row->benchmark);
	open_mixes(team, row);
	started = start_threads(team);
	if (!team->abandoned)
		measure(team, row);
	end_threads(team, started);
	close_mixes(team);
	progress_end(&b->progress);
	if (team->abandoned)
		bench_skip(b, row, "only %u of %u threads could be created", started, threads);
	else
		bench_print(b, row);
	g_free(team);
}

static void run_counts(struct bench *b, bool per_thread)
{
	const char *metric = per_thread ? "pair, per-thread stream" : "pair, own stream";
	struct bench_row row;

	for (unsigned int threads = 1, next; threads <= b->threads; threads = next) {
		/* By twice as many, and as many as there are to be. */
		next = threads < b->threads ? MIN(2 * threads, b->threads) : threads + 1;
		bench_row_begin(&row, "threads", metric, BENCH_TIME, threads, "%u thread%s", threads,
				threads == 1 ? "" : "s");
		if (bench_fits(b, &row, b->contenders * threads * BLOCK))
			run_team(b, &row, threads, per_thread);
	}
}

void bench_threads(struct bench *b)
{
	bench_print_head(b, "threads: each allocates and frees 4 MiB over and over on a stream of its own; time of all "
			 "by the number of pairs, so with ideal scaling it halves from line to line");
	run_counts(b, false);
	bench_print_head(b, "threads, the same on the driver's per-thread default stream, in place of one created");
	run_counts(b, true);
}
