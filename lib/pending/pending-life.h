/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Set-up and clean-up of what a pool has pending. */
#ifndef PENDING_LIFE_H
#define PENDING_LIFE_H

struct core;
struct pending;

/**
 * pending_init() - set up, with nothing pending
 * @pending: the structure, all 0
 * @core: the pool's core
 */
void pending_init(struct pending *pending, struct core *core);

/**
 * pending_clear() - free everything, when the pool is destroyed
 * @pending: what the pool has pending
 */
void pending_clear(struct pending *pending);

#endif /* PENDING_LIFE_H */
