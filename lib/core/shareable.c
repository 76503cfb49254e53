// SPDX-License-Identifier: LGPL-2.1-or-later
/* Creates, imports, maps and releases the memory of blocks that several processes have. */
#include <errno.h>
#include <inttypes.h>

#include "core/account.h"
#include "core/core.h"
#include "core/extent.h"
#include "core/shareable.h"
#include "util/error.h"
#include "util/room.h"

/* Bytes of the pool's own memory count for the limit; another process's do not. */
static void count_shareable(struct core *core, const struct shareable *it, bool more)
{
	uint64_t *sum = it->imported ? &core->imported : &core->shareable;

	*sum = more ? *sum + it->bytes : *sum - it->bytes;
	core_count_apart(core);
}

/* Makes the structure, for memory that counts from now on. */
static struct shareable *new_shareable(struct core *core, uint64_t bytes, unsigned int handles, bool imported)
{
	struct shareable *it = g_new0(struct shareable, 1);

	it->bytes = bytes;
	it->handles = g_new(uint64_t, handles);
	it->sizes = g_new(uint64_t, handles);
	it->imported = imported;
	it->counted = true;
	count_shareable(core, it, true);
	return it;
}

void shareable_free(struct shareable *it)
{
	if (!it)
		return;
	g_free(it->handles);
	g_free(it->sizes);
	g_free(it);
}

static void add_handle(struct shareable *it, uint64_t handle, uint64_t bytes)
{
	it->handles[it->count] = handle;
	it->sizes[it->count] = bytes;
	it->count++;
}

/* Addresses that the driver does not take back are no reason to keep the block. */
static void unreserve_shareable(struct core *core, struct shareable *it)
{
	struct error_kept kept;

	error_keep(&kept);
	if (core->backend->ops->unreserve(core->backend, it->addr, it->bytes)) {
		struct shareable *stray = g_memdup2(it, sizeof(*it));

		stray->handles = stray->sizes = NULL;
		g_ptr_array_add(core->strays, stray);
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
	it->mapped = 0;
	/* Others may need the memory more than the addresses. */
	while (it->count) {
		err = TIMED(&core->extents, releases, release, it->handles[it->count - 1]);
		if (err)
			return err;
		it->count--;
	}
	if (it->counted) {
		count_shareable(core, it, false);
		core->extents.given_back += it->grown ? it->bytes : 0;
	}
	it->counted = false;
	if (it->reserved)
		unreserve_shareable(core, it);
	return 0;
}

/* Try again to give back what the driver did not take when a call failed. */
static void shareable_retry(struct core *core)
{
	struct error_kept kept;

	error_keep(&kept);
	for (guint i = core->strays->len; i > 0; i--) {
		if (!shareable_release(core, core->strays->pdata[i - 1]))
			shareable_free(g_ptr_array_remove_index_fast(core->strays, i - 1));
	}
	error_restore(&kept);
}

void shareable_clear(struct core *core)
{
	lock_acquire(&core->lock);
	shareable_retry(core);
	shareable_retry(core);
	lock_release(&core->lock);
	g_ptr_array_set_free_func(core->strays, (GDestroyNotify)shareable_free);
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

	for (unsigned int i = 0; !err && i < it->count; i++) {
		err = TIMED(&core->extents, maps, map, it->addr + it->mapped, it->sizes[i], it->handles[i]);
		it->mapped += err ? 0 : it->sizes[i];
	}
	if (err)
		return err;
	return TIMED(&core->extents, accesses, access, it->addr, it->bytes);
}

static void drop(struct core *core, struct shareable *it)
{
	struct error_kept kept;

	error_keep(&kept);
	if (shareable_release(core, it))
		g_ptr_array_add(core->strays, it);
	else
		shareable_free(it);
	error_restore(&kept);
}

/* Maps what has a handle, or gives it all back. */
static int map_or_drop(struct core *core, struct shareable *it)
{
	int err = map_shareable(core, it);

	if (err)
		drop(core, it);
	return err;
}

size_t shareable_bytes(const struct core *core, size_t size)
{
	return (size + core->granularity - 1) / core->granularity * core->granularity;
}

int shareable_create(struct core *core, size_t size, struct shareable **made)
{
	size_t bytes = shareable_bytes(core, size);
	struct shareable *it;
	uint64_t handle;
	int err;

	lock_assert_held(&core->lock);
	shareable_retry(core);
	err = extent_judge(&core->extents, bytes, bytes);
	if (err)
		return err;
	it = new_shareable(core, bytes, 1, false);
	err = extent_judge_counted(&core->extents, bytes);
	if (!err)
		err = TIMED(&core->extents, creates, create_export, bytes, &handle);
	if (err) {
		drop(core, it);
		return err;
	}
	add_handle(it, handle, bytes);
	err = map_or_drop(core, it);
	if (err)
		return err;
	*made = it;
	it->grown = true;
	counts_add_grown(&core->counts, bytes);
	account_note_taken(core);
	return 0;
}

static int import_handles(struct core *core, const struct shareable_import *from, struct shareable *it)
{
	uint64_t handle;
	int err;

	for (unsigned int i = 0; i < from->count; i++) {
		err = core->backend->ops->import(core->backend, &from->parts[i], from->sizes[i], &handle);
		if (err)
			return err;
		add_handle(it, handle, from->sizes[i]);
	}
	return 0;
}

int shareable_import(struct core *core, const struct shareable_import *from, struct shareable **made)
{
	struct shareable *it;
	uint64_t bytes = 0;
	int err;

	lock_assert_held(&core->lock);
	shareable_retry(core);
	for (unsigned int i = 0; i < from->count; i++)
		bytes += from->sizes[i];
	it = new_shareable(core, bytes, from->count, true);
	it->offset = from->offset;
	err = import_handles(core, from, it);
	if (err) {
		drop(core, it);
		return err;
	}
	err = map_or_drop(core, it);
	if (!err)
		*made = it;
	return err;
}
