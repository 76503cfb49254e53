/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Arenas: a pausable tag has a pool of its own behind the pool that the program knows, on the same open backend and
 * under the same limit. So blocks of the tag share no extent with others, and whatever holds for a pool holds for them.
 * The exported calls find the arena of a block, and what is for a whole pool they do to its arenas as well
 * (api_each()).
 *
 * Arenas and their pool share *extents.taken, the bytes that the limit bounds; each counts before it creates. Before a
 * request fails, the other arenas give back what they have free (arenas_give()). Locks of two arenas are never held at
 * once. Whatever allocates or works on a block asks arena_judge() under core.lock.
 */
#ifndef ARENA_H
#define ARENA_H

#include <glib.h>
#include <stdint.h>

#include "calls/pool.h"
#include "calls/tags.h"

/* Whether the memory of an arena is there. */
enum arena_state {
	ARENA_AWAKE,
	ARENA_PAUSING,
	ARENA_PAUSED,
	ARENA_RESUMING
};

/**
 * struct arena - what a pool that is an arena has more than others
 * @parent: the pool that the program knows
 * @tag: the tag
 * @state: of enum arena_state: written under core.lock, and read without
 * @saved: ranges whose contents are in @pieces, one after the other, of struct arena_range; under core.lock
 * @dropped: ranges with allocations whose contents were not saved, likewise
 * @pieces: of struct store_piece; used by the thread that pauses or resumes alone
 * @saved_bytes: bytes of @saved
 * @outside: vpmm-pause has paused it; used by its thread alone
 */
struct arena {
	struct vpmm_pool *parent;
	vpmm_tag tag;
	gint state;
	GArray *saved;
	GArray *dropped;
	GPtrArray *pieces;
	_Atomic uint64_t saved_bytes;
	bool outside;
};

/* Addresses. */
struct arena_range {
	uint64_t addr;
	uint64_t size;
};

/* The pool that the program knows of one that may be an arena. */
static inline struct vpmm_pool *arena_root(struct vpmm_pool *pool)
{
	return pool->arena ? pool->arena->parent : pool;
}

/* The arena of a tag; NULL: none. */
static inline struct vpmm_pool *arena_of(struct tags *tags, vpmm_tag tag)
{
	return atomic_load_explicit(&tags->arenas[tag], memory_order_acquire);
}

/* All arenas of a pool that has @tags, which may be NULL. */
#define for_each_arena(arena, tags) \
	for (vpmm_tag tag_##arena = 1; (tags) && tag_##arena <= TAGS_MOST; tag_##arena++) \
		for (struct vpmm_pool *arena = arena_of((tags), tag_##arena); arena; arena = NULL)

/**
 * arena_make() - the arena of a tag, made if the pool has none yet
 * @tags: the tags of the pool, its backend entered
 * @tag: the tag
 * @arena: receives the arena
 *
 * Context: no lock held.
 * Return: 0, or what the backend's info returns.
 */
int arena_make(struct tags *tags, vpmm_tag tag, struct vpmm_pool **arena);

/**
 * arena_stats() - what a pool has under a tag
 * @tags: the tags of the pool
 * @tag: the tag
 * @stats: receives it, cleared before
 *
 * Context: no lock held.
 */
void arena_stats(struct tags *tags, vpmm_tag tag, struct vpmm_tag_stats *stats);

/**
 * arena_judge() - whether blocks of a pool can be allocated and worked on
 * @pool: the pool
 *
 * Context: any; a pool that is asked with its lock held stays so until the lock is released.
 * Return: 0; or -EBUSY if it is an arena that is paused, or about to be.
 */
int arena_judge(const struct vpmm_pool *pool);

/**
 * arena_is_awake() - the same, without a text
 * @pool: the pool
 *
 * Return: whether it can.
 */
static inline bool arena_is_awake(const struct vpmm_pool *pool)
{
	return !pool->arena || g_atomic_int_get(&pool->arena->state) == ARENA_AWAKE;
}

/**
 * arena_is_changing() - whether an arena is about to be paused or resumed, so that some of its memory is in no list
 * @pool: the pool, its lock held
 */
static inline bool arena_is_changing(const struct vpmm_pool *pool)
{
	return pool->arena && (pool->arena->state == ARENA_PAUSING || pool->arena->state == ARENA_RESUMING);
}

#endif /* ARENA_H */
