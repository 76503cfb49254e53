/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much device memory a pool may create: it holds no more than the peak of live bytes. */
#ifndef GROWTH_H
#define GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct region_map;

/**
 * struct growth - the effect of the latest trim
 * @past: the most that was ever live, at the latest trim; a later peak counts only above that
 * @held: bytes that the pool held after that trim; they count until then
 */
struct growth {
	uint64_t past;
	uint64_t held;
};

/**
 * growth_room() - how much more memory the pool may create
 * @core: the pool's core; its lock is held
 * @size: bytes of the request
 *
 * Return: bytes, whole pages.
 */
size_t growth_room(struct core *core, size_t size);

/**
 * growth_room_overlap() - how much more memory the pool may create rather than wait for another stream
 * @core: the pool's core; its lock is held
 * @size: bytes of the request
 *
 * Return: bytes, whole pages; no less than growth_room().
 */
size_t growth_room_overlap(struct core *core, size_t size);

/**
 * growth_most() - how much memory the pool may hold, so that no stream need wait
 * @core: the pool's core; its lock is held
 * @size: bytes of a request that is about to be served, or 0
 *
 * Return: bytes.
 */
uint64_t growth_most(struct core *core, size_t size);

/**
 * growth_note_trim() - the pool was trimmed: the peak so far no longer justifies creating memory
 * @core: the pool's core; its lock is held
 * @released: bytes that the trim has given back; if most of the pool, the worst gaps are forgotten
 */
void growth_note_trim(struct core *core, uint64_t released);

/**
 * growth_allows() - whether the pool may exchange memory for other memory
 * @core: the pool's core; its lock is held
 * @size: bytes of the request
 * @without: bytes that are given back
 * @with: bytes that are created
 */
bool growth_allows(struct core *core, size_t size, size_t without, size_t with);

/**
 * growth_start() - let the pool hold what it is created with
 * @core: the pool's core
 * @size: bytes
 */
void growth_start(struct core *core, size_t size);

/**
 * growth_map() - map new memory into a hole
 * @core: the pool's core, its lock held, its backend entered
 * @map: the map that has the hole
 * @addr: where the memory is mapped; it becomes free there, of no stream
 * @bytes: how much, a multiple of the page size
 * @piece: bytes of each extent, likewise
 *
 * Return: 0, or an error of the backend; then there is as much memory as before.
 */
int growth_map(struct core *core, struct region_map *map, uint64_t addr, size_t bytes, size_t piece);

#endif /* GROWTH_H */
