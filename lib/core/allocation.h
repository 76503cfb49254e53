/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bookkeeping at the start and end of each allocation. */
#ifndef ALLOCATION_H
#define ALLOCATION_H

#include <stdint.h>

struct event;
struct region;
struct stream;
struct core;

/**
 * live_find() - the allocation that starts at an address, in either map
 * @core: the pool's core
 * @addr: its exact start
 *
 * Return: the region, or NULL.
 */
struct region *live_find(struct core *core, uint64_t addr);

/**
 * live_enter() - count a region that was just allocated, and give it a block
 * @core: the pool's core
 * @region: the region
 */
void live_enter(struct core *core, struct region *region);

/**
 * live_leave() - free an allocated region for the maps
 * @core: the pool's core
 * @region: the region, which may have merged with its neighbours afterwards
 * @stream: the stream that freed it
 * @event: the point in the stream after which it is free
 */
void live_leave(struct core *core, struct region *region, struct stream *stream, struct event *event);

#endif /* ALLOCATION_H */
