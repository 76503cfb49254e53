/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Programs whose streams overlap: one copies while another computes. They run on the virtual clock of the host backend,
 * so that waiting can be weighed against memory, and the figures are the same each time.
 *
 * The host of such a program runs ahead of the device, as far as a driver lets it. It frees a block as soon as it has
 * submitted the last work that uses it, and names the other streams that use it to the pool. Whether the next block
 * waits for that work or takes other memory is up to the allocator. Programs with even seeds create their streams anew
 * for each pass, as some do for each epoch; the others keep them.
 */
#ifndef OVERLAP_H
#define OVERLAP_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmm-host.h"

#define OVERLAP_STREAMS_MAX 32

enum overlap_kind {
	OVERLAP_MALLOC,
	OVERLAP_USE,			/* another stream is going to use the block too */
	OVERLAP_FREE,			/* on the stream that the block was allocated on */
	OVERLAP_WORK,
	OVERLAP_MARK,			/* an event is recorded */
	OVERLAP_WAIT			/* a stream waits for an event */
};

struct overlap_op {
	enum overlap_kind kind;
	enum vpmm_host_engine engine;
	uint32_t stream;
	uint32_t number;		/* of the block or the event */
	uint64_t ns;			/* of work */
};

struct overlap_block {
	size_t bytes;
	uint32_t stream;
	uint32_t users;			/* streams that use it, its own included: a bit each */
	bool freed;			/* by the program; others are freed at its end */
};

/* A program. What is said of its blocks holds once it is written. */
struct overlap {
	char *name;
	const char *family;
	GRand *rand;			/* while it is written */
	uint32_t streams;
	struct CUstream_st **handles;	/* of the streams, while there are any */
	bool renews;			/* each pass has streams of its own */
	uint64_t host_ns;		/* that the host needs to submit work */
	unsigned int ahead;		/* pieces of work that are pending on a stream, at most */
	GArray *ops;			/* of struct overlap_op */
	GArray *blocks;			/* of struct overlap_block */
	uint32_t marks;
	uint64_t live;			/* bytes, as the program goes */
	uint64_t peak;			/* the most that was live at once */
};

/**
 * overlap_begin() - start writing a program
 * @family: the kind of program
 * @seed: of its random numbers; the same seed writes the same program
 *
 * Return: the program, for overlap_free().
 */
struct overlap *overlap_begin(const char *family, uint32_t seed);

/**
 * overlap_free() - drop a program
 * @p: the program
 */
void overlap_free(struct overlap *p);

/**
 * overlap_malloc() - append an allocation
 * @p: the program
 * @bytes: how many
 * @stream: the number of the stream
 *
 * Return: the block.
 */
uint32_t overlap_malloc(struct overlap *p, double bytes, uint32_t stream);

/**
 * overlap_drop() - append the free of a block
 * @p: the program
 * @block: the block
 */
void overlap_drop(struct overlap *p, uint32_t block);

/**
 * overlap_use() - say that another stream uses a block too
 * @p: the program
 * @block: the block, not yet freed
 * @stream: the stream
 */
void overlap_use(struct overlap *p, uint32_t block, uint32_t stream);

/**
 * overlap_work() - append a piece of work
 * @p: the program
 * @stream: the stream
 * @engine: what performs it
 * @ns: how long it takes
 */
void overlap_work(struct overlap *p, uint32_t stream, enum vpmm_host_engine engine, double ns);

/**
 * overlap_mark() - append an event
 * @p: the program
 * @stream: the stream that it is recorded on
 *
 * Return: the event.
 */
uint32_t overlap_mark(struct overlap *p, uint32_t stream);

/**
 * overlap_wait() - append a wait for an event
 * @p: the program
 * @stream: the stream that waits
 * @mark: the event
 */
void overlap_wait(struct overlap *p, uint32_t stream, uint32_t mark);

/**
 * overlap_draw() - a random number
 * @p: the program
 * @from: at least
 * @to: less than
 *
 * Return: the number.
 */
double overlap_draw(struct overlap *p, double from, double to);

/* A family of programs: how many streams they have, and what writes one. */
struct overlap_family {
	const char *name;
	uint32_t streams;
	void (*write)(struct overlap *p, unsigned int products);
	unsigned int products;		/* matrix products for a batch, where the family has batches */
};

extern const struct overlap_family overlap_families[];
extern const size_t n_overlap_families;

/**
 * overlap_program() - one program of a family
 * @family: the family
 * @seed: of its random numbers
 *
 * Return: the program, for overlap_free().
 */
struct overlap *overlap_program(const struct overlap_family *family, uint32_t seed);

/* A run of a program, for those who serve its allocations. */
struct overlap_run {
	const struct overlap *program;
	uint32_t pass;
	struct CUstream_st **streams;
};

/**
 * struct overlap_memory - who serves the allocations of a program
 * @malloc: a block is allocated
 * @use: another stream is going to use a block too. NULL: of no interest.
 * @free: a block is freed, which the streams in its users have used
 * @work: a piece of work was submitted; @op is its number in the program. NULL: of no interest.
 */
struct overlap_memory {
	void (*malloc)(void *data, const struct overlap_run *run, uint32_t block);
	void (*use)(void *data, const struct overlap_run *run, uint32_t block, uint32_t stream);
	void (*free)(void *data, const struct overlap_run *run, uint32_t block);
	void (*work)(void *data, const struct overlap_run *run, uint32_t op);
};

/*
 * Percent by which a piece of work may take more or less time than the program says, as on a real device: what repeats
 * itself to the nanosecond is no test of what is measured.
 */
#define OVERLAP_JITTER 3

/**
 * overlap_run() - run a program until all its work has completed
 * @p: the program
 * @pass: which one it is; each has its own times of work, the same each time
 * @memory: who serves its allocations
 * @data: passed to @memory
 *
 * Return: the nanoseconds that it took on the virtual clock.
 */
uint64_t overlap_run(const struct overlap *p, uint32_t pass, const struct overlap_memory *memory, void *data);

/**
 * overlap_end_streams() - destroy the streams of a program, if there are any
 * @p: the program, of which nothing is pending
 */
void overlap_end_streams(const struct overlap *p);

/**
 * struct overlap_ideal - a run with memory without a bound, where no work waits for memory
 * @ns: what it takes
 * @begins: for each block, when the first work behind its allocation starts, on its stream
 * @ends: for each block, when all streams that use it have got to its free
 */
struct overlap_ideal {
	uint64_t ns;
	uint64_t *begins;
	uint64_t *ends;
};

/**
 * overlap_ideal_run() - run a program with memory without a bound
 * @p: the program
 * @pass: which pass
 * @ideal: receives its times, for overlap_ideal_clear()
 */
void overlap_ideal_run(const struct overlap *p, uint32_t pass, struct overlap_ideal *ideal);

/**
 * overlap_ideal_clear() - drop the times
 * @ideal: the times
 */
void overlap_ideal_clear(struct overlap_ideal *ideal);

/**
 * overlap_least() - the least memory with which an allocator that knows the future is no slower than it may be
 * @p: the program
 * @ideal: its times with memory without a bound
 * @slower: the makespan over the ideal one that is allowed
 *
 * A model, not a bound that is proven. Memory is bytes that fit anywhere, as with mapping, so that nothing is lost to
 * fragmentation. A block takes free bytes that its stream does not have to wait for, by the times of the ideal run, and
 * of those the ones that become free last, which are of least use to others; then bytes never used, up to the
 * budget; then those that become free first. Its stream waits for the events of what it takes. The least budget is
 * found by bisection, as if more memory never were slower, and to one part in 128 of what is live.
 *
 * Return: bytes, no less than the program's peak of what is live.
 */
uint64_t overlap_least(const struct overlap *p, const struct overlap_ideal *ideal, double slower);

#define OVERLAP_PASSES 25

/* The first pass that counts as warm. */
#define OVERLAP_WARM 4

/**
 * struct overlap_measured - what a program took on a pool
 * @failed: a call of the library failed, or an invariant of the pool did not hold; told on standard error
 * @live: bytes; the most that was allocated at once, as asked for
 * @taken: bytes; the most device memory that the pool held
 * @least: bytes; see overlap_least()
 * @ideal: nanoseconds of each pass with memory without a bound
 * @ns: nanoseconds of each pass
 * @calls: milliseconds of driver calls in the last pass
 */
struct overlap_measured {
	bool failed;
	uint64_t live;
	uint64_t taken;
	uint64_t least;
	uint64_t ideal[OVERLAP_PASSES];
	uint64_t ns[OVERLAP_PASSES];
	double calls;
};

/**
 * overlap_measure() - run a program on a pool of its own, several times over
 * @p: the program
 * @overhead: percent, as VPMM_OVERHEAD; other settings are those of the environment
 * @least: whether to find the least memory, too, which takes most of the time
 * @result: receives the measurements
 */
void overlap_measure(const struct overlap *p, int overhead, bool least, struct overlap_measured *result);

/**
 * overlap_print_each() - print a line for each program
 * @programs: of struct overlap
 * @results: what they took
 */
void overlap_print_each(const GPtrArray *programs, const struct overlap_measured *results);

/**
 * overlap_print_families() - print a line for each family, and one for all
 * @programs: of struct overlap, those of a family side by side
 * @results: what they took
 */
void overlap_print_families(const GPtrArray *programs, const struct overlap_measured *results);

/**
 * struct overlap_means - of some programs
 * @first: the first pass over the ideal one
 * @time: a warm pass over the ideal one
 * @worst: the slowest warm pass of any program over the ideal one
 * @memory: taken over live
 * @calls: driver calls of the last pass over its ideal time
 */
struct overlap_means {
	double first;
	double time;
	double worst;
	double memory;
	double calls;
};

/**
 * overlap_means() - the means of all programs
 * @programs: of struct overlap
 * @results: what they took
 * @drawn: of those that are drawn, or of the others
 *
 * Return: the means, all 0 without a program.
 */
struct overlap_means overlap_means(const GPtrArray *programs, const struct overlap_measured *results, bool drawn);

#endif /* OVERLAP_H */
