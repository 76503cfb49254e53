// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls on tags, and what arenas change for calls on pools. */
#include <errno.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/budget.h"
#include "util/cancel.h"
#include "util/error.h"
#include "util/sized.h"
#include "util/tag.h"

int vpmm_tag_open(const char *name, unsigned int flags, vpmm_tag *tag)
{
	int err, cancel;

	if (!tag)
		return error_set(-EINVAL, "vpmm_tag_open: tag is NULL");
	cancel = cancel_hold();
	err = api_refuse_fork();
	if (!err)
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
		atomic_store(&api_defaults.plain_generation, API_PLAIN_NEVER);
	return tag_exchange(tag);
}

void api_find_arena(struct vpmm_pool **pool, const void *ptr)
{
	struct tags *tags;
	struct tagged block;

	if (!api_tagged() || api_is_forked())
		return;
	tags = pool_tags(arena_root(*pool));
	if (tags && tags_find(tags, (uintptr_t)ptr, &block))
		*pool = block.pool;
}

/* The log's messages are delivered by the caller, with no lock held. */
static int do_one(struct vpmm_pool *pool, int (*fn)(struct vpmm_pool *pool, void *data), void *data,
		  const char *call, GList **messages)
{
	uint64_t asked = 0;
	int err;

	lock_acquire(&pool->core.lock);
	err = fn(pool, data);
	if (err) {
		error_add(err, "%s", call);
		log_add(&pool->core.log, VPMM_LOG_ERROR, "%s", error_get());
	}
	if (G_UNLIKELY(pool->core.extents.budget))
		asked = pool_budget_end_call(pool);
	*messages = g_list_concat(*messages, log_take(&pool->core.log));
	lock_release(&pool->core.lock);
	api_budget_give(pool, asked);
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
		for_each_arena(arena, pool_tags(pool)) {
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

	err = api_refuse_fork();
	if (!err)
		err = api_resolve(pool, call);
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

int vpmm_tag_stats(struct vpmm_pool *pool, vpmm_tag tag, struct vpmm_tag_stats *stats)
{
	struct vpmm_tag_stats known = { .size = sizeof(known) };
	const char *call = "vpmm_tag_stats";
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
	arena_stats(tags, tag_of(tag), &known);
	sized_export(&sized_tag_stats, stats, &known);
	return 0;
}
