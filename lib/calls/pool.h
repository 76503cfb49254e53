/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pool structure, and the life of a pool. */
#ifndef POOL_H
#define POOL_H

#include <stdbool.h>

#include "core/core.h"
#include "pending/pending.h"
#include "policy/state.h"
#include "vpmm.h"

/**
 * struct vpmm_pool - a pool
 * @core: memory, addresses and streams; the first member, as caches need nothing else
 * @pending: deferred frees and users of blocks; under core.lock
 * @packed: state of the packed policy; under core.lock
 * @cancel: the result of cancel_hold() of the thread that holds core.lock
 * @going: the pool is being destroyed; written only by the thread that does so
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
 * @backend: the backend, entered; the caller closes it after pool_delete()
 * @settings: the settings, not yet completed for the device
 *
 * Return: 0, -EINVAL for settings that are invalid for the device, -ENOMEM, or another error of the backend.
 */
int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings);

/**
 * pool_announce_end() - log that the pool is about to be destroyed, while it still works
 * @pool: the pool
 */
void pool_announce_end(struct vpmm_pool *pool);

/**
 * pool_delete() - free everything but the backend
 * @pool: the pool, its backend entered, its lock not held
 */
void pool_delete(struct vpmm_pool *pool);

#endif /* POOL_H */
