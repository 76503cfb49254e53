/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool as a whole: its invariants, and its state as text in the format of vpmm_pool_dump(3). */
#ifndef CHECK_H
#define CHECK_H

#include <glib.h>

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

/**
 * dump_pool() - the statistics and every region of every chunk
 * @pool: the pool, its backend entered
 * @text: receives the dump
 *
 * The caller writes it to the file with no lock held, as that may block for ever.
 *
 * Return: 0, or what the backend's small_held returns.
 */
int dump_pool(struct vpmm_pool *pool, GString **text);

#endif /* CHECK_H */
