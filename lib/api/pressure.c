// SPDX-License-Identifier: LGPL-2.1-or-later
/* Who is asked when memory has run out: other pools of a budget, then shared ranges, then the program. */
#include <stdbool.h>

#include "api/api.h"
#include "calls/shared.h"
#include "util/error.h"

/* Set while the program is asked for memory: what it allocates meanwhile fails without asking again. */
static _Thread_local bool asking;

bool api_ask_for_memory(struct vpmm_pool *pool, size_t size, uint64_t *until)
{
	const struct settings *settings = &pool->core.settings;
	struct error_kept kept;
	bool given;

	if (asking)
		return false;
	if (api_budget_ask(pool, size, until))
		return true;
	if (pool_shared_give(pool, size))
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

bool api_ask_to_serve(struct vpmm_pool *pool, size_t size, uint64_t *until)
{
	bool could;

	lock_acquire(&pool->core.lock);
	could = size <= pool->core.settings.most;
	lock_release(&pool->core.lock);
	return could && api_ask_for_memory(pool, size, until);
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
	settings->exhausted(settings->pressure_data, pool, size, kept.sentence);
	asking = false;
	error_restore(&kept);
}
