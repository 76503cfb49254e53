/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Address space, reserved a chunk at a time. */
#ifndef CHUNK_H
#define CHUNK_H

#include <stddef.h>

struct chunk;
struct region;
struct region_map;
struct core;

/**
 * chunk_add() - reserve one more chunk
 * @core: the pool's core, its backend entered
 * @map: which of its region maps it is for
 * @needed: bytes that it must have, a multiple of the page size
 * @hole: receives the chunk's one region
 *
 * It has the size that is set, or @needed if that is more. Where so much address space is not to be had (virtual GPUs,
 * WSL), half as much will often do, down to @needed. Where RLIMIT_AS says how much there is, room.h says how much of it
 * is taken.
 *
 * Return: 0, -ENOMEM where @needed would leave too little to the rest of the process, or what the backend's reserve
 * returns.
 */
int chunk_add(struct core *core, struct region_map *map, size_t needed, struct region **hole);

/**
 * chunk_find() - a hole that is large enough, in a new chunk if need be
 * @core: the pool's core, its backend entered
 * @map: likewise
 * @size: bytes, a multiple of the page size
 * @hole: receives the region
 *
 * Return: 0, or what the backend's reserve returns.
 */
int chunk_find(struct core *core, struct region_map *map, size_t size, struct region **hole);

/**
 * chunk_drop() - give back a chunk that was reserved in vain
 * @core: the pool's core, its backend entered
 * @chunk: the chunk, one unmapped region
 *
 * It stays where the driver does not take it back.
 */
void chunk_drop(struct core *core, struct chunk *chunk);

/**
 * chunk_unreserve() - give all address space of a map back, when the pool goes
 * @core: the pool's core, its backend entered; nothing is mapped any more
 * @map: the map
 */
void chunk_unreserve(struct core *core, struct region_map *map);

#endif /* CHUNK_H */
