// SPDX-License-Identifier: LGPL-2.1-or-later
/* Pairs of calls that fail. */
#include <errno.h>
#include <limits.h>

#include "sweep/sweep-inside.h"

/* Calls behind one that fails which undo what was done are not far. */
#define GAPS 24

/* Each way in which a call can fail, together with a call behind it, which may be there to undo what was done. */
static void plan_pairs(struct plan *p, const struct trial *dry, enum backend_op op, int err)
{
	struct trial t = { .on = p->on, .scene = p->scene, .mode = dry->mode, .op = op, .err = err, .count = 1 };

	for (t.skip = 0; t.skip < dry->calls[op]; t.skip++) {
		t.gap = 0;
		do {
			t.more = 1;
			sweep_run(p, &t);
			/* Nothing of a pool that is none yet would ever come back. */
			if (t.failed > 1 && !p->scene->makes) {
				t.more = UINT_MAX;
				sweep_run(p, &t);
			}
			t.gap++;
		} while (t.failed > 1 && t.gap < GAPS);
	}
}

void sweep_all_pairs(struct plan *p, const struct trial *dry)
{
	for (int op = 0; op < BACKEND_OP_COUNT; op++) {
		plan_pairs(p, dry, op, -EIO);
		for (unsigned int i = 0; i < SWEEP_ERRORS && sweep_errors[op][i]; i++)
			plan_pairs(p, dry, op, sweep_errors[op][i]);
	}
}

/* Few calls behind one that fails undo what it did, so most are close to it. */
void sweep_pair(struct plan *p, const struct trial *dry)
{
	struct trial t = { .on = p->on, .scene = p->scene, .mode = dry->mode, .err = -EIO, .count = 1 };
	int any = g_test_rand_int_range(0, (int)dry->calls[BACKEND_OP_COUNT]);
	int err = g_test_rand_int_range(-1, SWEEP_ERRORS);

	while (any >= (int)dry->calls[t.op])
		any -= (int)dry->calls[t.op++];
	t.skip = (unsigned int)any;
	if (err >= 0 && sweep_errors[t.op][err])
		t.err = sweep_errors[t.op][err];
	t.gap = (unsigned int)g_test_rand_int_range(0, 1 << g_test_rand_int_range(0, 6));
	t.more = p->scene->makes || g_test_rand_bit() ? 1 : UINT_MAX;
	sweep_run(p, &t);
}

/* Each call fails together with the next, which may be there to undo what was done; and with all that follow. */
void sweep_next(struct plan *p, const struct trial *dry)
{
	struct trial t = { .on = p->on, .scene = p->scene, .mode = dry->mode, .op = BACKEND_OP_COUNT, .err = -EIO };

	for (t.skip = 0; t.skip < dry->calls[BACKEND_OP_COUNT]; t.skip++) {
		t.count = 2;
		sweep_try(p, t);
		/* Nothing of a pool that is none yet would ever come back. */
		if (p->scene->makes)
			continue;
		t.count = UINT_MAX;
		sweep_try(p, t);
	}
}
