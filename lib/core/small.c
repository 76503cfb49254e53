// SPDX-License-Identifier: LGPL-2.1-or-later
/* Requests below a page that the driver's stream-ordered allocator serves. */
#include "core/account.h"
#include "core/core.h"
#include "core/small.h"

void small_add(struct core *core, uint64_t addr, size_t size)
{
	struct small *small = g_new0(struct small, 1);

	lock_assert_held(&core->lock);
	small->addr = addr;
	small->size = size;
	g_hash_table_insert(core->small, &small->addr, small);
	core->small_live += size;
	core->extents.apart = core->small_live;
	account_enter(&core->account, 0, size);
}

struct small *small_find(struct core *core, uint64_t addr)
{
	struct small *small = g_hash_table_lookup(core->small, &addr);

	lock_assert_held(&core->lock);
	return small && !small->held ? small : NULL;
}

void small_forget(struct core *core, const struct small *small)
{
	lock_assert_held(&core->lock);
	core->small_live -= small->size;
	core->extents.apart = core->small_live;
	account_leave(&core->account, 0, small->size);
	g_hash_table_remove(core->small, &small->addr);
}
