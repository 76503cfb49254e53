/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The invariants of a pool. */
#ifndef CHECK_H
#define CHECK_H

struct vpmm_pool;

/**
 * check_pool() - walk all regions and extents, and compare them with every index and sum
 * @pool: the pool
 *
 * Return: 0, or -EUCLEAN.
 */
int check_pool(struct vpmm_pool *pool);

/**
 * cache_check() - check the invariants of the caches against the region maps
 * @pool: the pool
 *
 * Return: 0, or -EUCLEAN.
 */
int cache_check(struct vpmm_pool *pool);

#endif /* CHECK_H */
