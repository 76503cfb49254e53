/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every call on a pool, and tests that run in processes of their own, for what becomes of the library with those. */
#ifndef LIFE_FIXTURE_H
#define LIFE_FIXTURE_H

#include "support/fixture.h"

/* Makes every call that returns an error, with good arguments; @live is an allocation. 0, or which does not fail so. */
int all_fail(struct vpmm_pool *pool, void *live, int err);

/* Adds a test that runs in a process of its own. */
void add_alone(const char *name, void (*test)(void));

#endif /* LIFE_FIXTURE_H */
