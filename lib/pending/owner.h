/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who had a byte last. It is kept with the memory, not with its address, which may change while it is free, nor with its
 * region, which merges with others. A stream has had what it freed and was allocated by it; nobody has had what is new
 * from the device, what two streams had a part in, or what was freed in any other way. What a stream's cache gives it was
 * its own all the time.
 */
#ifndef OWNER_H
#define OWNER_H

#include <stdbool.h>

struct region;
struct stream;
struct core;

/**
 * owner_note() - a region is about to be freed by a stream
 * @core: the pool's core
 * @region: the region
 * @stream: the stream, which is its owner from then on if the region was allocated for it
 */
void owner_note(struct core *core, const struct region *region, const struct stream *stream);

/**
 * owner_take() - whether a stream had all of a region last
 * @core: the pool's core
 * @region: the region, just allocated
 * @stream: the stream
 *
 * From then on nobody had it last.
 */
bool owner_take(struct core *core, const struct region *region, const struct stream *stream);

#endif /* OWNER_H */
