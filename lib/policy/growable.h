/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Growable blocks: address space for the most that they may have is reserved, and memory is mapped from its start on.
 *
 * Such a block consists of whole extents of its own, so that all that it gains and loses can be mapped elsewhere.
 */
#ifndef GROWABLE_H
#define GROWABLE_H

#include <stddef.h>
#include <stdint.h>

struct chunk;
struct core;
struct event;
struct region;
struct request;
struct stream;

/**
 * growable_reserve() - reserve address space for a block
 * @core: the pool's core; its lock is held, its backend entered
 * @max: bytes, whole pages
 * @addr: receives where it starts
 * @added: receives the chunk that was reserved for it, or NULL
 *
 * Return: 0, -ENOMEM, or an error of the backend.
 */
int growable_reserve(struct core *core, size_t max, uint64_t *addr, struct chunk **added);

/**
 * growable_abandon() - undo growable_reserve()
 * @core: the pool's core
 * @addr: where it starts; nothing is allocated there
 * @added: as from growable_reserve()
 */
void growable_abandon(struct core *core, uint64_t addr, struct chunk *added);

/**
 * growable_map() - map free and new extents into reserved address space
 * @core: the pool's core; its lock is held, its backend entered
 * @addr: where the block ends so far, or is to start
 * @request: bytes to map, whole pages, for a stream; @frugal: -ENOMEM was returned before
 * @behind: what else the stream is to be ordered after; NULL: nothing
 * @event: receives a point in the stream behind that and all earlier uses of the memory, with a reference
 *
 * All of it is free then, and the stream is ordered after its earlier uses. Waits on the host where a mapping that the
 * block has lost is in the way and work through it is pending, and under VPMM_REUSE=block.
 *
 * Return: 0, -ENOMEM, or an error of the backend; only the layout of free memory may have changed then.
 */
int growable_map(struct core *core, uint64_t addr, const struct request *request, struct event *behind,
		 struct event **event);

/**
 * growable_extend() - have a block take in what growable_map() has mapped behind it
 * @core: the pool's core
 * @region: the block
 * @more: bytes
 */
void growable_extend(struct core *core, struct region *region, size_t more);

/**
 * growable_least() - the least memory that a block can shrink to: whole extents
 * @core: the pool's core
 * @region: the block
 * @size: bytes that it is to have, not 0
 *
 * Return: bytes, no more than the block has.
 */
size_t growable_least(struct core *core, const struct region *region, size_t size);

/**
 * growable_cut() - free what a block loses, at another address
 * @core: the pool's core; its lock is held, its backend entered
 * @region: the block
 * @size: bytes that it keeps, of growable_least(), fewer than it has
 * @stream: the stream that frees the rest
 * @event: the point in the stream after which it is free
 *
 * Return: 0, or an error of the backend, and the block keeps all.
 */
int growable_cut(struct core *core, struct region *region, size_t size, struct stream *stream, struct event *event);

#endif /* GROWABLE_H */
