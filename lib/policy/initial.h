/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a pool is created with. */
#ifndef INITIAL_H
#define INITIAL_H

struct core;
struct warm;

/**
 * initial_create() - reserve the first chunk of a pool, and create the memory that VPMM_PAGES asks for
 * @core: the pool's core, with nothing in it; its lock is held, its backend entered
 * @warm: what the pool is to begin with instead, approved by warm_check(); NULL: nothing
 *
 * A pool that leaves every request to the driver's allocator gets neither.
 *
 * Return: 0, -ENOMEM, or another error of the backend; the caller destroys the pool then.
 */
int initial_create(struct core *core, const struct warm *warm);

#endif /* INITIAL_H */
