// SPDX-License-Identifier: LGPL-2.1-or-later
/* Who is asked when memory has run out: other pools of a budget, then shared ranges, then the program. */
#include <stdbool.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/shared.h"
#include "core/account.h"
#include "pending/pending.h"
#include "policy/trim.h"
#include "util/cancel.h"
#include "util/error.h"

/* Set while the program is asked for memory: what it allocates meanwhile fails without asking again. */
static _Thread_local bool asking;

/*
 * Whether a pool that is not under way to another state gave any of its free memory. What the driver had not taken back
 * before, and now does, is given as well.
 */
static bool trim_all(struct vpmm_pool *pool)
{
	struct core *core = &pool->core;
	uint64_t before = extent_taken(&core->extents);

	if (core->resting)
		return false;
	trim_pool(core, 0, NULL);
	if (extent_taken(&core->extents) >= before && !pending_await_device(&pool->pending, true))
		trim_pool(core, 0, NULL);
	account_tell(core);
	return extent_taken(&core->extents) < before;
}

/* The pool and its arenas have the same limit, and the same device. One lock at a time. */
static bool arenas_give(struct vpmm_pool *pool)
{
	struct vpmm_pool *root = arena_root(pool);
	struct tags *tags = pool_tags(root);
	struct backend *be = root->core.backend;
	bool given = false;

	if (!tags || be->ops->enter(be))
		return false;
	if (pool != root) {
		lock_acquire(&root->core.lock);
		given = trim_all(root);
		lock_release(&root->core.lock);
	}
	for_each_arena(arena, tags) {
		if (arena == pool)
			continue;
		lock_acquire(&arena->core.lock);
		given |= trim_all(arena);
		lock_release(&arena->core.lock);
	}
	be->ops->leave(be);
	return given;
}

static bool arenas_give_kept(struct vpmm_pool *pool)
{
	int cancel = cancel_hold();
	struct error_kept kept;
	bool given;

	error_keep(&kept);
	given = arenas_give(pool);
	error_restore(&kept);
	cancel_release(cancel);
	return given;
}

/* @ranges: shared ranges give, too. */
static bool ask_all(struct vpmm_pool *pool, size_t size, bool ranges, uint64_t *until)
{
	const struct settings *settings = &pool->core.settings;
	struct error_kept kept;
	bool given;

	if (asking)
		return false;
	if (arenas_give_kept(pool))
		return true;
	if (api_budget_ask(pool, size, until))
		return true;
	pool = arena_root(pool);
	if (ranges && pool_shared_give(pool, size))
		return true;
	if (!settings->pressure)
		return false;
	error_keep(&kept);
	asking = true;
	given = settings->pressure(settings->pressure_data, pool, size);
	asking = false;
	error_restore(&kept);
	return given;
}

bool api_ask_for_memory(struct vpmm_pool *pool, size_t size, uint64_t *until)
{
	return ask_all(pool, size, true, until);
}

static bool could_serve(struct vpmm_pool *pool, size_t size)
{
	bool could;

	lock_acquire(&pool->core.lock);
	could = size <= pool->core.settings.most;
	lock_release(&pool->core.lock);
	return could;
}

bool api_ask_within_limit(struct vpmm_pool *pool, size_t size, uint64_t *until)
{
	return could_serve(pool, size) && api_ask_for_memory(pool, size, until);
}

/* Ranges would give the pages that the call has brought to the device. What others had to give they have given. */
bool api_ask_for_pages(struct vpmm_pool *pool, size_t size, size_t missing, uint64_t *until)
{
	return could_serve(pool, size) && ask_all(pool, missing, false, until);
}

void api_tell_exhausted(struct vpmm_pool *pool, size_t size)
{
	const struct settings *settings = &pool->core.settings;
	struct error_kept kept;

	api_dump_exhausted(pool, size);
	if (!settings->exhausted || asking)
		return;
	error_keep(&kept);
	asking = true;
	settings->exhausted(settings->pressure_data, arena_root(pool), size, kept.sentence);
	asking = false;
	error_restore(&kept);
}
