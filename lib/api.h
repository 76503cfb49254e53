/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of exported calls share. None of it is seen outside of the library, and the compiler knows: what the
 * quickest calls read is read without a detour.
 */
#ifndef API_H
#define API_H

#include <glib.h>

#include "calls/pool.h"
#include "util/lock.h"

/* A pool of its own for each device; the calls find those of more devices than this only by their handles. */
#define API_DEFAULT_POOLS 64

/**
 * struct api_defaults - the default pools
 * @lock: held while one is made
 * @ops: of their backend; NULL before the first
 * @pools: by device; once set, never changed
 */
struct api_defaults {
	struct lock lock;
	const struct backend_ops *ops;
	struct vpmm_pool *pools[API_DEFAULT_POOLS];
};

extern struct api_defaults api_defaults G_GNUC_INTERNAL;

/* Counts the forks that this process comes from since its first pool: pools of an older generation are the parent's. */
extern unsigned int api_generation G_GNUC_INTERNAL;

/**
 * api_default_create() - make the default pool of the current device, unless another thread has
 * @pool: receives the pool
 * @call: the call that needs it, for the log
 *
 * Return: 0, or as vpmm_pool_create(); or -ENODEV, where the device can have none.
 */
int api_default_create(struct vpmm_pool **pool, const char *call) G_GNUC_INTERNAL;

/**
 * api_begin() - begin a call that takes the lock of a pool
 * @pool: the pool; NULL: that of the current device, which it receives
 * @call: what the call is called
 *
 * Return: 0, with the backend entered and the lock held; or an error, with neither.
 */
int api_begin(struct vpmm_pool **pool, const char *call) TRY_ACQUIRE(0, (*pool)->core.lock) G_GNUC_INTERNAL;

/**
 * api_end() - end it: let go of the lock, leave the backend, and deliver what the pool has to say
 * @pool: the pool
 * @call: what the call is called
 * @err: how it went
 *
 * Return: @err, with errno set to match.
 */
int api_end(struct vpmm_pool *pool, const char *call, int err) RELEASE(pool->core.lock) G_GNUC_INTERNAL;

/**
 * api_fail() - log that a call has failed which holds no lock any more
 * @pool: the pool
 * @err: the error
 *
 * Return: @err, with errno set to match.
 */
int api_fail(struct vpmm_pool *pool, int err) G_GNUC_INTERNAL __attribute__((cold));

#endif /* API_H */
