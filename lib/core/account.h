/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Statistics of allocated and held memory: what the caches have, and peaks. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct cache;
struct core;
struct region;

/* The sums over all caches of a pool. */
struct cache_sums {
	uint64_t mallocs;	/* served by caches */
	uint64_t frees;		/* taken by caches */
	uint64_t bytes;		/* allocated for the region maps, but free: cached or stranded */
};

/**
 * cache_sum() - add up all caches of a pool
 * @core: the pool's core
 * @sums: receives the sums
 */
void cache_sum(struct core *core, struct cache_sums *sums);

/**
 * cache_withheld() - the bytes that a stream has freed and others cannot have yet: cached or stranded
 * @cache: the cache
 *
 * Return: bytes.
 */
uint64_t cache_withheld(struct cache *cache);

/**
 * cache_last() - the region of the latest call, if that was a malloc from a cache
 * @core: the pool's core
 * @served: receives whether a cache served the latest call
 *
 * Return: the region, or NULL. If several caches served calls since the last slow path, it is that of one of them.
 */
struct region *cache_last(struct core *core, bool *served);

/**
 * cache_note_peak() - update the peak of live bytes
 * @core: the pool's core
 * @asked: always look; otherwise a pool of many streams skips some calls, as each looks at every cache
 *
 * To be called before the slow path changes what the region maps count as allocated.
 */
void cache_note_peak(struct core *core, bool asked);

/**
 * account_note_taken() - update the peaks of device memory after some was created
 * @core: the pool's core, its backend entered
 */
void account_note_taken(struct core *core);

#endif /* ACCOUNT_H */
