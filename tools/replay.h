/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs a trace on an allocator and measures it. */
#ifndef REPLAY_H
#define REPLAY_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator.h"
#include "device.h"
#include "progress.h"
#include "trace.h"

/* Of struct vpmm_stats, what only ever grows; a pass has the difference over it. */
#define REPLAY_COUNTS(X) \
	X(mallocs) X(frees) X(reuses) X(steals) X(defrags) X(grows) X(waits) \
	X(creates) X(maps) X(accesses) X(unmaps) X(releases) X(grown) X(remapped) \
	X(given_back) X(scrubbed) X(driver_ns) X(waits_sampled) X(wait_ns)

/* Of struct vpmm_stats, what is so at the end of a pass, before what the trace leaves allocated is freed. */
#define REPLAY_LEVELS(X) \
	X(reserved) X(mapped) X(live) X(free) X(holes) X(zombies) X(small_live) X(small_mapped) \
	X(chunks) X(regions) X(extents) X(stuck) X(spans) X(mappings) X(held) X(requested)

/**
 * struct replay_result - one pass
 * @pass: its number, from 1
 * @operations: of the trace; of a pass that was stopped, those that were run
 * @errors: calls that failed, and allocations whose pattern was not intact
 * @streams: of the trace
 * @small: allocations of less than a page
 * @peak_live: the most bytes that were allocated at once, as asked for
 * @peak_rounded: the same of the requests of a page or more, rounded up to pages
 * @wall_s: seconds that the operations took, all together
 * @trace_s: seconds between the trace's first and last operation, when it was recorded
 * @op_us_p50: microseconds within which half of the calls came back
 * @op_us_p99: microseconds within which 99 of a hundred did
 * @op_us_max: microseconds of the slowest
 * @malloc_ns_max: nanoseconds of the slowest that allocated
 * @stats: of the allocator: counts of this pass, levels at its end, peaks since the allocator was created
 */
struct replay_result {
	unsigned int pass;
	uint64_t operations;
	uint64_t errors;
	uint64_t streams;
	uint64_t small;
	uint64_t peak_live;
	uint64_t peak_rounded;
	double wall_s;
	double trace_s;
	double op_us_p50;
	double op_us_p99;
	double op_us_max;
	uint64_t malloc_ns_max;
	struct vpmm_stats stats;
};

/**
 * struct replay_watch - who looks on; the time that it takes counts for no statistic
 * @see: hears after each operation which it was, of those of all passes, and how many bytes are live; NULL: nobody
 * @moved: hears before that of an allocation that was at @before and is at @after from now on; NULL: nowhere.
 *	@moved of NULL: nobody
 * @data: for both
 */
struct replay_watch {
	void (*see)(void *data, uint64_t operation, uint64_t live);
	void (*moved)(void *data, const struct trace_op *op, const void *before, const void *after);
	void *data;
};

/**
 * struct replay_setup - what is run on what
 * @trace: the trace
 * @dev: the device, opened for as many streams and allocations as the trace has
 * @allocator: of that device
 * @page_size: of @peak_rounded
 * @passes: how many there will be, for @progress
 * @progress: hears how much of all passes is done; NULL: nobody
 * @watch: who looks on
 * @quiet: whether errors are counted, but not told
 * @stop: once this is not 0, the pass stops at its next operation; NULL: it never does
 */
struct replay_setup {
	const struct trace *trace;
	struct device *dev;
	struct allocator *allocator;
	uint64_t page_size;
	unsigned int passes;
	struct progress *progress;
	struct replay_watch watch;
	bool quiet;
	const volatile sig_atomic_t *stop;
};

/**
 * replay_open() - open a device for a trace, and an allocator on it
 * @setup: has the trace; receives both
 * @dev_opts: how the device is used; its streams and marks are the trace's
 * @name: of the allocator: vpmm, async or malloc
 * @opts: of the pool, whose backend says which device it is
 *
 * Return: 0, or a negative errno value explained by fail_set().
 */
int replay_open(struct replay_setup *setup, struct device_opts dev_opts, const char *name, const struct vpmm_opts *opts);

/**
 * replay_close() - close both
 */
void replay_close(struct replay_setup *setup);

/**
 * replay_pass() - run the trace once
 * @setup: what on what
 * @pass: the number of the pass, from 1
 * @result: receives the measurements
 *
 * What fails is counted and told on standard error, the first few of it; an allocation that failed is not freed. What
 * the trace leaves allocated is freed in the end, which is no operation; so is what a pass leaves that was stopped.
 *
 * Return: whether the pass came to its end.
 */
bool replay_pass(const struct replay_setup *setup, unsigned int pass, struct replay_result *result);

#endif /* REPLAY_H */
