// SPDX-License-Identifier: LGPL-2.1-or-later
/* Lists the segments and blocks of the pools, and counts them for statistics. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "torch/pool.h"
#include "torch/pools.h"

void pieces_add(struct pieces *pieces, const struct torch_piece *piece)
{
	size_t room = pieces->room ? 2 * pieces->room : 64;
	struct torch_piece *all;

	if (pieces->count == pieces->room && !pieces->failed) {
		all = realloc(pieces->all, room * sizeof(*all));
		pieces->failed = !all;
		if (all) {
			pieces->all = all;
			pieces->room = room;
		}
	}
	if (!pieces->failed)
		pieces->all[pieces->count++] = *piece;
}

void pools_held(int device, struct pools_held *held)
{
	const struct torch_pool *pool;
	const struct segment *segment;

	*held = (struct pools_held){ 0 };
	for (pool = pools_lock_first(device); pool; pool = pool_after(pool))
		for (segment = pool->arena.segments; segment; segment = segment->next)
			*(pool->source.take ? &held->foreign : &held->own) += segment->size;
	pools_unlock();
}

bool pools_are_waiting(int device, struct torch_id id)
{
	const struct torch_pool *pool = pools_lock_first(device);
	bool any = !id.a && !id.b;

	while (pool && (pool->uses || !pool->waiting || (!any && (pool->id.a != id.a || pool->id.b != id.b))))
		pool = pool_after(pool);
	pools_unlock();
	return pool;
}

int pools_stats(int device, struct torch_pool_stats **stats, size_t *count)
{
	struct torch_pool *first = pools_lock_first(device), *pool;
	struct torch_pool_stats *at;
	size_t room = 1;

	for (pool = first; pool; pool = pool_after(pool))
		room++;
	at = *stats = calloc(room, sizeof(*at));
	for (pool = at ? first : NULL; pool; pool = pool_after(pool), at++) {
		at->id = pool->id;
		memcpy(at->reserved, pool->reserved, sizeof(at->reserved));
	}
	*count = at ? (size_t)(at - *stats) : 0;
	pools_unlock();
	return at ? 0 : -ENOMEM;
}

void pools_reset(int device, void (*fn)(struct torch_stat *stat))
{
	struct torch_pool *pool;
	int kind;

	for (pool = pools_lock_first(device); pool; pool = pool_after(pool))
		for (kind = 0; kind < TORCH_KINDS; kind++)
			fn(&pool->reserved[kind]);
	pools_unlock();
}

static void list_pool(const struct torch_pool *pool, struct pieces *pieces)
{
	const struct segment *segment;
	const struct part *part;
	struct torch_piece piece;

	for (segment = pool->arena.segments; segment; segment = segment->next) {
		piece = pool_segment(pool, segment);
		pieces_add(pieces, &piece);
		for (part = segment->first; part; part = part->after) {
			piece = pool_piece(pool, part);
			pieces_add(pieces, &piece);
		}
	}
}

int pools_list(int device, struct torch_id id, struct pieces *pieces)
{
	struct torch_pool *pool;
	int err = 0;

	if (id.a || id.b) {
		pool = pools_lock(device, id);
		if (pool)
			list_pool(pool, pieces);
		else
			err = -ENOENT;
	} else {
		for (pool = pools_lock_first(device); pool; pool = pool_after(pool))
			list_pool(pool, pieces);
	}
	pools_unlock();
	return pieces->failed ? -ENOMEM : err;
}

bool pools_has_segment(int device, uint64_t addr)
{
	const struct segment *segment = NULL;
	const struct torch_pool *pool;

	for (pool = pools_lock_first(device); pool && !segment; pool = pool_after(pool)) {
		segment = pool->arena.segments;
		while (segment && segment->addr != addr)
			segment = segment->next;
	}
	pools_unlock();
	return segment;
}
