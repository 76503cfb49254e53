// SPDX-License-Identifier: LGPL-2.1-or-later
/* How fast a program gets on, measured on the device. */
#include <string.h>

#include "backend/backend.h"
#include "core/core.h"
#include "policy/policy.h"
#include "policy/tuning.h"
#include "policy/windows.h"
#include "util/error.h"

/* Live bytes of one kind, as a part of the peak: what is live tells where in its step a program is. */
#define LIVE_PARTS 16

/*
 * Waits to a sample of struct stalls, at most, when a window begins. With 4, three windows in which no wait was long
 * can hide that streams stand.
 */
#define WAITS_SAMPLED 1

/* Requests between searches for a period: one search takes as long as several requests. */
#define SEARCHED_EACH 64

/* On a stream that makes fewer requests than others, a window may be so many times as long. */
#define LONGER 4

/*
 * Between two streams a window also measures how far one is ahead of the other, so it counts only where this many in a
 * row did not end on the stream that they began on: a program that makes a stream for each batch has no others.
 */
#define ELSEWHERE 8

static void drop(struct backend *be, struct mark *mark)
{
	if (mark->event)
		be->ops->event_destroy(be, mark->event);
	mark->event = NULL;
}

static void sample_stalls(struct core *core, struct windows *windows)
{
	const struct stalls *stalls = &core->streams.stalls;

	stall_collect(&core->streams);
	if (stalls->sampled > windows->sampled) {
		double stall = (double)(stalls->ns - windows->sampled_ns) /
			       (double)(stalls->sampled - windows->sampled);

		/* A sample or two say little. */
		windows->stall = (windows->stall + stall) / 2;
	}
	windows->sampled = stalls->sampled;
	windows->sampled_ns = stalls->ns;
}

/* Whether the device has come to a mark. If so, @window is what lies before it; a pace of 0: that is not measured. */
static bool read_mark(struct core *core, struct windows *windows, const struct mark *mark, struct window *window)
{
	struct backend *be = core->backend;
	struct mark *last = &windows->read;
	int complete = 0;
	int64_t ns = 0;

	*window = (struct window){ 0 };
	if (be->ops->event_query(be, mark->event, &complete) || !complete)
		return false;
	if (mark->counts && last->event && mark->bytes > last->bytes &&
	    !be->ops->event_elapsed(be, last->event, mark->event, &ns) && ns > 0) {
		window->current = mark->round == windows->round;
		window->length = mark->ended - last->ended;
		window->ended = mark->ended;
		window->pace = (double)ns / (double)(mark->bytes - last->bytes);
		window->stood = windows->stall * (double)(mark->waits - last->waits) / (double)ns;
	}
	drop(be, last);
	*last = *mark;
	return true;
}

static void read_marks(struct core *core, struct windows *windows,
		       void (*take)(struct core *core, const struct window *window))
{
	struct window window;

	sample_stalls(core, windows);
	while (windows->count && read_mark(core, windows, &windows->pending[0], &window)) {
		windows->count--;
		memmove(&windows->pending[0], &windows->pending[1], windows->count * sizeof(windows->pending[0]));
		if (window.pace > 0)
			take(core, &window);
	}
}

/* Whether the window that ends now is wholly behind the latest windows_restart(). */
static bool is_behind_restart(const struct windows *windows)
{
	return windows->marks >= 2;
}

static void mark(struct core *core, struct windows *windows, const struct request *request)
{
	struct mark *mark = &windows->pending[windows->count];
	bool same = windows->stream == request->stream->id;

	windows->elsewhere = same ? 0 : windows->elsewhere + 1;
	windows->requests = 0;
	windows->ended++;
	if (windows->count == WINDOWS_PENDING)
		return;
	*mark = (struct mark){ .bytes = windows->bytes, .waits = core->counts.waits, .ended = windows->ended,
			       .counts = !windows->changed && (same || windows->elsewhere > ELSEWHERE) };
	/* The first window behind a change begins with what was before it. */
	mark->round = is_behind_restart(windows) ? windows->round : UINT_MAX;
	mark->event = stall_mark(&core->streams, request->handle);
	if (!mark->event)
		return;
	windows->count++;
	windows->marks++;
	windows->stream = request->stream->id;
	windows->changed = false;
	core->streams.stalls.gap = MIN(core->streams.stalls.gap, WAITS_SAMPLED);
}

/* What a request was, for the period. */
static uint32_t key_of(struct core *core, const struct request *request)
{
	uint64_t part = account_most(&core->account) / LIVE_PARTS + 1;
	uint64_t key = request->size * UINT64_C(0x9e3779b97f4a7c15) + request->stream->id * 31 + core_live(core) / part;

	return (uint32_t)(key ^ key >> 32);
}

static void note_key(struct windows *windows, uint32_t key)
{
	guint length;
	bool exact;

	period_note(&windows->period, key);
	if (windows->period.count % SEARCHED_EACH)
		return;
	length = period_find(&windows->period, &exact);
	/* What comes between two epochs hides a long period, and a loop within it is found, until all keys are later. */
	if (length < windows->length && !exact && windows->doubts++ < PERIOD_KEYS / SEARCHED_EACH)
		return;
	windows->doubts = 0;
	windows->changed = windows->changed || length != windows->length;
	windows->length = length;
}

static bool is_full(struct core *core, const struct windows *windows, const struct request *request)
{
	const struct mark *last = windows->count ? &windows->pending[windows->count - 1] : &windows->read;
	guint requests = (guint)tuning_auto_requests;

	if (windows->length)
		requests = (requests + windows->length - 1) / windows->length * windows->length;
	if (windows->requests < requests)
		return false;
	if (!windows->length &&
	    windows->bytes - last->bytes < (uint64_t)tuning_auto_turns * account_most(&core->account))
		return false;
	return windows->stream == request->stream->id || windows->requests > LONGER * requests;
}

void windows_note(struct core *core, struct windows *windows, const struct request *request,
		  void (*take)(struct core *core, const struct window *window))
{
	struct error_kept kept;

	lock_assert_held(&core->lock);
	windows->bytes += request->size;
	windows->requests++;
	note_key(windows, key_of(core, request));
	if (!is_full(core, windows, request))
		return;
	error_keep(&kept);
	read_marks(core, windows, take);
	mark(core, windows, request);
	error_restore(&kept);
}

void windows_restart(struct windows *windows)
{
	windows->round++;
	windows->marks = 0;
}

void windows_clear(struct core *core, struct windows *windows)
{
	lock_assert_held(&core->lock);
	for (guint i = 0; i < windows->count; i++)
		drop(core->backend, &windows->pending[i]);
	windows->count = 0;
	drop(core->backend, &windows->read);
}
