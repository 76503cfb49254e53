// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "budget/budget.h"
#include "calls/budget.h"
#include "calls/pool.h"
#include "core/account.h"
#include "pending/pending.h"
#include "policy/trim.h"
#include "settings/settings.h"
#include "util/error.h"

_Static_assert(BUDGET_UUID == BACKEND_UUID_SIZE, "the file of a budget has the device's UUID in its name");

/* Bytes of the largest request that a device with so much memory could ever serve. */
static uint64_t largest_ever(const struct budget *budget, uint64_t memory)
{
	return budget ? MIN(memory, budget_size(budget)) : memory;
}

int pool_budget_join(struct settings *settings, const struct backend_info *info, struct budget **budget)
{
	struct budget_terms terms = {
		.name = settings->budget,
		.floor = settings->budget_floor,
		.weight = (unsigned int)settings->budget_weight,
		.memory = info->memory_total,
	};
	int err;

	if (!settings->budget)
		return 0;
	memcpy(terms.uuid, info->uuid, sizeof(terms.uuid));
	err = budget_join(&terms, budget);
	if (err)
		return err;
	settings->budget = budget_text(*budget);
	settings_set_limit(settings, settings->limit, largest_ever(*budget, info->memory_total));
	return 0;
}

uint64_t pool_budget_give(struct vpmm_pool *pool, uint64_t bytes)
{
	struct core *core = &pool->core;
	uint64_t before = extent_taken(&core->extents), mapped = core_mapped(core), given;
	struct error_kept kept;

	lock_assert_held(&core->lock);
	error_keep(&kept);
	pending_collect(&pool->pending);
	trim_pool(core, mapped > bytes ? mapped - bytes : 0, NULL);
	given = before - MIN(before, extent_taken(&core->extents));
	/* A trim leaves what it is to keep, and perhaps a part of an extent more. */
	if (given < bytes)
		trim_bytes(core, bytes - given);
	error_restore(&kept);
	return before - MIN(before, extent_taken(&core->extents));
}

uint64_t pool_budget_end_call(struct vpmm_pool *pool)
{
	struct budget *budget = pool->core.extents.budget;
	uint64_t bytes, given = 0;

	lock_assert_held(&pool->core.lock);
	bytes = budget_is_asked(budget) ? budget_asked(budget) : 0;
	if (bytes)
		given = pool_budget_give(pool, bytes);
	account_tell(&pool->core);
	if (given < bytes)
		return bytes - given;
	if (bytes)
		budget_answer(budget);
	return 0;
}

int pool_budget_check(const struct core *core)
{
	const struct extent_map *extents = &core->extents;
	uint64_t taken;

	if (!extents->budget)
		return 0;
	taken = budget_taken(extents->budget, &extents->part);
	if (taken == extent_taken(extents))
		return 0;
	return error_set(-EUCLEAN, "the pool has %" PRIu64 " bytes, but %" PRIu64 " of the budget",
			 extent_taken(extents), taken);
}

void pool_budget_leave(struct vpmm_pool *pool)
{
	struct extent_map *extents = &pool->core.extents;

	if (!extents->budget)
		return;
	budget_tell(extents->budget, &extents->part, 0, 0);
	if (!pool->arena)
		budget_leave(extents->budget);
}

void pool_budget_count(const struct core *core, struct vpmm_stats *stats)
{
	struct budget *budget = core->extents.budget;

	if (!budget)
		return;
	stats->budget_size = budget_size(budget);
	stats->budget_left = budget_room(budget, &core->extents.part, extent_taken(&core->extents));
	stats->budget_idle = budget_idle(budget);
}

static uint64_t beyond(const struct extent_map *map)
{
	const uint64_t taken = atomic_load(map->taken);

	return taken > map->limit ? taken - map->limit : 0;
}

/* A trim leaves what it is to keep, and perhaps a part of an extent more; so the last extent goes after it. */
static int trim_to_limit(struct vpmm_pool *pool)
{
	struct core *core = &pool->core;
	int err = 0;

	if (beyond(&core->extents))
		pending_collect(&pool->pending);
	if (beyond(&core->extents))
		err = trim_pool(core, core->extents.limit, NULL);
	if (!err && beyond(&core->extents))
		err = trim_bytes(core, beyond(&core->extents));
	return err;
}

bool limit_is_exceeded(struct vpmm_pool *pool)
{
	bool exceeded;

	lock_acquire(&pool->core.lock);
	exceeded = beyond(&pool->core.extents);
	lock_release(&pool->core.lock);
	return exceeded;
}

int limit_set(struct vpmm_pool *pool, size_t bytes)
{
	const uint64_t limit = bytes ? bytes : UINT64_MAX;
	struct core *core = &pool->core;
	struct backend_info info;
	int err;

	lock_assert_held(&core->lock);
	err = core->backend->ops->info(core->backend, &info);
	if (err)
		return err;
	settings_set_limit(&core->settings, limit, largest_ever(core->extents.budget, info.memory_total));
	core->extents.limit = limit;
	return trim_to_limit(pool);
}
