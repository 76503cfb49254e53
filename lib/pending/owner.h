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

#endif /* OWNER_H */
