/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How fast a program gets on, measured on the device. A window is a number of requests. Events that keep time, recorded
 * between windows on one stream, tell how long the device took for each; they are read when it has come to them, so
 * that nothing waits. The figure is the time for a byte of requests. A program that repeats itself has windows of
 * whole periods, as its steps have parts that take longer than others. All of it is under core.lock.
 */
#ifndef WINDOWS_H
#define WINDOWS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/period.h"

struct backend_event;
struct core;
struct request;

/*
 * Windows that the device may not have come to the end of; while there are so many, no other begins. The host may be a
 * thousand launches ahead.
 */
#define WINDOWS_PENDING 64

/**
 * struct window - one that was measured
 * @pace: nanoseconds for a byte of requests
 * @stood: the time that streams stood for others, over the window's; more than 1 if several did at once
 * @length: how many windows it stands for: more than 1 where some before it could not be measured
 * @ended: windows that had ended with it
 * @current: none of it was before the latest windows_restart()
 */
struct window {
	double pace;
	double stood;
	guint length;
	guint ended;
	bool current;
};

/**
 * struct mark - the end of a window
 * @event: keeps time
 * @bytes: of requests so far
 * @waits: streams that had to be waited for so far
 * @ended: windows that have ended so far
 * @counts: whether the window is to be measured
 * @round: how often windows_restart() was called before the window; UINT_MAX: and during it
 */
struct mark {
	struct backend_event *event;
	uint64_t bytes;
	uint64_t waits;
	guint ended;
	bool counts;
	guint round;
};

/**
 * struct windows - the measurements of a pool
 * @period: the requests so far
 * @length: how many requests make a period; 0: it has none
 * @doubts: searches in a row that have found a shorter one
 * @elsewhere: marks in a row that are on another stream than the one before them
 * @changed: since the latest mark @length has changed
 * @bytes: of requests so far
 * @requests: since a mark was last due
 * @ended: windows so far, measured or not; begins anew at 0 after four billion
 * @stream: the id of the stream on which the latest mark is
 * @round: how often windows_restart() was called
 * @marks: that were made since then; of no interest above 2
 * @pending: marks that were not read, the earliest first
 * @count: how many
 * @read: the latest that was read; its event is NULL: none
 * @sampled: waits of struct stalls that @stall takes in
 * @sampled_ns: their nanoseconds
 * @stall: nanoseconds of a wait, on average
 */
struct windows {
	struct period period;
	guint length;
	guint doubts;
	guint elsewhere;
	bool changed;
	uint64_t bytes;
	guint requests;
	guint ended;
	uint64_t stream;
	guint round;
	guint marks;
	struct mark pending[WINDOWS_PENDING];
	guint count;
	struct mark read;
	uint64_t sampled;
	uint64_t sampled_ns;
	double stall;
};

/**
 * windows_note() - note a request
 * @core: the pool's core, its backend entered
 * @windows: the measurements
 * @request: the request, of a stream that is not under capture
 * @take: called for each window that turns out to be measured
 *
 * What the backend fails to record or tell is not measured; the thread's error stays as it is.
 */
void windows_note(struct core *core, struct windows *windows, const struct request *request,
		  void (*take)(struct core *core, const struct window *window));

/**
 * windows_restart() - tell the windows so far from those to come: what is measured has changed
 * @windows: the measurements
 */
void windows_restart(struct windows *windows);

/**
 * windows_clear() - drop the marks
 * @core: the pool's core, its backend entered
 * @windows: the measurements
 */
void windows_clear(struct core *core, struct windows *windows);

#endif /* WINDOWS_H */
