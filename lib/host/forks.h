/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Locks of the host backend that a fork() waits for. */
#ifndef HOST_FORKS_H
#define HOST_FORKS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "util/lock.h"

/* Whether a fork() waits for them. */
extern bool _Atomic host_forks_watched;

/**
 * host_watch_forks() - have fork() wait for them
 */
void host_watch_forks(void);

/**
 * host_acquire() - acquire a lock that calls of vpmm-host.h need without a pool
 * @lock: host_opens_lock or host_streams_lock; see lock_acquire()
 *
 * From the first call on, a fork() waits until no thread holds either.
 */
static inline void host_acquire(struct lock *lock) ACQUIRE(lock)
{
	if (!atomic_load_explicit(&host_forks_watched, memory_order_relaxed))
		host_watch_forks();
	lock_acquire(lock);
}

#endif /* HOST_FORKS_H */
