/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The last owner of each byte, for VPMM_SCRUB=stream. It is kept with the physical memory: free memory can move to
 * other addresses, and regions merge. A stream owns what it both allocated and freed. Nothing owns memory that is new
 * from the device, or that was freed on another stream or in another way. A block that a cache serves was its stream's
 * own all the time.
 */
#ifndef OWNER_H
#define OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region;
struct stream;
struct core;

/**
 * owner_note() - set the owner of a region that is about to be freed
 * @core: the pool's core
 * @region: the region
 * @stream: the stream that freed it; it becomes the owner if the region was allocated for it
 */
void owner_note(struct core *core, const struct region *region, const struct stream *stream);

/**
 * owner_take() - whether a stream owns all of a region
 * @core: the pool's core
 * @region: the region, just allocated
 * @stream: the stream
 *
 * Clears the owner.
 */
bool owner_take(struct core *core, const struct region *region, const struct stream *stream);

/**
 * owner_lose() - let nobody own memory, as it holds what its owner has not left there
 * @core: the pool's core
 * @addr: where it starts
 * @size: bytes, of which some may no longer be mapped
 */
void owner_lose(struct core *core, uint64_t addr, size_t size);

#endif /* OWNER_H */
