// SPDX-License-Identifier: LGPL-2.1-or-later
/* How many requests a program makes until it makes the same ones again. */
#include <stdbool.h>

#include "policy/period.h"

/* Requests that are compared at least, so that chance is no period. */
#define COMPARED 32

/* Of so many requests one may differ. */
#define PART_ODD 8

void period_note(struct period *period, uint32_t key)
{
	period->keys[period->count++ % PERIOD_KEYS] = key;
}

static uint32_t key_before(const struct period *period, guint requests)
{
	return period->keys[(period->count - 1 - requests) % PERIOD_KEYS];
}

static bool repeats(const struct period *period, guint length)
{
	guint compared = MAX(length, COMPARED), odd = 0;

	if (length + compared > MIN(period->count, PERIOD_KEYS))
		return false;
	for (guint i = 0; i < compared && odd <= compared / PART_ODD; i++)
		odd += key_before(period, i) != key_before(period, i + length);
	return odd <= compared / PART_ODD;
}

guint period_find(const struct period *period)
{
	for (guint length = 1; length <= PERIOD_KEYS / 2; length++) {
		if (repeats(period, length))
			return length;
	}
	return 0;
}
