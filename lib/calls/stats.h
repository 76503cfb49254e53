/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The statistics of a pool. */
#ifndef STATS_H
#define STATS_H

struct vpmm_info;
struct vpmm_pool;
struct tags;
struct vpmm_stats;

/**
 * stats_get() - fill in the statistics
 * @pool: the pool, its backend entered
 * @stats: receives them, all but its size
 *
 * Return: 0, or what the backend's small_held returns.
 */
int stats_get(struct vpmm_pool *pool, struct vpmm_stats *stats);

/**
 * stats_reset_peaks() - let the peaks of the statistics be what is there now; the policy keeps its own
 * @pool: the pool, its backend entered
 *
 * Return: 0, or what the backend's small_held returns; nothing has changed then.
 */
int stats_reset_peaks(struct vpmm_pool *pool);

/**
 * stats_get_info() - fill in the properties of the pool, and the settings in force
 * @pool: the pool, its backend entered
 * @info: receives them, all but its size
 *
 * Return: 0, or what the backend's info returns.
 */
int stats_get_info(struct vpmm_pool *pool, struct vpmm_info *info);

/**
 * stats_add_arena() - add the statistics of an arena to those of its pool
 * @total: those of the pool, and of the arenas before
 * @part: those of the arena
 */
void stats_add_arena(struct vpmm_stats *total, const struct vpmm_stats *part);

/**
 * stats_sample_peaks() - raise the peaks of a pool with arenas to what is there now
 * @tags: the tags of the pool; NULL: there are none, and the peaks are exact
 * @total: the statistics of the pool and of all arenas
 */
void stats_sample_peaks(struct tags *tags, struct vpmm_stats *total);

/**
 * stats_count() - the same without the driver, and without waits that were not collected yet
 * @pool: the pool
 * @stats: receives them, with its size already set
 * @small_mapped: what the driver's allocator holds for it
 */
void stats_count(struct vpmm_pool *pool, struct vpmm_stats *stats, uint64_t small_mapped);

#endif /* STATS_H */
