// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks outside of the region maps. */
#include "core/account.h"
#include "core/core.h"
#include "core/shareable.h"
#include "core/small.h"
#include "core/stream.h"
#include "util/address.h"

static void small_delete(gpointer data)
{
	struct small *small = data;

	event_unref(small->event);
	shareable_free(small->shareable);
	g_free(small);
}

GHashTable *small_table_new(void)
{
	return address_table_new(small_delete);
}

static struct small *add_small(struct core *core, uint64_t addr, size_t size)
{
	struct small *small = g_new0(struct small, 1);

	lock_assert_held(&core->lock);
	small->addr = addr;
	small->size = size;
	g_hash_table_insert(core->small, &small->addr, small);
	address_add(&core->owner, &small->known, addr, size);
	account_enter(&core->account, 0, size);
	return small;
}

void small_count(struct core *core, uint64_t more)
{
	lock_assert_held(&core->lock);
	core->small_live += more;
	core_count_apart(core);
}

void small_add(struct core *core, uint64_t addr, size_t size)
{
	add_small(core, addr, size);
}

void small_add_shareable(struct core *core, struct shareable *shareable, size_t size)
{
	add_small(core, shareable->addr + shareable->offset, size)->shareable = shareable;
}

struct small *small_find(struct core *core, uint64_t addr)
{
	struct small *small = g_hash_table_lookup(core->small, &addr);

	lock_assert_held(&core->lock);
	return small && !small->held ? small : NULL;
}

void small_set_event(struct small *small, struct event *event)
{
	event_ref(event);
	event_unref(small->event);
	small->event = event;
}

int small_release(struct core *core, struct small *small, struct CUstream_st *handle)
{
	int err;

	lock_assert_held(&core->lock);
	/* Another pool may get the addresses as soon as they are given back. */
	address_remove(&small->known);
	if (small->shareable)
		err = shareable_release(core, small->shareable);
	else
		err = core->backend->ops->small_free(core->backend, small->addr, handle);
	if (err)
		address_add(&core->owner, &small->known, small->addr, small->size);
	return err;
}

void small_forget(struct core *core, const struct small *small)
{
	lock_assert_held(&core->lock);
	if (!small->shareable)
		core->small_live -= small->size;
	core_count_apart(core);
	account_leave(&core->account, 0, small->size);
	g_hash_table_remove(core->small, &small->addr);
}
