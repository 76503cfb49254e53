/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much memory a pool may take, next to the most that was ever live in it. */
#ifndef BUDGET_H
#define BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vpmm_pool;

/**
 * struct strain - how hard it is to live within the budget
 * @mallocs: how many allocations there had been when @sum faded last
 * @ns: when it faded last, on the backend's clock
 * @sum: how often an allocation was a strain, less what has faded since
 * @relief: bytes that the budget was extended by
 * @past: the most that was live before memory was last given back, which does not count any more
 * @held: the memory that there was left then, which counts instead
 */
struct strain {
	uint64_t mallocs;
	uint64_t ns;
	uint64_t sum;
	uint64_t relief;
	uint64_t past;
	uint64_t held;
};

/**
 * budget_room() - what a pool may still take
 * @pool: the pool; its lock is held
 * @size: bytes that are being asked for
 *
 * Return: bytes, whole pages.
 */
size_t budget_room(struct vpmm_pool *pool, size_t size);

/**
 * budget_stretch() - what a pool may still take where an allocation would take long otherwise
 * @pool: the pool; its lock is held
 * @size: bytes that are being asked for
 *
 * Only a pool that has to take more in any case stretches: it grows, and is likely to find a use for what is free now.
 * What it once had live does not tell, as not every malloc looks at that, and but for a pool at ease what is cached
 * passes for live here. What is taken so counts: nothing more is taken before what is live has grown by as much.
 *
 * Return: bytes, whole pages.
 */
size_t budget_stretch(struct vpmm_pool *pool, size_t size);

/**
 * budget_note_trim() - the pool was asked to hold less
 * @pool: the pool; its lock is held
 *
 * It would not do to take all of it again for the next small request.
 */
void budget_note_trim(struct vpmm_pool *pool);

/**
 * budget_note_strain() - memory had to be remapped to serve an allocation, or a cache to be emptied although at ease
 * @pool: the pool; its lock is held
 *
 * A program that has this done all the time, and not only while it finds its shape, would rather have a little more
 * memory: the budget is extended, in small steps and up to a quarter, until it is done seldom. From the first step on
 * the pool is at ease, if there is memory: what is cached stays where it is as long as that can be, and serves what is a
 * little smaller.
 */
void budget_note_strain(struct vpmm_pool *pool);

/**
 * budget_note_scarce() - memory, mappings or addresses have run out
 * @pool: the pool; its lock is held
 *
 * What blocks are too large by may be what is missing: the pool is not at ease again before it is trimmed, and each
 * request has a block of its size.
 */
void budget_note_scarce(struct vpmm_pool *pool);

/**
 * budget_has_ease() - whether a pool at ease may take as much more, so that what is cached can stay where it is
 * @pool: the pool; its lock is held
 * @size: bytes
 *
 * What is cached does not count as live here.
 *
 * Return: whether it may.
 */
bool budget_has_ease(const struct vpmm_pool *pool, size_t size);

#endif /* BUDGET_H */
