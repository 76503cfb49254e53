/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pages for small requests, apart from all others: what is small stays longest, and would keep extents from moving. */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region;
struct stream;
struct core;

/**
 * span_borrow() - have small requests where large ones leave a rest
 * @core: the pool's core; its lock is held
 * @stream: the stream that wants it, without waiting
 * @size: bytes that are wanted
 *
 * What is free in an extent that cannot move, and too small to be of use otherwise, is lent until it is free again.
 *
 * Return: a free region of @size bytes or more for small requests, or NULL.
 */
struct region *span_borrow(struct core *core, struct stream *stream, size_t size);

/**
 * span_can_borrow() - whether span_borrow() would find anything
 * @core: the pool's core; its lock is held
 * @stream: as there
 * @size: likewise
 */
bool span_can_borrow(struct core *core, struct stream *stream, size_t size);

/**
 * span_grow() - more pages for small requests
 * @core: the pool's core; its lock is held, its backend entered
 * @addr: receives where a page or more is free, that no stream has used
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int span_grow(struct core *core, uint64_t *addr);

/**
 * span_growth() - by how much span_grow() would grow
 * @core: the pool's core; its lock is held
 *
 * Return: bytes, whole pages.
 */
size_t span_growth(struct core *core);

/**
 * span_trim() - give back to the device the pages that no small request is in
 * @core: the pool's core; its lock is held, its backend entered
 * @keep: bytes of device memory that the pool is to hold on to
 *
 * Return: 0, or what the backend's unmap returns.
 */
int span_trim(struct core *core, uint64_t keep);

/**
 * span_unused() - what span_trim() would give back
 * @core: the pool's core; its lock is held
 *
 * Return: bytes.
 */
uint64_t span_unused(struct core *core);

/**
 * span_is_short() - whether the pool is too large to borrow for small requests, and still does
 * @core: the pool's core; its lock is held
 *
 * What is cached passes for allocated here.
 */
bool span_is_short(const struct core *core);

/**
 * span_settle() - have pages of its own for all small requests, where it is short of those
 * @core: the pool's core; its lock is held, its backend entered
 *
 * What is borrowed goes back one day, and a program that begins again borrows no more. That it fails is no error.
 */
void span_settle(struct core *core);

#endif /* SPAN_H */
