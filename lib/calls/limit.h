/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vpmm_pool_set_limit(). */
#ifndef LIMIT_H
#define LIMIT_H

#include <stddef.h>

struct vpmm_pool;

/**
 * limit_set() - set the most device memory that the pool may hold, and give back what is beyond it
 * @pool: the pool, its lock held
 * @bytes: the limit; 0: none
 *
 * Return: as vpmm_pool_set_limit().
 */
int limit_set(struct vpmm_pool *pool, size_t bytes);

#endif /* LIMIT_H */
