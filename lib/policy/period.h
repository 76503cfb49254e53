/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many requests a program makes until it makes the same ones again. */
#ifndef PERIOD_H
#define PERIOD_H

#include <glib.h>
#include <stdint.h>

/* Requests that are remembered; the longest period is half of that. */
#define PERIOD_KEYS 1024

/**
 * struct period - what was requested lately
 * @keys: what each request was, the latest overwrites the earliest
 * @count: requests so far
 */
struct period {
	uint32_t keys[PERIOD_KEYS];
	guint count;
};

/**
 * period_note() - note a request
 * @period: the requests so far
 * @key: what it was
 */
void period_note(struct period *period, uint32_t key);

/**
 * period_find() - find the shortest period
 * @period: the requests so far
 *
 * One request in eight may differ from the one a period before.
 *
 * Return: requests; 0: the program has not repeated itself.
 */
guint period_find(const struct period *period);

#endif /* PERIOD_H */
