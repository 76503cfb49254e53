/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many requests a program makes until it makes the same ones again. */
#ifndef PERIOD_H
#define PERIOD_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Requests that are remembered; the longest period is half of that. */
#define PERIOD_KEYS 1024

/* Requests that are compared, if there are so many, and at least: chance is no period, nor is a loop within a step. */
#define PERIOD_COMPARED 256
#define PERIOD_COMPARED_LEAST 32

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
 * period_find() - find the period
 * @period: the requests so far
 * @exact: receives whether hardly any request differs from the one a period before
 *
 * One request in eight may differ from the one a period before. Of several lengths the one is taken after which the
 * fewest differ, and of those that are as good the shortest: a loop within a step is no period of the program.
 *
 * Return: requests; 0: the program has not repeated itself.
 */
guint period_find(const struct period *period, bool *exact);

#endif /* PERIOD_H */
