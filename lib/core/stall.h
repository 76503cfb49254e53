/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long streams stand because the pool makes them wait for others, measured on some of the waits. All of it is under
 * core.lock.
 *
 * A sample is a pair of events that keep time, recorded on the waiting stream before and behind its wait. What lies
 * between them is read later, when the next sample is due or the statistics are asked for: nothing waits for it. A
 * sample that fails is dropped, and no call fails for it.
 */
#ifndef STALL_H
#define STALL_H

#include <glib.h>
#include <stdint.h>

#include "util/bound.h"

struct CUstream_st;
struct backend_event;
struct stream_map;

/* Samples that may be pending; while so many are, no other is taken. */
#define STALLS_PENDING BOUND(8, 2)

/**
 * struct stall - one sample
 * @start: recorded before the wait; NULL: this wait is not measured
 * @end: recorded behind it
 * @waits: how many other streams were waited for
 */
struct stall {
	struct backend_event *start;
	struct backend_event *end;
	guint waits;
};

/**
 * struct stalls - the samples of a pool
 * @skip: how many waits to let pass before the next sample
 * @gap: how many waits there are to a sample by now, on average
 * @drawn: the random number that was drawn last
 * @pending: samples that the device may not have come to
 * @count: how many there are
 * @sampled: streams that were waited for, in all samples that were read
 * @ns: the time that streams stood, in the same samples
 */
struct stalls {
	guint skip;
	guint gap;
	uint64_t drawn;
	struct stall pending[STALLS_PENDING];
	guint count;
	uint64_t sampled;
	uint64_t ns;
};

/**
 * stall_begin() - measure the wait that follows, if it is the turn of one
 * @map: the streams of the pool
 * @handle: the stream that is about to wait, not under capture
 *
 * Return: the sample, for stall_end().
 */
struct stall stall_begin(struct stream_map *map, struct CUstream_st *handle);

/**
 * stall_end() - the wait has been submitted
 * @map: the streams of the pool
 * @handle: the stream
 * @stall: the sample
 * @waits: how many other streams it waits for; 0: the wait failed, and is not measured
 */
void stall_end(struct stream_map *map, struct CUstream_st *handle, struct stall *stall, guint waits);

/**
 * stall_collect() - read the samples that are complete
 * @map: the streams of the pool
 */
void stall_collect(struct stream_map *map);

/**
 * stall_clear() - drop the samples that are pending
 * @map: the streams of the pool
 */
void stall_clear(struct stream_map *map);

#endif /* STALL_H */
