/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bookkeeping at the start and end of each allocation. */
#ifndef ALLOCATION_H
#define ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct event;
struct order;
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
 * live_wait() - order a stream after the earlier uses of memory that it is about to get
 * @core: the pool's core; its lock is held, its backend entered
 * @order: what it has to wait for
 * @handle: a handle of the stream
 *
 * Return: 0, or an error of the backend.
 */
int live_wait(struct core *core, struct order *order, struct CUstream_st *handle);

/**
 * live_enter() - count a region that was just allocated, and give it a block
 * @core: the pool's core
 * @region: the region
 * @requested: bytes of the request
 *
 * Return: bytes that it leaves free of extents without other allocations.
 */
size_t live_enter(struct core *core, struct region *region, size_t requested);

/**
 * live_hand_out() - tell the backend that a stream has an allocated region from now on
 * @core: the pool's core, its backend entered
 * @region: the region, of the stream
 *
 * For a region that was an allocation before; live_enter() does it for others. The host backend looks whether the
 * library has work pending there that the stream does not come after.
 */
void live_hand_out(const struct core *core, const struct region *region);

/**
 * live_requested() - the size of an allocated region, as requested
 * @region: the region; its stream's cache does not have it
 *
 * Return: bytes.
 */
size_t live_requested(const struct region *region);

/**
 * live_request() - change the size as requested of an allocated region
 * @core: the pool's core
 * @region: the region; its stream's cache neither has it nor may get it meanwhile
 * @requested: bytes
 */
void live_request(struct core *core, struct region *region, size_t requested);

/**
 * live_split() - split an allocation whose free is deferred
 * @core: the pool's core
 * @region: the region, after cache_take(); it keeps the lower part
 * @size: bytes of the lower part, more than 0 and fewer than the region has
 *
 * Return: the upper part, as if it had been allocated and freed by itself.
 */
struct region *live_split(struct core *core, struct region *region, size_t size);

/**
 * live_join() - merge two adjacent allocations whose frees are deferred
 * @core: the pool's core
 * @region: the lower one, after cache_take(), which keeps its stream
 * @upper: the upper one, after cache_take(), gone afterwards; both are in one map
 */
void live_join(struct core *core, struct region *region, struct region *upper);

/**
 * live_hand() - give an allocation whose free is deferred to another stream
 * @core: the pool's core
 * @region: the region, after cache_take()
 * @stream: the stream, which need not wait for any earlier use: it stands for a capture, and where launches of other
 *	graphs are pending that have the memory, too, it is the program that orders them
 */
void live_hand(struct core *core, struct region *region, struct stream *stream);

/**
 * live_end() - free what the program had allocated
 * @core: the pool's core
 * @region: the region, after cache_take()
 * @stream: the stream that freed it
 * @event: the point in the stream after which it is free
 * @covered: whether an event covers all earlier frees by its owner; otherwise it is stranded until then
 */
void live_end(struct core *core, struct region *region, struct stream *stream, struct event *event, bool covered);

/**
 * live_leave() - free a region for the maps that the program does not have: what it had goes through live_end()
 * @core: the pool's core
 * @region: the region, which may have merged with its neighbours afterwards
 * @stream: the stream that freed it
 * @event: the point in the stream after which it is free
 */
void live_leave(struct core *core, struct region *region, struct stream *stream, struct event *event);

#endif /* ALLOCATION_H */
