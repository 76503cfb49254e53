/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The life of what a pool has pending. */
#ifndef PENDING_LIFE_H
#define PENDING_LIFE_H

struct core;
struct pending;

/**
 * pending_init() - set up with nothing pending
 * @pending: what is to be set up, all 0
 * @core: of the pool
 */
void pending_init(struct pending *pending, struct core *core);

/**
 * pending_clear() - forget all of it, when the pool goes
 * @pending: what the pool has pending
 */
void pending_clear(struct pending *pending);

#endif /* PENDING_LIFE_H */
