// SPDX-License-Identifier: LGPL-2.1-or-later
/* How many requests a program makes until it makes the same ones again. */
#include "policy/period.h"

/* Of so many requests one may differ. */
#define PART_ODD 8

/* A length is as good as another if no more than one more request in so many differs. */
#define PART_SAME 64

void period_note(struct period *period, uint32_t key)
{
	period->keys[period->count++ % PERIOD_KEYS] = key;
}

static uint32_t key_before(const struct period *period, guint requests)
{
	return period->keys[(period->count - 1 - requests) % PERIOD_KEYS];
}

/* The part of requests that differ from those one length before. Return: 1 once it is over @most. */
static double part_odd(const struct period *period, guint length, double most)
{
	guint known = MIN(period->count, PERIOD_KEYS), least = MAX(length, PERIOD_COMPARED_LEAST), odd = 0, compared;

	if (length + least > known)
		return 1;
	compared = MAX(least, MIN(known - length, PERIOD_COMPARED));
	for (guint i = 0; i < compared && odd <= most * compared; i++)
		odd += key_before(period, i) != key_before(period, i + length);
	return odd <= most * compared ? (double)odd / compared : 1;
}

guint period_find(const struct period *period, bool *exact)
{
	double least = 1.0 / PART_ODD + 1.0 / PART_SAME;
	guint best = 0;

	for (guint length = 1; length <= PERIOD_KEYS / 2 && least >= 1.0 / PART_SAME; length++) {
		double odd = part_odd(period, length, least - 1.0 / PART_SAME);

		if (odd < 1) {
			least = odd;
			best = length;
		}
	}
	*exact = least < 1.0 / PART_SAME;
	return best;
}
