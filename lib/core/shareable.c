// SPDX-License-Identifier: LGPL-2.1-or-later
/* Creates, imports, maps and releases the memory of blocks that several processes have. */
#include <errno.h>
#include <inttypes.h>

#include "core/account.h"
#include "core/core.h"
#include "core/shareable.h"
#include "core/timed.h"
#include "util/error.h"
#include "util/room.h"

/* Bytes of the pool's own memory count for the limit; another process's do not. */
static void count_shareable(struct core *core, const struct shareable *it, bool more)
{
	uint64_t *sum = it->imported ? &core->imported : &core->shareable;

	*sum = more ? *sum + it->bytes : *sum - it->bytes;
	core_count_apart(core);
}

static void created(struct core *core, struct shareable *it)
{
	it->created = true;
	count_shareable(core, it, true);
}

/* Addresses that the driver does not take back are no reason to keep the block. */
static void unreserve_shareable(struct core *core, struct shareable *it)
{
	struct error_kept kept;

	error_keep(&kept);
	if (core->backend->ops->unreserve(core->backend, it->addr, it->bytes)) {
		g_ptr_array_add(core->strays, g_memdup2(it, sizeof(*it)));
		error_restore(&kept);
	} else {
		room_sub(it->bytes);
	}
	it->reserved = false;
}

int shareable_release(struct core *core, struct shareable *it)
{
	int err = 0;

	lock_assert_held(&core->lock);
	if (it->mapped) {
		extent_tell(&core->extents, it->addr, it->bytes);
		err = TIMED(&core->extents, unmaps, unmap, it->addr, it->bytes, NULL);
	}
	if (err)
		return err;
	it->mapped = false;
	/* Others may need the memory more than the addresses. */
	if (it->created)
		err = TIMED(&core->extents, releases, release, it->handle);
	if (err)
		return err;
	if (it->created) {
		count_shareable(core, it, false);
		core->extents.given_back += it->grown ? it->bytes : 0;
	}
	it->created = false;
	if (it->reserved)
		unreserve_shareable(core, it);
	return 0;
}

void shareable_retry(struct core *core)
{
	struct error_kept kept;

	error_keep(&kept);
	for (guint i = core->strays->len; i > 0; i--) {
		if (!shareable_release(core, core->strays->pdata[i - 1]))
			g_free(g_ptr_array_remove_index_fast(core->strays, i - 1));
	}
	error_restore(&kept);
}

void shareable_clear(struct core *core)
{
	lock_acquire(&core->lock);
	shareable_retry(core);
	shareable_retry(core);
	lock_release(&core->lock);
	g_ptr_array_set_free_func(core->strays, g_free);
	g_ptr_array_free(core->strays, TRUE);
}

static int reserve_shareable(struct core *core, struct shareable *it)
{
	int err = room_check(it->bytes, false);

	if (!err)
		err = core->backend->ops->reserve(core->backend, it->bytes, core->granularity, &it->addr);
	if (err)
		return error_add(err, "reserving %" PRIu64 " bytes of address space", it->bytes);
	room_add(it->bytes);
	it->reserved = true;
	return 0;
}

static int map_shareable(struct core *core, struct shareable *it)
{
	int err = reserve_shareable(core, it);

	if (!err)
		err = TIMED(&core->extents, maps, map, it->addr, it->bytes, it->handle);
	if (err)
		return err;
	it->mapped = true;
	return TIMED(&core->extents, accesses, access, it->addr, it->bytes);
}

/* Maps what has a handle, or gives it all back. */
static int map_or_drop(struct core *core, struct shareable *it)
{
	struct error_kept kept;
	int err = map_shareable(core, it);

	if (!err)
		return 0;
	error_keep(&kept);
	if (shareable_release(core, it))
		g_ptr_array_add(core->strays, it);
	else
		g_free(it);
	error_restore(&kept);
	return err;
}

int shareable_create(struct core *core, size_t size, struct shareable **made)
{
	size_t bytes = (size + core->granularity - 1) / core->granularity * core->granularity;
	struct shareable *it;
	uint64_t handle;
	int err;

	lock_assert_held(&core->lock);
	shareable_retry(core);
	err = extent_judge(&core->extents, bytes, bytes);
	if (!err)
		err = TIMED(&core->extents, creates, create_export, bytes, &handle);
	if (err)
		return err;
	it = g_new0(struct shareable, 1);
	it->bytes = bytes;
	it->handle = handle;
	created(core, it);
	err = map_or_drop(core, it);
	if (err)
		return err;
	*made = it;
	it->grown = true;
	core->counts.grows++;
	core->counts.grown += bytes;
	account_note_taken(core);
	return 0;
}

int shareable_import(struct core *core, const struct backend_export *export, uint64_t bytes, struct shareable **made)
{
	struct shareable *it;
	uint64_t handle;
	int err;

	lock_assert_held(&core->lock);
	shareable_retry(core);
	err = core->backend->ops->import(core->backend, export, bytes, &handle);
	if (err)
		return err;
	it = g_new0(struct shareable, 1);
	it->bytes = bytes;
	it->handle = handle;
	it->imported = true;
	created(core, it);
	err = map_or_drop(core, it);
	if (!err)
		*made = it;
	return err;
}
