/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vpmm_pool_set_peers(). */
#ifndef PEERS_H
#define PEERS_H

#include <stddef.h>

struct vpmm_pool;

/**
 * peers_set() - let other devices access the pool's memory
 * @pool: the pool
 * @devices: their ordinals
 * @count: how many
 *
 * Return: as vpmm_pool_set_peers().
 */
int peers_set(struct vpmm_pool *pool, const int *devices, size_t count);

#endif /* PEERS_H */
