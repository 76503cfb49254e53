/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Deferred unmapping: old addresses of memory that has moved become holes when their streams are past them. */
#ifndef ZOMBIE_H
#define ZOMBIE_H

struct vpmm_pool;

/**
 * zombie_reap() - unmap the zombies whose events have passed
 * @pool: the pool; its lock is held, its backend entered
 *
 * Waits for none.
 *
 * Return: 0, or as the backend's event_query and unmap; the rest stays as it is then.
 */
int zombie_reap(struct vpmm_pool *pool);

#endif /* ZOMBIE_H */
