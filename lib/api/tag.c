// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls on tags, and what a tag changes for calls on blocks and on pools. */
#include <errno.h>

#include "api/tag.h"
#include "calls/arena.h"
#include "calls/budget.h"
#include "calls/tag.h"
#include "util/cancel.h"
#include "util/error.h"
#include "util/sized.h"

/* Another thread may have held a lock when this process was forked. */
static bool is_forked(void)
{
	return api_defaults.generation;
}

int vpmm_tag_open(const char *name, unsigned int flags, vpmm_tag *tag)
{
	int err, cancel;

	if (!tag)
		return error_set(-EINVAL, "vpmm_tag_open: tag is NULL");
	if (is_forked())
		return error_set(-EBUSY,
				 "vpmm_tag_open: the process was forked from one that had used the library");
	cancel = cancel_hold();
	err = tag_open(name, flags, tag);
	cancel_release(cancel);
	return err ? error_add(err, "vpmm_tag_open") : 0;
}

vpmm_tag vpmm_tag_set(vpmm_tag tag)
{
	if (tag_of(tag) && tag_check(tag_of(tag))) {
		error_add(-EINVAL, "vpmm_tag_set");
		return tag_current();
	}
	if (tag_of(tag))
		atomic_store(&api_defaults.near, API_NEAR_NEVER);
	return tag_exchange(tag);
}

/* Bytes that count for a request that @pool serves. */
static size_t round_for(const struct vpmm_pool *pool, size_t size)
{
	size_t bytes = core_round(&pool->core, size);

	return bytes ? bytes : size;
}

static int enter_and_make(struct tags *tags, vpmm_tag tag, struct vpmm_pool **arena)
{
	struct backend *be = tags->pool->core.backend;
	int err, cancel;

	*arena = arena_of(tags, tag);
	if (*arena)
		return 0;
	cancel = cancel_hold();
	err = be->ops->enter(be);
	if (!err) {
		err = api_arena_make(tags, tag, arena);
		be->ops->leave(be);
	}
	cancel_release(cancel);
	return err;
}

/* Which pool serves a request under a tag. */
static int choose(struct tags *tags, vpmm_tag word, bool apart, struct vpmm_pool **pool)
{
	int err;

	*pool = tags->pool;
	if (apart || word & VPMM_TAG_STAY || !tag_pausable(tag_of(word)))
		return 0;
	err = enter_and_make(tags, tag_of(word), pool);
	return err ? err : arena_judge(*pool);
}

static int allocate_and_enter(struct tags *tags, struct tagged *block, uint64_t *addr, tagged_fn fn, void *data)
{
	int err;

	err = fn(data, block->pool, addr);
	if (err) {
		tags_dismiss(tags, block->word, block->size);
		return err;
	}
	block->addr = *addr;
	tags_enter(tags, block);
	return 0;
}

int tagged_allocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, bool apart, const char *call, tagged_fn fn,
		    void *data)
{
	struct tagged block = { .requested = size, .word = tag_current() };
	struct tags *tags;
	int err;

	err = api_resolve_for(&pool, call);
	if (err)
		return err;
	/* Both fail, with a text of their own. */
	if (is_forked() || size > SIZE_MAX / 4)
		return fn(data, pool, addr);
	err = tags_make(pool, &tags);
	if (!err)
		err = choose(tags, block.word, apart, &block.pool);
	if (!err) {
		block.size = round_for(block.pool, size);
		err = tags_admit(tags, block.word, block.size);
	}
	if (err)
		return api_fail(pool, error_add(err, "%s: %zu bytes", call, size));
	return allocate_and_enter(tags, &block, addr, fn, data);
}

static bool take_of(struct vpmm_pool *pool, const void *ptr, struct tagged *block)
{
	struct tags *tags = g_atomic_pointer_get(&arena_root(pool)->tags);

	return tags && tags_take(tags, (uintptr_t)ptr, block);
}

bool tagged_take(struct vpmm_pool *pool, const void *ptr, struct tagged *block)
{
	bool given = pool;
	struct vpmm_pool *owner;

	if (is_forked() || (!given && api_find_default(&pool)))
		return false;
	if (pool && take_of(pool, ptr, block))
		return true;
	owner = given ? NULL : api_owner((uintptr_t)ptr, NULL);
	return owner && owner != pool && take_of(owner, ptr, block);
}

void tagged_settle(const struct tagged *block, bool there)
{
	struct tags *tags = arena_root(block->pool)->tags;

	if (there)
		tags_enter(tags, block);
	else
		tags_dismiss(tags, block->word, block->size);
}

static int resize_tagged(struct tagged *block, uint64_t *addr, size_t size, tagged_fn fn, void *data)
{
	struct tags *tags = arena_root(block->pool)->tags;
	size_t bytes = size > SIZE_MAX / 4 ? block->size : round_for(block->pool, size);
	size_t more = bytes > block->size ? bytes - block->size : 0;
	int err;

	err = more ? tags_admit(tags, block->word, more) : 0;
	if (err)
		return api_fail(tags->pool, err);
	err = fn(data, block->pool, addr);
	if (err) {
		tags_dismiss(tags, block->word, more);
		return err;
	}
	tags_dismiss(tags, block->word, block->size + more - bytes);
	block->addr = *addr;
	block->size = bytes;
	block->requested = size;
	return 0;
}

int tagged_reallocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, const char *call, tagged_fn fn, void *data)
{
	struct tagged block;
	int err;

	if (!tagged_take(pool, (void *)(uintptr_t)*addr, &block))
		return fn(data, pool, addr);
	err = resize_tagged(&block, addr, size, fn, data);
	tagged_settle(&block, true);
	return err;
}

void api_find_arena(struct vpmm_pool **pool, const void *ptr)
{
	struct tags *tags;
	struct tagged block;

	if (!api_tagged() || is_forked())
		return;
	tags = g_atomic_pointer_get(&arena_root(*pool)->tags);
	if (tags && tags_find(tags, (uintptr_t)ptr, &block))
		*pool = block.pool;
}

/* The log's messages are delivered by the caller, with no lock held. */
static int do_one(struct vpmm_pool *pool, int (*fn)(struct vpmm_pool *pool, void *data), void *data,
		  const char *call, GList **messages)
{
	int err;

	lock_acquire(&pool->core.lock);
	err = fn(pool, data);
	if (err) {
		error_add(err, "%s", call);
		log_add(&pool->core.log, VPMM_LOG_ERROR, "%s", error_get());
	}
	if (G_UNLIKELY(pool->core.extents.budget))
		pool_budget_end_call(pool);
	*messages = g_list_concat(*messages, log_take(&pool->core.log));
	lock_release(&pool->core.lock);
	return err;
}

static int do_all(struct vpmm_pool *pool, int (*fn)(struct vpmm_pool *pool, void *data), void *data,
		  const char *call, GList **messages)
{
	struct error_kept kept;
	int err, failed;

	lock_acquire(&pool->making);
	err = do_one(pool, fn, data, call, messages);
	if (!err) {
		for_each_arena(arena, pool->tags) {
			failed = do_one(arena, fn, data, call, messages);
			if (failed && !err) {
				err = failed;
				error_keep(&kept);
			}
		}
		if (err)
			error_restore(&kept);
	}
	lock_release(&pool->making);
	return err;
}

int api_each(struct vpmm_pool *pool, const char *call, int (*fn)(struct vpmm_pool *pool, void *data), void *data)
{
	GList *messages = NULL;
	struct backend *be;
	int err, cancel;

	err = api_resolve_for(&pool, call);
	if (err)
		return err;
	/* It says why not, without a lock. */
	if (pool->core.generation != api_defaults.generation)
		return api_begin(&pool, call);
	be = pool->core.backend;
	cancel = cancel_hold();
	err = be->ops->enter(be);
	if (err) {
		error_add(err, "%s", call);
	} else {
		err = do_all(pool, fn, data, call, &messages);
		be->ops->leave(be);
	}
	log_deliver(&pool->core.log, messages);
	cancel_release(cancel);
	if (err)
		errno = -err;
	return err;
}

static int check_tag(vpmm_tag word, const char *call)
{
	int err = tag_check(tag_of(word));

	return err ? error_add(err, "%s", call) : 0;
}

/* The tags of a pool that a call means; not in a forked child. */
static int resolve_tags(struct vpmm_pool **pool, struct tags **tags, const char *call)
{
	int err;

	err = is_forked() ? error_set(-EBUSY, "the process was forked from one that had used the library") :
	      api_resolve(pool, call);
	if (!err)
		err = tags_make(*pool, tags);
	return err ? error_add(err, "%s", call) : 0;
}

int vpmm_tag_limit(struct vpmm_pool *pool, vpmm_tag tag, size_t bytes)
{
	const char *call = "vpmm_tag_limit";
	struct tags *tags;
	int err;

	err = check_tag(tag, call);
	if (!err)
		err = resolve_tags(&pool, &tags, call);
	if (!err)
		tags_set_limit(tags, tag_of(tag), bytes);
	return err;
}

/* What the arena of a tag has. */
static void read_arena(struct vpmm_pool *arena, struct vpmm_tag_stats *stats)
{
	bool hollow;

	lock_acquire(&arena->core.lock);
	hollow = arena->core.extents.hollow;
	stats->mapped += (hollow ? 0 : core_mapped(&arena->core)) + arena->core.small_live;
	stats->kept += arena->core.small_live;
	lock_release(&arena->core.lock);
	if (hollow)
		stats->paused = stats->live - MIN(stats->live, stats->kept);
	stats->saved = atomic_load(&arena->arena->saved_bytes);
}

int vpmm_tag_stats(struct vpmm_pool *pool, vpmm_tag tag, struct vpmm_tag_stats *stats)
{
	struct vpmm_tag_stats known = { .size = sizeof(known) };
	const char *call = "vpmm_tag_stats";
	struct tag_counts counts;
	struct vpmm_pool *arena;
	struct tags *tags;
	int err;

	err = sized_check(&sized_tag_stats, "stats", stats);
	if (err)
		return error_add(err, "%s", call);
	err = check_tag(tag, call);
	if (!err)
		err = resolve_tags(&pool, &tags, call);
	if (err)
		return err;
	tags_read(tags, tag_of(tag), &counts);
	known.live = counts.live;
	known.peak_live = counts.peak_live;
	known.requested = counts.requested;
	known.blocks = counts.blocks;
	known.mapped = counts.kept;
	known.limit = counts.limit;
	known.kept = tag_pausable(tag_of(tag)) ? counts.kept : 0;
	arena = arena_of(tags, tag_of(tag));
	if (arena)
		read_arena(arena, &known);
	sized_export(&sized_tag_stats, stats, &known);
	return 0;
}
