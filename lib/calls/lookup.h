/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vpmm_lookup(): the allocation that an address is in. */
#ifndef CALLS_LOOKUP_H
#define CALLS_LOOKUP_H

#include <stdbool.h>

#include "calls/pool.h"

/**
 * lookup_pool() - find the allocation of a pool that has an address
 * @pool: the pool, its lock held
 * @addr: the address
 * @allocation: receives it
 *
 * Return: 0; -EALREADY: the program has freed it, and the driver's allocator still has it allocated; or -EINVAL.
 */
int lookup_pool(struct vpmm_pool *pool, uint64_t addr, struct vpmm_allocation *allocation);

#endif /* CALLS_LOOKUP_H */
