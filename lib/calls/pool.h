/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool: its core, what it has pending and what its policy remembers; and its life. */
#ifndef POOL_H
#define POOL_H

#include <stdbool.h>

#include "core/core.h"
#include "pending/pending.h"
#include "policy/state.h"
#include "vpmm.h"

/**
 * struct vpmm_pool - a pool
 * @core: memory, addresses and streams; the first, as it is all that a cache needs
 * @pending: what was freed, and is not yet anybody's; under the core's lock
 * @packed: what the packed policy remembers; under the core's lock
 * @cancel: what cancel_hold() has told the thread that has the core's lock
 * @going: the pool is being destroyed; only the thread that does so writes it
 */
struct vpmm_pool {
	struct core core;
	struct pending pending;
	struct packed packed;
	int cancel;
	bool going;
};

/**
 * pool_new() - make a pool on an open backend
 * @pool: receives the pool
 * @backend: the backend, entered; it stays the caller's to close, after pool_delete()
 * @settings: what is asked for
 *
 * Return: 0, or -EINVAL for settings that the device cannot have, -ENOMEM, or another error of the backend.
 */
int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings);

/**
 * pool_announce_end() - say that the pool is destroyed, while it still answers
 * @pool: the pool
 */
void pool_announce_end(struct vpmm_pool *pool);

/**
 * pool_delete() - give back all but the backend
 * @pool: the pool, its backend entered, its lock not held
 */
void pool_delete(struct vpmm_pool *pool);

#endif /* POOL_H */
