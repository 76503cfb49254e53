/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The allowance: how much more memory than the peak a pool may create rather than let a stream wait for another.
 *
 * VPMM_OVERLAP is a percentage, or "auto". That finds the allowance by trying, as only the device's time tells what
 * waiting costs: a stream that is ahead of the others waits whatever it is given, and loses nothing. While streams
 * stand, one block more is tried, and kept if the program gets on faster by it. While they do not, or where that was no
 * gain, one block less is tried, and kept if the program gets on no slower.
 */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "policy/windows.h"

struct request;

/**
 * struct pace - what several windows say
 * @windows: how many
 * @sum: of their paces
 * @squares: the sum of the squares of those
 * @stood: the sum of the parts that streams stood
 */
struct pace {
	guint windows;
	double sum;
	double squares;
	double stood;
};

/* What is tried: a block more, or less. */
enum allowance_trial { TRIAL_MORE, TRIAL_LESS, TRIAL_KINDS };

/**
 * struct allowance_trials - when one of a kind is next
 * @pause: windows until then
 * @patience: windows to pause for after the next that is no gain
 */
struct allowance_trials {
	guint pause;
	guint patience;
};

/**
 * struct allowance_unit - what more is tried of
 * @bytes: of the latest windows
 * @waited: of those since they began anew; 0: no stream had to wait
 * @waited_before: of as many windows before them
 */
struct allowance_unit {
	uint64_t bytes;
	uint64_t waited;
	uint64_t waited_before;
};

/**
 * struct allowance_row - blocks that a stream has asked for one after another, and nothing was freed between
 * @stream: the id of the stream
 * @bytes: of all
 * @largest: bytes of the largest
 * @live: bytes that were live then, with them
 */
struct allowance_row {
	uint64_t stream;
	uint64_t bytes;
	uint64_t largest;
	uint64_t live;
};

/**
 * struct allowance - what VPMM_OVERLAP=auto knows, under core.lock
 * @bytes: the allowance
 * @settled: the best so far; the same unless another is tried
 * @row: the latest
 * @block: the largest block whose stream had to wait
 * @batch: the largest row with such a block, whose stream had to wait
 * @wide: the next trial of more is of a batch, as that of a block made no difference
 * @turned: windows that had ended when what those waited for began anew
 * @surplus: bytes by which it was lowered, and which the pool has not given back yet
 * @held: bytes that the pool had when the latest trial of more began, which it may keep; 0: no more than the allowance
 * @windows: the measurements
 * @now: the pace with @bytes
 * @best: the pace with @settled
 * @trials: for each kind
 * @latest: the kind that was tried last
 * @began: windows that had ended when the allowance was changed
 * @plain: those were with what is settled
 * @doubted: a trial of less seemed to make the program faster
 * @started: a trial of more was judged since the program began, or changed
 * @tried: windows behind those that were measured
 * @ended: windows that had ended when trials were last paid for
 * @debt: windows that trials have cost, and that are not made up for yet
 * @odd: windows in a row whose pace was far from @best: above 0 if they were slower, below if they were faster
 */
struct allowance {
	uint64_t bytes;
	uint64_t settled;
	struct allowance_row row;
	struct allowance_unit block;
	struct allowance_unit batch;
	bool wide;
	guint turned;
	uint64_t surplus;
	uint64_t held;
	struct windows windows;
	struct pace now;
	struct pace best;
	struct allowance_trials trials[TRIAL_KINDS];
	enum allowance_trial latest;
	guint began;
	bool plain;
	bool doubted;
	bool started;
	guint tried;
	guint ended;
	double debt;
	int odd;
};

/**
 * allowance_init() - begin with an allowance of 0
 * @allowance: the allowance
 */
void allowance_init(struct allowance *allowance);

/**
 * allowance_is_sought() - whether the allowance changes by itself, by allowance_note() and surplus_fit()
 * @core: the pool's core; its lock is held
 */
static inline bool allowance_is_sought(const struct core *core)
{
	return core->settings.overlap == VPMM_OVERLAP_AUTO && !core->streams.sole;
}

/**
 * allowance_falls() - whether less is being tried, and the pool still holds more
 * @core: the pool's core; its lock is held
 */
bool allowance_falls(const struct core *core);

/**
 * allowance_bytes() - the allowance
 * @core: the pool's core; its lock is held
 * @most: bytes that the pool may hold without it
 *
 * Return: bytes.
 */
uint64_t allowance_bytes(const struct core *core, uint64_t most);

/**
 * allowance_percent() - the same in percent of the most that was live
 * @core: the pool's core; its lock is held
 *
 * Return: percent.
 */
uint64_t allowance_percent(struct core *core);

/**
 * allowance_note() - note a request that was served, and take the next step if it is time for one
 * @core: the pool's core, its lock held, its backend entered
 * @request: the request
 * @waited: whether its stream had to wait for another
 */
void allowance_note(struct core *core, const struct request *request, bool waited);

/**
 * allowance_clear() - drop what was measured
 * @core: the pool's core, its lock held, its backend entered
 */
void allowance_clear(struct core *core);

#endif /* ALLOWANCE_H */
