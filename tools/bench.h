/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the benchmarks share: who is measured, with what bounds, and where the figures go. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator.h"
#include "choose.h"
#include "device.h"
#include "progress.h"
#include "trace.h"

#define BENCH_KIB ((size_t)1 << 10)
#define BENCH_MIB ((size_t)1 << 20)
#define BENCH_GIB ((size_t)1 << 30)

#define BENCH_MOST_ROUNDS 99
#define BENCH_MOST_THREADS 64

/* Columns of what a line of a table is about. */
#define BENCH_WHAT_WIDTH 19

/* What more regions are compared with. */
#define BENCH_FEW_REGIONS 1000

/* Who is measured, in turn. */
enum contender {
	BENCH_VPMM,
	BENCH_ASYNC,
	BENCH_MALLOC,
	BENCH_CONTENDERS
};

/* What a figure is. */
enum bench_unit {
	BENCH_TIME,			/* seconds */
	BENCH_FACTOR,
	BENCH_PERCENT,
	BENCH_COUNT,
	BENCH_RATE			/* bytes a second */
};

/**
 * struct bench - one run of the program
 * @choice: the backend and what is there
 * @dev: with a stream for each thread, and as many as a trace has
 * @contenders: how many take part, from BENCH_VPMM on
 * @json: whether programs read the figures
 * @cold: whether other work comes between the calls of pairs
 * @rounds: of what takes microseconds
 * @heavy_rounds: of what takes longer
 * @batch_ns: how long a round of the former goes on
 * @threads: at most
 * @limit: bytes of the device that may be taken
 * @limited: the user says so
 * @regions: how many are to be live
 * @small_live: how many small blocks are to be live
 * @shared: bytes of the range of shared
 * @traces: to be replayed
 * @n_traces: how many
 * @errors: so far
 * @head: what the lines that follow have in common, until it is printed
 * @progress: of the case under way
 */
struct bench {
	const struct choice *choice;
	struct device *dev;
	unsigned int contenders;
	bool json;
	bool cold;
	unsigned int rounds;
	unsigned int heavy_rounds;
	uint64_t batch_ns;
	unsigned int threads;
	uint64_t limit;
	bool limited;
	uint64_t regions;
	size_t small_live;
	uint64_t shared;
	struct trace **traces;
	size_t n_traces;
	unsigned int errors;
	const char *head;
	struct progress progress;
};

/**
 * struct bench_row - one line: a case, and what was measured of each contender
 * @benchmark: which it belongs to
 * @what: the case, for people
 * @number: the case, for programs: bytes, threads, blocks
 * @metric: what the figures are of
 * @detail: whether the line belongs to the one before
 * @by_hand: whether the others are copies by hand, from pinned and from ordinary memory, in place of allocators
 * @unit: what they are
 * @samples: one a round
 * @n: how many
 * @slowest_ns: nanoseconds of the slowest single allocation of all rounds; 0: not measured
 */
struct bench_row {
	const char *benchmark;
	char what[256];
	uint64_t number;
	const char *metric;
	bool detail;
	bool by_hand;
	enum bench_unit unit;
	double samples[BENCH_CONTENDERS][BENCH_MOST_ROUNDS];
	unsigned int n[BENCH_CONTENDERS];
	uint64_t slowest_ns[BENCH_CONTENDERS];
};

/**
 * bench_allocator() - an allocator, empty
 *
 * Return: 0, or a negative errno value explained by fail_set().
 */
int bench_allocator(struct bench *b, enum contender who, struct allocator **a);

/**
 * bench_row_begin() - begin a line
 */
void bench_row_begin(struct bench_row *row, const char *benchmark, const char *metric, enum bench_unit unit,
		     uint64_t number, const char *format, ...) __attribute__((format(printf, 6, 7)));

/**
 * bench_row_detail() - begin a line that says more about the case of another
 */
void bench_row_detail(struct bench_row *row, const struct bench_row *of, const char *metric, enum bench_unit unit);

/**
 * bench_row_add() - what a round of a contender measured
 */
void bench_row_add(struct bench_row *row, enum contender who, double value);

/**
 * bench_row_slow() - how long its slowest allocation took
 */
void bench_row_slow(struct bench_row *row, enum contender who, uint64_t ns);

/**
 * bench_row_median() - of a contender's rounds
 *
 * Return: NAN where there were none.
 */
double bench_row_median(const struct bench_row *row, enum contender who);

/**
 * bench_fits() - skip a case that needs more memory than there may be
 * @bytes: what it needs
 *
 * Return: whether it may run.
 */
bool bench_fits(struct bench *b, const struct bench_row *row, uint64_t bytes);

/**
 * bench_fail() - tell of an error, and count it
 * @row: the case
 * @who: the contender
 * @why: the sentence
 */
void bench_fail(struct bench *b, const struct bench_row *row, enum contender who, const char *why);

/* The benchmarks. Each prints its lines; what goes wrong is told and counted. */
void bench_pair(struct bench *b);
void bench_live(struct bench *b);
void bench_small(struct bench *b);
void bench_threads(struct bench *b);
void bench_grow(struct bench *b);
void bench_harvest(struct bench *b);
void bench_resize(struct bench *b);
void bench_shared(struct bench *b);
void bench_replay(struct bench *b);
void bench_regions(struct bench *b);

/* How lines are printed. */

/**
 * bench_print_setup() - what was measured and how, before the first line; nothing for programs
 */
void bench_print_setup(const struct bench *b);

/**
 * bench_print_head() - what the lines that follow have in common
 * @text: a sentence; valid until the next
 */
void bench_print_head(struct bench *b, const char *text);

/**
 * bench_print() - print a line that is complete; one without figures is not printed
 */
void bench_print(struct bench *b, const struct bench_row *row);

/**
 * bench_skip() - say why a case cannot run
 */
void bench_skip(struct bench *b, const struct bench_row *row, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * bench_note() - say what has to be known of the figures that follow
 */
void bench_note(struct bench *b, const struct bench_row *row, const char *what);

/**
 * bench_size_text() - bytes in the largest unit that they are a whole number of, such as "2 MiB"
 */
void bench_size_text(char text[32], uint64_t bytes);

/*
 * Has @call make a measurement of a contender in each heavy round, with its number in @who, while all before worked.
 * @in: whether the contender takes part
 */
#define BENCH_ROUNDS(b, what, in, call) \
	do { \
		const unsigned int contenders_ = (b)->contenders, all_ = (b)->heavy_rounds * contenders_; \
		progress_begin(&(b)->progress, what); \
		for (unsigned int i_ = 0; i_ < all_; i_++) { \
			const unsigned int who = i_ % contenders_; \
			(in)[who] = (in)[who] && (call); \
			progress_show(&(b)->progress, i_, all_); \
		} \
		progress_end(&(b)->progress); \
	} while (0)

/* Pairs of a malloc and a free that can go on for ever, and how long they take. */

/**
 * struct mix_shape - what pairs are made of
 * @least: bytes of the smallest block
 * @most: bytes of the largest; those between are as frequent
 * @step: bytes; sizes are @least and a multiple of it
 * @live: how many blocks live; a pair frees one of them at random and allocates another. 0: a pair allocates a block
 *	and frees it
 * @spare: how many blocks are freed again before the first pair, spread among those that live
 * @warm: pairs before the first that is timed, if that is more than twice @live
 * @cold: whether each call is timed by itself, after work that leaves nothing of it in the processor's caches
 */
struct mix_shape {
	size_t least;
	size_t most;
	size_t step;
	size_t live;
	size_t spare;
	size_t warm;
	bool cold;
};

/* What the work between cold calls reads and writes: more than the caches that a core has for itself. */
#define MIX_WORK_BYTES ((size_t)4 << 20)

struct mix {
	struct mix_shape shape;
	struct allocator *a;
	struct CUstream_st *stream;
	uint64_t random;
	void **blocks;
	volatile uint64_t *work;	/* memory of the work between cold calls; NULL: they are not cold */
	uint64_t clock_ns;		/* what of a time that is measured is due to the clock */
};

/**
 * mix_open() - allocate what is to live
 *
 * The pairs of two mixes of the same shape are the same.
 *
 * Return: 0, or what the allocator returned; its error() has the sentence. Either way mix_close() frees it.
 */
int mix_open(struct mix *mix, const struct mix_shape *shape, struct allocator *a, struct CUstream_st *stream);

/**
 * mix_close() - free what lives
 */
void mix_close(struct mix *mix);

/**
 * mix_run() - some pairs, timed together, or each call apart if they are cold
 * @ns: receives nanoseconds of all of them
 *
 * Return: 0, or what the allocator returned.
 */
int mix_run(struct mix *mix, uint64_t pairs, uint64_t *ns);

/**
 * mix_warm_up() - run until caches are warm, and see how many pairs make a batch
 * @batch_ns: how long it is to last, in nanoseconds
 * @pairs: receives the number
 *
 * Return: 0, or what the allocator returned.
 */
int mix_warm_up(struct mix *mix, uint64_t batch_ns, uint64_t *pairs);

/**
 * mix_slowest() - some pairs, each allocation timed alone
 * @ns: receives nanoseconds of the slowest
 *
 * Return: 0, or what the allocator returned.
 */
int mix_slowest(struct mix *mix, uint64_t pairs, uint64_t *ns);

#endif /* BENCH_H */
