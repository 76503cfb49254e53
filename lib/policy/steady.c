// SPDX-License-Identifier: LGPL-2.1-or-later
/* Whether a program settles, for the log and the statistics. */
#include <inttypes.h>

#include "core/core.h"
#include "policy/steady.h"
#include "policy/state.h"

static void log_window(struct core *core, uint64_t before, uint64_t creates)
{
	const struct steady *s = &core->packed->steady;
	uint64_t mallocs = s->windows * STEADY_WINDOW;

	if (!s->latest && before)
		log_add(&core->log, VPMM_LOG_INFO, "settled: no driver call in the latest %d of %" PRIu64
			" allocations that no cache served", STEADY_WINDOW, mallocs);
	/* The first window creates what there is to be. After that a line each time the number has doubled. */
	if (s->latest && s->windows > 1 && !(s->windows & (s->windows - 1)))
		log_add(&core->log, VPMM_LOG_INFO, "not settled: %" PRIu64 " driver calls, %" PRIu64
			" of them for new memory, in the latest %d of %" PRIu64 " allocations that no cache served",
			s->latest, creates, STEADY_WINDOW, mallocs);
}

void steady_note(struct core *core)
{
	const struct extent_calls *calls = &core->extents.calls;
	struct steady *s = &core->packed->steady;
	uint64_t now, before = s->latest;

	lock_assert_held(&core->lock);
	if (++s->mallocs < STEADY_WINDOW)
		return;
	now = calls->creates + calls->maps + calls->accesses + calls->unmaps + calls->releases;
	s->latest = now - s->calls;
	s->windows++;
	log_window(core, before, calls->creates - s->creates);
	s->mallocs = 0;
	s->calls = now;
	s->creates = calls->creates;
}
