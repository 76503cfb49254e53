/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long a test goes on, from the environment: longer to hunt, shorter under tools that take forty times as long. */
#ifndef SETTING_H
#define SETTING_H

#include <glib.h>

/*
 * The number in a variable, or @otherwise where it is not set. VPMM_TEST_SEEDS is how many programs at random each case
 * runs, VPMM_TEST_SEED the first of them, and VPMM_TEST_STEPS how long each goes on.
 */
guint setting(const char *name, guint otherwise);

/* The first number, and no more than a test needs without any setting. */
guint setting_at_most(const char *name, guint usual);

/* VPMM_TEST_SWEEP: a sweep makes one of so many runs, all of them with "full"; or @otherwise where it is not set. */
guint setting_sweep(guint otherwise);

/* Calls @run with each seed. */
void setting_run_seeds(guint usual, void (*run)(guint seed));

#endif /* SETTING_H */
