// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_OVERLAP=auto: tries how much memory streams need so that waiting for each other costs them no time. */
#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "policy/allowance.h"
#include "policy/policy.h"
#include "policy/state.h"
#include "policy/tuning.h"

#define PER_MILLE(number) ((double)(number) / 1000)

static void measure_anew(struct allowance *a)
{
	a->now = (struct pace){ 0 };
	a->best = (struct pace){ 0 };
	a->odd = 0;
}

/* What was tried before says nothing. */
static void start_anew(struct allowance *a)
{
	for (int kind = 0; kind < TRIAL_KINDS; kind++)
		a->trials[kind] = (struct allowance_trials){ .patience = (guint)tuning_auto_patience };
	a->wide = false;
	a->started = false;
	measure_anew(a);
}

void allowance_init(struct allowance *allowance)
{
	*allowance = (struct allowance){ 0 };
	start_anew(allowance);
}

bool allowance_falls(const struct core *core)
{
	const struct allowance *a = &core->packed->allowance;

	return a->surplus && a->bytes < a->settled;
}

static uint64_t percent_of(uint64_t bytes, unsigned int percent)
{
	return bytes / 100 * percent + bytes % 100 * percent / 100;
}

/* The most that is ever taken over so many bytes; room for one block always is. */
static uint64_t allowance_most(const struct core *core, uint64_t most)
{
	return MAX(percent_of(most, (unsigned int)tuning_auto_most), core->packed->allowance.block.bytes);
}

uint64_t allowance_bytes(const struct core *core, uint64_t most)
{
	unsigned int percent = (unsigned int)core->settings.overlap;

	if (core->settings.overlap == VPMM_OVERLAP_AUTO)
		return MIN(core->packed->allowance.bytes, allowance_most(core, most));
	return percent_of(most, percent);
}

uint64_t allowance_percent(struct core *core)
{
	uint64_t most = account_most(&core->account);

	if (core->settings.overlap != VPMM_OVERLAP_AUTO)
		return (uint64_t)core->settings.overlap;
	return most ? core->packed->allowance.bytes * 100 / most : 0;
}

static double pace_mean(const struct pace *pace)
{
	return pace->sum / pace->windows;
}

/* The standard deviation of one window, over the mean. */
static double pace_deviation(const struct pace *pace)
{
	double n = pace->windows, mean = pace_mean(pace);

	return sqrt(MAX(pace->squares / n - mean * mean, 0) * n / (n - 1)) / mean;
}

/* The standard error of the mean, over the mean. */
static double pace_error(const struct pace *pace)
{
	return pace_deviation(pace) / sqrt(pace->windows);
}

static void pace_add(struct pace *pace, const struct window *window)
{
	pace->windows++;
	pace->sum += window->pace;
	pace->squares += window->pace * window->pace;
	pace->stood += window->stood;
}

/* Of windows that are many, the latest count most. */
static void pace_follow(struct pace *pace, const struct window *window)
{
	const guint most = (guint)tuning_auto_windows_most;

	pace_add(pace, window);
	if (pace->windows <= most)
		return;
	pace->sum *= (double)most / pace->windows;
	pace->squares *= (double)most / pace->windows;
	pace->stood *= (double)most / pace->windows;
	pace->windows = most;
}

static void set_bytes(struct allowance *a, uint64_t bytes)
{
	bool plain = a->bytes == a->settled;

	if (bytes < a->bytes)
		a->surplus += a->bytes - bytes;
	else
		a->surplus -= MIN(a->surplus, bytes - a->bytes);
	a->bytes = bytes;
	a->now = (struct pace){ 0 };
	a->began = a->windows.ended;
	a->plain = plain;
	a->tried = 0;
	windows_restart(&a->windows);
}

static void try_bytes(struct core *core, uint64_t bytes, enum allowance_trial kind)
{
	struct allowance *a = &core->packed->allowance;

	log_add(&core->log, VPMM_LOG_INFO, "overlap: streams stand for %.0f %% of the time, tries %" G_GUINT64_FORMAT
		" bytes over the peak instead of %" G_GUINT64_FORMAT, 100 * a->best.stood / a->best.windows, bytes,
		a->settled);
	a->latest = kind;
	/* A trial that is no gain must not take from the pool what it held without it. */
	a->held = kind == TRIAL_MORE && !a->surplus ? core_mapped(core) : 0;
	set_bytes(a, bytes);
}

static void pause_trials(struct allowance *a, enum allowance_trial kind, double windows)
{
	a->trials[kind].pause = MAX(a->trials[kind].pause, (guint)windows);
}

/* With each trial that was no gain the pause before the next is several times as long. */
static void be_patient(struct allowance *a, enum allowance_trial kind)
{
	struct allowance_trials *trials = &a->trials[kind];

	pause_trials(a, kind, trials->patience);
	trials->patience = MIN((guint)tuning_auto_growth * trials->patience, (guint)tuning_auto_patience_most);
}

static bool can_try_less(const struct allowance *a)
{
	return a->settled && !a->trials[TRIAL_LESS].pause && !a->debt;
}

static void try_less(struct core *core)
{
	struct allowance *a = &core->packed->allowance;

	try_bytes(core, a->settled - MIN(a->settled, a->block.bytes), TRIAL_LESS);
}

/*
 * A block more than the pool has, or it would get none; if the pool may have one more than is settled. A batch as far as
 * the pool may go: it can be all that is live.
 */
static uint64_t more_bytes(struct core *core)
{
	const struct allowance *a = &core->packed->allowance;
	uint64_t peak = account_most(&core->account), mapped = core_mapped(core);
	uint64_t most = allowance_most(core, peak), bytes = a->settled;

	if (!a->surplus && mapped > peak)
		bytes = MAX(bytes, mapped - peak);
	if (a->wide)
		return MAX(a->settled, MIN(bytes + a->batch.bytes, most));
	/* What the pool has over the peak as its pages are not full must not be in the way. */
	return a->settled + a->block.bytes > most ? a->settled : MIN(bytes + a->block.bytes, most);
}

/* Where both can be tried, they take turns. */
static void try_next(struct core *core)
{
	struct allowance *a = &core->packed->allowance;
	bool stands = a->now.stood > PER_MILLE(tuning_auto_stood) * a->now.windows;
	bool more = !a->trials[TRIAL_MORE].pause && a->block.bytes && stands;
	uint64_t bytes = more_bytes(core);

	a->best = a->now;
	a->now = (struct pace){ 0 };
	a->odd = 0;
	if (more && bytes > a->settled && (a->latest == TRIAL_LESS || !can_try_less(a)))
		try_bytes(core, bytes, TRIAL_MORE);
	else if (can_try_less(a))
		try_less(core);
	else
		pause_trials(a, TRIAL_MORE, tuning_auto_patience);
}

static void keep(struct core *core, double gain)
{
	struct allowance *a = &core->packed->allowance;

	log_add(&core->log, VPMM_LOG_INFO, "overlap: keeps %" G_GUINT64_FORMAT " bytes over the peak, %.1f %% faster",
		a->bytes, 100 * gain);
	a->settled = a->bytes;
	a->wide = false;
	a->trials[a->latest].patience = (guint)tuning_auto_patience;
	/* To try less again would cost what was gained; to try more again would gain what was lost. */
	if (a->latest == TRIAL_MORE)
		pause_trials(a, TRIAL_LESS, gain * a->tried / PER_MILLE(tuning_auto_price));
	else
		pause_trials(a, TRIAL_MORE, tuning_auto_patience);
	/* The first windows of a trial still wait for what was before it. */
	measure_anew(a);
}

/*
 * Whether the block that was tried made no difference, as it is of use only with others. Where it made some, or its own
 * driver calls did, a batch would take far more memory for little.
 */
static bool is_part_of_batch(const struct allowance *a, double gain)
{
	return a->latest == TRIAL_MORE && !a->settled && !a->wide && a->batch.bytes > a->block.bytes &&
	       fabs(gain) < PER_MILLE(tuning_auto_gain);
}

static void go_back(struct core *core, double gain)
{
	struct allowance *a = &core->packed->allowance;

	log_add(&core->log, VPMM_LOG_INFO,
		"overlap: goes back to %" G_GUINT64_FORMAT " bytes over the peak: the others made"
		" the program %.1f %% faster", a->settled, 100 * gain);
	a->wide = is_part_of_batch(a, gain);
	if (!a->wide)
		be_patient(a, a->latest);
	/* What was tried is given back sooner that way. */
	if (a->latest == TRIAL_MORE && can_try_less(a))
		try_less(core);
	else
		set_bytes(a, a->settled);
}

/* Work is pending on all that could be given back, or a part of each extent is in use. */
static void give_up(struct core *core)
{
	struct allowance *a = &core->packed->allowance;

	log_add(&core->log, VPMM_LOG_INFO, "overlap: goes back to %" G_GUINT64_FORMAT
		" bytes over the peak: the pool could not give %" G_GUINT64_FORMAT " bytes back", a->settled, a->surplus);
	be_patient(a, TRIAL_LESS);
	set_bytes(a, a->settled);
}

/* What was measured before was another program. */
static void change(struct core *core)
{
	struct allowance *a = &core->packed->allowance;

	log_add(&core->log, VPMM_LOG_INFO, "overlap: the program has changed");
	start_anew(a);
	if (a->bytes != a->settled)
		set_bytes(a, a->settled);
}

/*
 * More windows are measured while the gain may be to either side of what is asked for, by twice the standard error. The
 * first trial is compared with a program's first windows, which are slow as extents are created and kernels loaded. So
 * it has to gain more.
 */
static void judge(struct core *core)
{
	struct allowance *a = &core->packed->allowance;
	double gain = 1 - pace_mean(&a->now) / pace_mean(&a->best);
	bool less = a->latest == TRIAL_LESS;
	double least = less ? -PER_MILLE(tuning_auto_loss) : PER_MILLE(tuning_auto_gain);
	double error = hypot(pace_error(&a->now), pace_error(&a->best));
	bool surely;

	if (fabs(gain - least) < 2 * error && a->now.windows < (guint)tuning_auto_windows_most)
		return;
	/* Less memory makes hardly any program faster: it is more likely another one now. */
	if (less && gain > PER_MILLE(tuning_auto_odd) && !a->doubted) {
		change(core);
		a->doubted = true;
		return;
	}
	a->doubted = false;
	surely = gain > (a->started ? 1 : 2) * error;
	if (!less)
		a->started = true;
	if (gain >= least && (less || surely))
		keep(core, gain);
	else
		go_back(core, gain);
}

/* Counts windows in a row that are far from the best, on the same side of it. */
static void count_odd(struct allowance *a, const struct window *window)
{
	double far = window->pace / pace_mean(&a->best) - 1;
	double least = MAX(PER_MILLE(tuning_auto_odd), 3 * pace_deviation(&a->best));
	int side = far > 0 ? 1 : -1;

	/* Few windows tell less of what is usual. */
	if (fabs(far) <= least * MAX((double)tuning_auto_known / a->best.windows, 1))
		a->odd = 0;
	else
		a->odd = a->odd * side > 0 ? a->odd + side : side;
}

/* Whether the program is another now. Where an epoch ends, two windows may be slow. */
static bool has_changed(struct allowance *a, const struct window *window)
{
	if (a->best.windows < 2)
		return false;
	count_odd(a, window);
	return abs(a->odd) >= 3;
}

/* Whether there is nothing to try for some time. */
static bool is_at_rest(const struct allowance *a)
{
	return a->bytes == a->settled && a->trials[TRIAL_MORE].pause && !can_try_less(a);
}

/* Whether a window had ended when the allowance was changed. */
static bool is_before(const struct allowance *a, const struct window *window)
{
	return (int)(window->ended - a->began) <= 0;
}

/*
 * What trials cost is to be a small part of the time. A window that took more than twice as long as usual was one in
 * which the program did something else.
 */
static void pay(struct allowance *a, const struct window *window)
{
	guint ended = a->windows.ended - a->ended;

	if (a->best.windows && a->tried <= (guint)tuning_auto_windows_most && !(is_before(a, window) && a->plain) &&
	    (a->bytes != a->settled || a->surplus || !window->current))
		a->debt += CLAMP(window->pace / pace_mean(&a->best) - 1, 0, 1) * window->length;
	a->debt = MAX(a->debt - PER_MILLE(tuning_auto_price) * ended, 0);
	for (int kind = 0; kind < TRIAL_KINDS; kind++)
		a->trials[kind].pause -= MIN(a->trials[kind].pause, ended);
	a->ended = a->windows.ended;
}

/* A window with what is settled: it may tell that the program changed before the trial did anything. */
static void take_before(struct core *core, const struct window *window)
{
	struct allowance *a = &core->packed->allowance;

	if (!a->plain || !a->best.windows)
		return;
	if (has_changed(a, window))
		change(core);
	else if (!a->odd)
		pace_follow(&a->best, window);
}

static void take_window(struct core *core, const struct window *window)
{
	struct allowance *a = &core->packed->allowance;

	pay(a, window);
	if (is_before(a, window)) {
		take_before(core, window);
		return;
	}
	a->tried++;
	/* What the window measured was not yet what is settled. */
	if (allowance_falls(core) && a->tried > (guint)tuning_auto_windows_most) {
		give_up(core);
		return;
	}
	if (!window->current || (a->surplus && a->tried <= (guint)tuning_auto_windows_most))
		return;
	if (a->bytes == a->settled && has_changed(a, window)) {
		change(core);
		return;
	}
	if (is_at_rest(a)) {
		if (!a->odd)
			pace_follow(&a->best, window);
		return;
	}
	pace_add(&a->now, window);
	if (a->now.windows < (guint)tuning_auto_windows)
		return;
	if (a->bytes != a->settled)
		judge(core);
	else if (pace_error(&a->now) < PER_MILLE(tuning_auto_loss) ||
		 a->now.windows >= (guint)tuning_auto_windows_most)
		try_next(core);
}

static void note_row(struct core *core, const struct request *request)
{
	struct allowance_row *row = &core->packed->allowance.row;
	uint64_t size = core_page_up(core, request->size), live = core_live(core);

	if (row->stream != request->stream->id || live < row->live + request->size)
		*row = (struct allowance_row){ .stream = request->stream->id };
	row->bytes += size;
	row->largest = MAX(row->largest, size);
	row->live = live;
}

static void turn(struct allowance_unit *unit)
{
	if (unit->waited)
		unit->bytes = MAX(unit->waited, unit->waited_before);
	unit->waited_before = unit->waited;
	unit->waited = 0;
}

/* With a page for what its first and last share with others. */
static void note_unit(struct core *core, struct allowance_unit *unit, uint64_t bytes)
{
	unit->waited = MAX(unit->waited, bytes + core->settings.page_size);
	unit->bytes = MAX(unit->bytes, unit->waited);
}

/* Rows without the largest block are of streams that get on without another batch. */
static void note_waited(struct core *core, const struct request *request)
{
	struct allowance *a = &core->packed->allowance;
	uint64_t size = core_page_up(core, request->size), page = core->settings.page_size;

	if (size + page > a->block.bytes)
		a->batch = (struct allowance_unit){ 0 };
	note_unit(core, &a->block, size);
	if (a->row.largest + page >= a->block.bytes)
		note_unit(core, &a->batch, MIN(a->row.bytes, account_most(&core->account)));
}

/* The largest of the latest windows: what a program waited for when it began says nothing of what it needs now. */
static void note_units(struct core *core, const struct request *request, bool waited)
{
	struct allowance *a = &core->packed->allowance;

	if (a->windows.ended - a->turned >= (guint)tuning_auto_windows_most) {
		turn(&a->block);
		turn(&a->batch);
		a->turned = a->windows.ended;
	}
	note_row(core, request);
	if (waited)
		note_waited(core, request);
}

void allowance_note(struct core *core, const struct request *request, bool waited)
{
	struct allowance *a = &core->packed->allowance;

	lock_assert_held(&core->lock);
	if (request->stream->captured)
		return;
	note_units(core, request, waited);
	/* Until a stream has to wait, there is nothing to be gained. */
	if (!a->block.bytes)
		return;
	windows_note(core, &a->windows, request, take_window);
}

void allowance_clear(struct core *core)
{
	if (core->packed)
		windows_clear(core, &core->packed->allowance.windows);
}
