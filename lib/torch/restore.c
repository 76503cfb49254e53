// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Makes a pool what it was: CUDA graph trees replay graphs, and then go on from a state that the allocator has not been
 * in since. Blocks lie where they lay, as the graphs' kernels have their addresses.
 */
#include <errno.h>
#include <stdlib.h>

#include "torch/books.h"
#include "torch/pool.h"
#include "torch/pools.h"

/* The streams that use a block. */
struct users {
	uint64_t addr;
	struct CUstream_st **all;
	size_t count;
};

/* All parts of a pool, one after another. */
static struct part *pool_first_part(const struct torch_pool *pool)
{
	return pool->arena.segments ? pool->arena.segments->first : NULL;
}

static struct part *pool_next_part(const struct part *part)
{
	const struct segment *next = part->segment->next;

	return part->after ? part->after : next ? next->first : NULL;
}

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

/* Whether a list has a part as an allocated block. */
static bool keeps_part(const struct torch_piece *pieces, size_t count, const struct part *part)
{
	size_t i = 0;

	while (i < count && (pieces[i].segment || pieces[i].addr != part->addr))
		i++;
	return i < count && pieces[i].allocated && pieces[i].size == part->size;
}

/* Whether other streams use memory of which something else would become. */
static bool is_in_use(const struct torch_pool *pool, const struct torch_piece *pieces, size_t count)
{
	const struct part *part = pool_first_part(pool);

	while (part && (!part->user_count || keeps_part(pieces, count, part)))
		part = pool_next_part(part);
	return part;
}

/* Whether a pool can become what a list says. */
static int state_fits(struct torch_pool *pool, const struct torch_piece *pieces, size_t count, bool waited)
{
	const struct segment *segment;
	size_t i, parts;

	if (pool->waiting || (!waited && is_in_use(pool, pieces, count)))
		return -EBUSY;
	for (i = 0; i < count; i += parts + 1) {
		segment = pieces[i].segment ? segment_at(pool, &pieces[i]) : NULL;
		parts = count_parts(pieces, count, i);
		if (!segment || !arena_fits(segment, &pieces[i + 1], parts))
			return -EINVAL;
	}
	return 0;
}

/* Takes the users out of the blocks of a pool; NULL: no memory on the host. The last is followed by one without. */
static struct users *take_users(struct torch_pool *pool)
{
	struct users *users;
	struct part *part;
	size_t n = 1;

	for (part = pool_first_part(pool); part; part = pool_next_part(part))
		n += !!part->user_count;
	users = calloc(n, sizeof(*users));
	for (n = 0, part = users ? pool_first_part(pool) : NULL; part; part = pool_next_part(part)) {
		if (!part->user_count)
			continue;
		users[n++] = (struct users){ part->addr, part->users, part->user_count };
		part->users = NULL;
		part->user_count = 0;
	}
	return users;
}

/* A block is there again: the streams that used it still do. */
static void return_users(struct part *part, struct users *users)
{
	while (users->count && users->addr != part->addr)
		users++;
	part->users = users->all;
	part->user_count = users->count;
	users->all = NULL;
}

static void free_users(struct users *users)
{
	size_t i;

	for (i = 0; users[i].count; i++)
		free(users[i].all);
	free(users);
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

static int allocate_again(struct torch_pool *pool, struct segment *segment, struct users *users,
			  struct pieces *allocated)
{
	struct torch_piece piece;
	struct entry entry;
	struct part *part;

	for (part = segment->first; part; part = part->after) {
		books_split(pool->device, segment->large, !!arena_split(part), (int64_t)arena_split(part));
		if (!part->allocated)
			continue;
		return_users(part, users);
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

static int pool_restore(struct torch_pool *pool, const struct torch_piece *pieces, size_t count, bool waited,
			struct pieces *freed, struct pieces *allocated)
{
	struct segment *segment;
	struct users *users;
	size_t i, parts;
	int err = state_fits(pool, pieces, count, waited);

	if (err)
		return err;
	users = take_users(pool);
	if (!users)
		return -ENOMEM;
	pool_free_all(pool, freed);
	for (i = 0; i < count && !err; i += parts + 1) {
		segment = segment_at(pool, &pieces[i]);
		parts = count_parts(pieces, count, i);
		err = segment ? arena_cut(segment, &pieces[i + 1], parts) : -EINVAL;
		if (!err)
			err = allocate_again(pool, segment, users, allocated);
	}
	free_users(users);
	return err ? err : freed->failed || allocated->failed ? -ENOMEM : 0;
}

int pools_restore(int device, struct torch_id id, const struct torch_piece *pieces, size_t count, bool waited,
		  struct torch_piece **freed, size_t *freed_count, struct torch_piece **allocated,
		  size_t *allocated_count)
{
	struct pieces gone = { 0 }, come = { 0 };
	struct torch_pool *pool;
	int err;

	pool = pools_lock(device, id);
	err = pool ? pool_restore(pool, pieces, count, waited, &gone, &come) : -ENOENT;
	pools_unlock();
	*freed = gone.all;
	*freed_count = gone.count;
	*allocated = come.all;
	*allocated_count = come.count;
	return err;
}
