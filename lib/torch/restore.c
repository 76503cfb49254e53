// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Makes a pool what it was: CUDA graph trees replay graphs, and then go on from a state that the allocator has not been
 * in since. Blocks lie where they lay, as the graphs' kernels have their addresses.
 */
#include <errno.h>

#include "torch/books.h"
#include "torch/pool.h"
#include "torch/pools.h"

static struct segment *segment_at(const struct torch_pool *pool, const struct torch_piece *piece)
{
	struct segment *segment = pool->arena.segments;

	while (segment && segment->addr != piece->addr)
		segment = segment->next;
	return segment && segment->size == piece->size ? segment : NULL;
}

/* How many parts follow the segment at a place of a list. */
static size_t count_parts(const struct torch_piece *pieces, size_t count, size_t at)
{
	size_t end = at + 1;

	while (end < count && !pieces[end].segment)
		end++;
	return end - at - 1;
}

/* Whether a pool can become what a list says. */
static int state_fits(struct torch_pool *pool, const struct torch_piece *pieces, size_t count)
{
	const struct segment *segment;
	size_t i, parts;

	if (pool->waiting)
		return -EBUSY;
	for (i = 0; i < count; i += parts + 1) {
		segment = pieces[i].segment ? segment_at(pool, &pieces[i]) : NULL;
		parts = count_parts(pieces, count, i);
		if (!segment || !arena_fits(segment, &pieces[i + 1], parts))
			return -EINVAL;
	}
	return 0;
}

static void pool_free_all(struct torch_pool *pool, struct pieces *freed)
{
	struct segment *segment;
	struct torch_piece piece;
	struct entry entry;
	struct part *part;

	for (segment = pool->arena.segments; segment; segment = segment->next) {
		part = segment->first;
		while (part) {
			if (!part->allocated) {
				part = part->after;
				continue;
			}
			piece = pool_piece(pool, part);
			pieces_add(freed, &piece);
			books_take((void *)(uintptr_t)part->addr, true, &entry);
			pool_free_part(pool, part);
			/* Its neighbours may have become one with it. */
			part = segment->first;
		}
	}
}

static int allocate_again(struct torch_pool *pool, struct segment *segment, struct pieces *allocated)
{
	struct torch_piece piece;
	struct entry entry;
	struct part *part;

	for (part = segment->first; part; part = part->after) {
		if (!part->allocated)
			continue;
		entry = (struct entry){
			.ptr = (void *)(uintptr_t)part->addr, .requested = part->requested, .size = part->size,
			.stream = segment->stream, .part = part, .device = pool->device,
		};
		if (!books_add(&entry))
			return -ENOMEM;
		piece = pool_piece(pool, part);
		pieces_add(allocated, &piece);
	}
	return 0;
}

static int pool_restore(struct torch_pool *pool, const struct torch_piece *pieces, size_t count, struct pieces *freed,
			struct pieces *allocated)
{
	struct segment *segment;
	size_t i, parts;
	int err = state_fits(pool, pieces, count);

	if (err)
		return err;
	pool_free_all(pool, freed);
	for (i = 0; i < count && !err; i += parts + 1) {
		segment = segment_at(pool, &pieces[i]);
		parts = count_parts(pieces, count, i);
		err = segment ? arena_cut(segment, &pieces[i + 1], parts) : -EINVAL;
		if (!err)
			err = allocate_again(pool, segment, allocated);
	}
	return err ? err : freed->failed || allocated->failed ? -ENOMEM : 0;
}

int pools_restore(int device, struct torch_id id, const struct torch_piece *pieces, size_t count,
		  struct torch_piece **freed, size_t *freed_count, struct torch_piece **allocated,
		  size_t *allocated_count)
{
	struct pieces gone = { 0 }, come = { 0 };
	struct torch_pool *pool;
	int err;

	pool = pools_lock(device, id);
	err = pool ? pool_restore(pool, pieces, count, &gone, &come) : -ENOENT;
	pools_unlock();
	*freed = gone.all;
	*freed_count = gone.count;
	*allocated = come.all;
	*allocated_count = come.count;
	return err;
}
