/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Physical memory: what the pool has created, and where it is mapped. This is the only room that creates, maps, unmaps
 * and releases, so it counts and times those calls. All of it is under the lock of the pool.
 */
#ifndef EXTENT_H
#define EXTENT_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

struct backend;
struct backend_event;

/**
 * struct extent - one handle, the smallest thing that can move
 * @addr: where it is mapped; while it is mapped twice, the newer place
 * @size: bytes, a page
 * @handle: the driver's
 */
struct extent {
	uint64_t addr;
	size_t size;
	uint64_t handle;
};

/* Driver calls, and the nanoseconds spent in them. */
struct extent_calls {
	uint64_t creates;
	uint64_t maps;
	uint64_t accesses;
	uint64_t unmaps;
	uint64_t releases;
	uint64_t ns;
};

/**
 * struct extent_map - all extents of a pool
 * @backend: the device
 * @page_size: bytes of an extent
 * @active: address to extent
 * @stray: extents that are mapped nowhere, and that the driver did not take back when asked to
 * @calls: what was asked of the driver
 */
struct extent_map {
	struct backend *backend;
	size_t page_size;
	GHashTable *active;
	GPtrArray *stray;
	struct extent_calls calls;
};

void extent_map_init(struct extent_map *map, struct backend *backend, size_t page_size);

/**
 * extent_map_clear() - release every extent
 * @map: the map; nothing is mapped any more
 */
void extent_map_clear(struct extent_map *map);

/**
 * extent_create() - create device memory, mapped nowhere yet
 * @map: the map
 * @size: bytes, a multiple of the page size
 * @extents: receives the extents, of struct extent, added at the end
 *
 * Return: 0, or what the backend's create returns; @extents is as before then.
 */
int extent_create(struct extent_map *map, size_t size, GPtrArray *extents);

/**
 * extent_release() - release extents that are mapped nowhere, and not active; never fails
 * @map: the map
 * @extents: of struct extent
 * @first: index of the first of them; the rest are released and removed from the array
 */
void extent_release(struct extent_map *map, GPtrArray *extents, guint first);

/**
 * extent_collect() - the extents that are active in a range
 * @map: the map
 * @addr: where it starts
 * @size: bytes
 * @extents: receives them in the order of their addresses, added at the end
 */
void extent_collect(struct extent_map *map, uint64_t addr, size_t size, GPtrArray *extents);

/**
 * extent_map_at() - map extents one after another, readable and writable
 * @map: the map
 * @addr: where the first goes
 * @extents: of struct extent
 * @left: receives, when this fails, how many bytes at @addr are mapped all the same, as undoing it failed too
 *
 * They stay mapped where they were, and their addresses stay as they are, until extent_settle().
 *
 * Return: 0, or what the backend's map and access return.
 */
int extent_map_at(struct extent_map *map, uint64_t addr, GPtrArray *extents, size_t *left);

/**
 * extent_settle() - let the place where extents were mapped last be their address
 * @map: the map
 * @addr: as given to extent_map_at()
 * @extents: likewise
 */
void extent_settle(struct extent_map *map, uint64_t addr, GPtrArray *extents);

/**
 * extent_unmap() - unmap a range
 * @map: the map
 * @addr: where it starts
 * @size: bytes
 * @guard: the event that must have passed; NULL: none
 *
 * Return: 0, or what the backend's unmap returns.
 */
int extent_unmap(struct extent_map *map, uint64_t addr, size_t size, struct backend_event *guard);

#endif /* EXTENT_H */
