/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reservations of address space, one chunk at a time. */
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
 * @map: the region map that gets it
 * @needed: bytes that are needed at least, a multiple of the page size
 * @hole: receives the chunk's one region, unmapped
 *
 * Its size is VPMM_VA_SIZE, or @needed if that is more. If the driver does not have that much (virtual GPUs, WSL), it
 * is halved again and again, down to @needed. Under RLIMIT_AS, room.h says how much may be reserved.
 *
 * Return: 0, -ENOMEM where @needed would leave too little to the rest of the process, or what the backend's reserve
 * returns.
 */
int chunk_add(struct core *core, struct region_map *map, size_t needed, struct region **hole);

/**
 * chunk_find() - find a hole that is large enough, or reserve one
 * @core: the pool's core, its backend entered
 * @map: the region map
 * @size: bytes, a multiple of the page size
 * @hole: receives the region
 *
 * Return: 0, or what the backend's reserve returns.
 */
int chunk_find(struct core *core, struct region_map *map, size_t size, struct region **hole);

/**
 * chunk_drop() - release a chunk that is not needed after all
 * @core: the pool's core, its backend entered
 * @chunk: the chunk, which is one unmapped region
 *
 * It stays if the driver fails to release it.
 */
void chunk_drop(struct core *core, struct chunk *chunk);

/**
 * chunk_unreserve() - release all address space of a map, when the pool is destroyed
 * @core: the pool's core, its backend entered; nothing is mapped any more
 * @map: the map
 */
void chunk_unreserve(struct core *core, struct region_map *map);

#endif /* CHUNK_H */
