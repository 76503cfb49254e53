/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Slabs: pages for small requests only. Small blocks live longest, and each would pin an extent. */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region;
struct stream;
struct core;

/**
 * span_borrow() - serve a small request from pinned memory
 * @core: the pool's core; its lock is held
 * @stream: the stream that wants it, without a wait
 * @size: bytes of the request
 *
 * Free memory in an extent that cannot be remapped, and too small to be of other use, is lent until it is free as a
 * whole again.
 *
 * Return: a free region of at least @size bytes, in the map of slabs; or NULL.
 */
struct region *span_borrow(struct core *core, struct stream *stream, size_t size);

/**
 * span_may_borrow() - whether the pool is small enough to serve small requests from pinned memory of large ones
 * @core: the pool's core
 */
bool span_may_borrow(const struct core *core);

/**
 * span_can_borrow() - whether span_borrow() would find anything
 * @core: the pool's core; its lock is held
 * @stream: as for span_borrow()
 * @size: as for span_borrow()
 */
bool span_can_borrow(struct core *core, struct stream *stream, size_t size);

/**
 * span_grow() - make a new slab
 * @core: the pool's core; its lock is held, its backend entered
 * @addr: receives its address; it is free, and no stream has used it
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int span_grow(struct core *core, uint64_t *addr);

/**
 * span_growth() - the size that span_grow() would choose
 * @core: the pool's core; its lock is held
 *
 * Return: bytes, whole pages.
 */
size_t span_growth(struct core *core);

/**
 * span_trim() - release empty slabs
 * @core: the pool's core; its lock is held, its backend entered
 * @keep: bytes of device memory that the pool keeps
 *
 * Return: 0, or what the backend's unmap returns.
 */
int span_trim(struct core *core, uint64_t keep);

/**
 * span_unused() - the bytes that span_trim() would release
 * @core: the pool's core; its lock is held
 *
 * Return: bytes.
 */
uint64_t span_unused(struct core *core);

/**
 * span_is_short() - whether small requests should get slabs instead of the loans they have
 * @core: the pool's core; its lock is held
 *
 * Cached blocks count as allocated here.
 */
bool span_is_short(const struct core *core);

/**
 * span_settle() - make slabs for all small requests, if span_is_short()
 * @core: the pool's core; its lock is held, its backend entered
 *
 * Loans are returned one day, and a pool of this size makes no new ones: a program that starts over would have to make
 * slabs then. A failure is ignored.
 */
void span_settle(struct core *core);

#endif /* SPAN_H */
