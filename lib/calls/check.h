/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether everything that a pool keeps agrees with everything else. */
#ifndef CHECK_H
#define CHECK_H

struct vpmm_pool;

/**
 * check_pool() - walk all regions and hold them against the indices and the sums
 * @pool: the pool
 *
 * Return: 0, or -EUCLEAN.
 */
int check_pool(struct vpmm_pool *pool);

#endif /* CHECK_H */
