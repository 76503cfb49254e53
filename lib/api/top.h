/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * VPMM_TOP: publishes what pools have, for vpmm-top. A thread looks at them a few times a second, as long as there is
 * one, so that calls do nothing for it. It makes no call of the driver.
 */
#ifndef TOP_H
#define TOP_H

#include <glib.h>

#include "calls/pool.h"

/**
 * top_join() - publish a pool
 * @pool: the pool, just made
 *
 * Return: 0, or -ENOMEM: there is no file or thread for it.
 */
int top_join(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * top_leave() - publish a pool no more
 * @pool: the pool; one that never joined does nothing
 */
void top_leave(struct vpmm_pool *pool) G_GNUC_INTERNAL;

#endif /* TOP_H */
