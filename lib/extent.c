// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

#include "address.h"
#include "backend.h"
#include "error.h"
#include "extent.h"

/* Creating so many bytes takes much longer than asking whether they are there. */
#define MUCH ((size_t)1 << 30)

/* Performs one operation of the backend, counted and timed. */
#define TIMED(map, counter, op, ...) \
	({ \
		const struct backend_ops *ops_ = (map)->backend->ops; \
		uint64_t start_ = ops_->now((map)->backend); \
		int err_ = ops_->op((map)->backend, __VA_ARGS__); \
		(map)->calls.ns += ops_->now((map)->backend) - start_; \
		(map)->calls.counter++; \
		err_; \
	})

void extent_map_init(struct extent_map *map, struct backend *backend, size_t page_size)
{
	*map = (struct extent_map){ .backend = backend, .page_size = page_size };
	map->active = address_table_new(NULL);
	map->stray = g_ptr_array_new();
}

static void extent_delete(struct extent_map *map, struct extent *extent)
{
	if (TIMED(map, releases, release, extent->handle))
		g_ptr_array_add(map->stray, extent);
	else
		g_free(extent);
}

void extent_map_clear(struct extent_map *map)
{
	GHashTableIter iter;
	gpointer extent;

	g_hash_table_iter_init(&iter, map->active);
	while (g_hash_table_iter_next(&iter, NULL, &extent))
		extent_delete(map, extent);
	/* This is the last try; what the driver does not take back now is lost. */
	for (guint i = 0; i < map->stray->len; i++) {
		struct extent *stray = map->stray->pdata[i];

		TIMED(map, releases, release, stray->handle);
		g_free(stray);
	}
	g_ptr_array_free(map->stray, TRUE);
	g_hash_table_destroy(map->active);
}

int extent_create(struct extent_map *map, size_t size, GPtrArray *extents)
{
	guint first = extents->len;
	struct backend_info info;
	uint64_t handle;
	int err;

	/* Taking all that there is, only to give it back, holds up others that share the device. */
	if (size >= MUCH) {
		err = map->backend->ops->info(map->backend, &info);
		if (err)
			return err;
		if (info.memory_free < size)
			return error_set(-ENOMEM, "device memory: %zu bytes needed, %" G_GUINT64_FORMAT " free", size,
					 info.memory_free);
	}
	for (size_t done = 0; done < size; done += map->page_size) {
		struct extent *extent;

		err = TIMED(map, creates, create, map->page_size, &handle);
		if (err)
			goto err_release;
		extent = g_new0(struct extent, 1);
		extent->size = map->page_size;
		extent->handle = handle;
		g_ptr_array_add(extents, extent);
	}
	return 0;

err_release:
	extent_release(map, extents, first);
	return err;
}

void extent_release(struct extent_map *map, GPtrArray *extents, guint first)
{
	struct error_kept kept;

	error_keep(&kept);
	for (guint i = first; i < extents->len; i++)
		extent_delete(map, extents->pdata[i]);
	error_restore(&kept);
	g_ptr_array_set_size(extents, first);
}

void extent_collect(struct extent_map *map, uint64_t addr, size_t size, GPtrArray *extents)
{
	uint64_t end = addr + size;

	while (addr < end) {
		struct extent *extent = g_hash_table_lookup(map->active, &addr);

		g_ptr_array_add(extents, extent);
		addr += extent->size;
	}
}

int extent_map_at(struct extent_map *map, uint64_t addr, GPtrArray *extents, size_t *left)
{
	struct error_kept kept;
	size_t mapped = 0;
	int err = 0;

	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		err = TIMED(map, maps, map, addr + mapped, extent->size, extent->handle);
		if (err)
			goto err_unmap;
		mapped += extent->size;
	}
	err = TIMED(map, accesses, access, addr, mapped);
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	error_keep(&kept);
	*left = mapped && extent_unmap(map, addr, mapped, NULL) ? mapped : 0;
	error_restore(&kept);
	return err;
}

void extent_settle(struct extent_map *map, uint64_t addr, GPtrArray *extents)
{
	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		/* One that was just created is not active yet, and removes nothing. */
		if (g_hash_table_lookup(map->active, &extent->addr) == extent)
			g_hash_table_remove(map->active, &extent->addr);
		extent->addr = addr;
		g_hash_table_insert(map->active, &extent->addr, extent);
		addr += extent->size;
	}
}

int extent_unmap(struct extent_map *map, uint64_t addr, size_t size, struct backend_event *guard)
{
	return TIMED(map, unmaps, unmap, addr, size, guard);
}
