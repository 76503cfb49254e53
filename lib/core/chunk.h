/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reservations of address space, one chunk at a time; and a chunk as one line of text, as in vpmm_pool_dump(3). */
#ifndef CHUNK_H
#define CHUNK_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

struct chunk;
struct core;
struct region;
struct region_map;
struct stream;

/**
 * chunk_add() - reserve one more chunk
 * @core: the pool's core, its backend entered
 * @map: the region map that gets it
 * @needed: bytes that are needed at least, a multiple of the page size
 * @hole: receives the chunk's one region, unmapped
 *
 * Its size is VPMM_VA_SIZE, or @needed if that is more. Where nobody has set that, it is the default, or less in a
 * process whose pools have reserved much (room_share()), but as much as @map has. If the driver does not have that much
 * (virtual GPUs, WSL), it is halved again and again, down to @needed. Under RLIMIT_AS, room.h says how much may be
 * reserved.
 *
 * Return: 0, -ENOMEM where @needed would leave too little to the rest of the process, or what the backend's reserve
 * returns.
 */
int chunk_add(struct core *core, struct region_map *map, size_t needed, struct region **hole);

/**
 * chunk_add_at() - reserve one more chunk where a plan has it
 * @core: the pool's core, its backend entered
 * @map: the region map that gets it
 * @addr: where it starts, a multiple of the page size
 * @size: bytes, a multiple of the page size
 * @hole: receives the chunk's one region, unmapped
 *
 * Return: 0, -ENOMEM where RLIMIT_AS leaves too little, or what the backend's reserve_at returns.
 */
int chunk_add_at(struct core *core, struct region_map *map, uint64_t addr, size_t size, struct region **hole);

/**
 * chunk_find() - find a hole that is large enough, or reserve one
 * @core: the pool's core, its backend entered
 * @map: the region map
 * @size: bytes, a multiple of the page size
 * @hole: receives the region
 * @added: receives the chunk that was reserved for it; NULL: none was
 *
 * Return: 0, or what the backend's reserve returns.
 */
int chunk_find(struct core *core, struct region_map *map, size_t size, struct region **hole, struct chunk **added);

/**
 * chunk_map() - map extents into a hole, one after another
 * @core: the pool's core, its backend entered
 * @map: the region map of the hole
 * @addr: address of the first, in the hole
 * @extents: of struct extent; what was created for this has no mapping yet
 *
 * The regions are the caller's to update. After a failure nothing has changed: what was created is released, and
 * removed from @extents. If undoing fails, too, what stays mapped is a stray region, not a hole.
 *
 * Return: 0, or what the backend's map and access return.
 */
int chunk_map(struct core *core, struct region_map *map, uint64_t addr, GPtrArray *extents);

/**
 * chunk_drop() - release a chunk that is not needed after all
 * @core: the pool's core, its backend entered
 * @chunk: the chunk; NULL: nothing is done
 *
 * It stays if anything is mapped there, or if the driver fails to release it.
 */
void chunk_drop(struct core *core, struct chunk *chunk);

/**
 * typedef chunk_mapped_fn - called for a run of regions that are not unmapped, by chunk_each_mapped()
 * @core: the pool's core
 * @addr: where the run starts
 * @end: where it ends
 * @data: as given
 */
typedef void chunk_mapped_fn(struct core *core, uint64_t addr, uint64_t end, void *data);

/**
 * chunk_each_mapped() - find the runs of regions that are not unmapped
 * @core: the pool's core
 * @map: the map
 * @each: called for each run, by address; changes no region
 * @data: for @each
 */
void chunk_each_mapped(struct core *core, const struct region_map *map, chunk_mapped_fn *each, void *data);

/**
 * chunk_unreserve() - release all address space of a map, when the pool is destroyed
 * @core: the pool's core, its backend entered; nothing is mapped any more
 * @map: the map
 */
void chunk_unreserve(struct core *core, struct region_map *map);

/**
 * layout_line() - the regions of a chunk
 * @core: the pool's core
 * @chunk: the chunk
 *
 * Return: a line without newline, for g_free().
 */
char *layout_line(const struct core *core, const struct chunk *chunk);

/**
 * layout_say() - log what was done for a block, with the layout of its chunk, at VPMM_LOG_DEBUG
 * @core: the pool's core
 * @chunk: the chunk
 * @what: the verb, in the past
 * @bytes: so many; 0: log nothing
 * @stream: the stream that it was done for
 */
void layout_say(struct core *core, const struct chunk *chunk, const char *what, size_t bytes,
		const struct stream *stream);

#endif /* CHUNK_H */
