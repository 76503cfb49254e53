// SPDX-License-Identifier: LGPL-2.1-or-later
/* The arenas of a pool, from the first allocation under their tag to the end of the pool. */
#include <errno.h>

#include "calls/arena.h"
#include "calls/capture.h"
#include "util/error.h"

static struct arena *describe(struct vpmm_pool *parent, vpmm_tag tag)
{
	struct arena *arena = g_new0(struct arena, 1);

	arena->parent = parent;
	arena->tag = tag;
	arena->saved = g_array_new(FALSE, FALSE, sizeof(struct arena_range));
	arena->dropped = g_array_new(FALSE, FALSE, sizeof(struct arena_range));
	arena->pieces = g_ptr_array_new();
	return arena;
}

/* With the pool's @making held, so that what holds for all pools of the program's pool does not change meanwhile. */
static int make_arena(struct tags *tags, vpmm_tag tag, struct vpmm_pool **made)
{
	struct vpmm_pool *pool;
	int err;

	err = pool_new_behind(&pool, tags->pool);
	if (err)
		return error_add(err, "the arena of tag \"%s\"", tag_name(tag));
	pool->arena = describe(tags->pool, tag);
	capture_copy_groups(pool, tags->pool);
	address_open(&pool->core.owner, pool);
	atomic_store_explicit(&tags->arenas[tag], pool, memory_order_release);
	*made = pool;
	return 0;
}

int arena_make(struct tags *tags, vpmm_tag tag, struct vpmm_pool **arena)
{
	int err = 0;

	*arena = arena_of(tags, tag);
	if (*arena)
		return 0;
	lock_acquire(&tags->pool->making);
	*arena = arena_of(tags, tag);
	if (!*arena)
		err = make_arena(tags, tag, arena);
	lock_release(&tags->pool->making);
	return err;
}

int arena_judge(const struct vpmm_pool *pool)
{
	static const char *const words[] = {
		[ARENA_PAUSING] = "is about to be paused",
		[ARENA_PAUSED] = "is paused",
		[ARENA_RESUMING] = "is about to be resumed",
	};
	int state = pool->arena ? g_atomic_int_get(&pool->arena->state) : ARENA_AWAKE;

	if (state == ARENA_AWAKE)
		return 0;
	return error_set(-EBUSY, "tag \"%s\" %s", tag_name(pool->arena->tag), words[state]);
}

/* What the arena of a tag has. */
static void add_arena(struct vpmm_pool *arena, struct vpmm_tag_stats *stats)
{
	bool hollow;

	lock_acquire(&arena->core.lock);
	hollow = arena->core.extents.hollow;
	stats->mapped += core_resident(&arena->core);
	lock_release(&arena->core.lock);
	if (hollow)
		stats->paused = stats->live - stats->kept;
	stats->saved = atomic_load(&arena->arena->saved_bytes);
}

void arena_stats(struct tags *tags, vpmm_tag tag, struct vpmm_tag_stats *stats)
{
	struct vpmm_pool *arena = arena_of(tags, tag);
	struct tag_counts counts;

	tags_read(tags, tag, &counts);
	stats->live = counts.live;
	stats->peak_live = counts.peak_live;
	stats->requested = counts.requested;
	stats->blocks = counts.blocks;
	stats->mapped = counts.kept;
	stats->limit = counts.limit;
	stats->kept = tag_pausable(tag) ? counts.kept : 0;
	if (arena)
		add_arena(arena, stats);
}
