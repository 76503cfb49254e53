/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VPMM_PAUSABLE: a thread that pauses and resumes tags for vpmm-pause(1). */
#ifndef API_CONTROL_H
#define API_CONTROL_H

#include <glib.h>

#include "calls/pool.h"

/**
 * control_join() - let vpmm-pause have a pool, if VPMM_PAUSABLE says so
 * @pool: the pool, just made
 *
 * Return: 0, -EINVAL for a bad value, or what keeps the process from a socket or a thread.
 */
int control_join(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * control_leave() - the pool is about to be destroyed: wait until nothing is done to it any more
 * @pool: the pool; one that never joined does nothing
 */
void control_leave(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * control_set_guard() - as vpmm_pause_guard()
 * @guard: as there
 * @data: as there
 */
void control_set_guard(vpmm_guard_fn guard, void *data) G_GNUC_INTERNAL;

/**
 * control_forked() - this is a forked child: let go of the parent's socket
 */
void control_forked(void) G_GNUC_INTERNAL;

#endif /* API_CONTROL_H */
