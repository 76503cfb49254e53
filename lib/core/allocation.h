/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is allocated, and what the rest of the pool has to know when something is, or no longer is. */
#ifndef ALLOCATION_H
#define ALLOCATION_H

#include <stdint.h>

struct event;
struct region;
struct stream;
struct core;

/**
 * live_find() - the allocation at an address, of whichever size
 * @core: the pool's core
 * @addr: exactly where it starts
 *
 * Return: the region, or NULL.
 */
struct region *live_find(struct core *core, uint64_t addr);

/**
 * live_enter() - a region is allocated now
 * @core: the pool's core
 * @region: the region
 */
void live_enter(struct core *core, struct region *region);

/**
 * live_leave() - it no longer is
 * @core: the pool's core
 * @region: the region, which becomes free and may be one with its neighbours afterwards
 * @stream: the stream that has freed it
 * @event: the point in the stream after which it is free
 */
void live_leave(struct core *core, struct region *region, struct stream *stream, struct event *event);

#endif /* ALLOCATION_H */
