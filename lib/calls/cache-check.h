/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The invariants of the caches. */
#ifndef CACHE_CHECK_H
#define CACHE_CHECK_H

struct vpmm_pool;

/**
 * cache_check() - check the invariants of the caches against the region maps
 * @pool: the pool
 *
 * Return: 0, or -EUCLEAN.
 */
int cache_check(struct vpmm_pool *pool);

#endif /* CACHE_CHECK_H */
