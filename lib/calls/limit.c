// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_pool_set_limit(): the limit of a pool, while it is in use. */
#include <stdatomic.h>

#include "calls/budget.h"
#include "calls/limit.h"
#include "calls/pool.h"
#include "policy/trim.h"
#include "settings/settings.h"

static uint64_t beyond(const struct extent_map *map)
{
	const uint64_t taken = atomic_load(map->taken);

	return taken > map->limit ? taken - map->limit : 0;
}

/* A trim leaves what it is to keep, and perhaps a part of an extent more; so the last extent goes after it. */
static int trim_to_limit(struct core *core)
{
	int err = 0;

	if (beyond(&core->extents))
		err = trim_pool(core, core->extents.limit, NULL);
	if (!err && beyond(&core->extents))
		err = trim_bytes(core, beyond(&core->extents));
	return err;
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
	settings_set_limit(&core->settings, limit, pool_budget_most(core->extents.budget, info.memory_total));
	core->extents.limit = limit;
	return trim_to_limit(core);
}
