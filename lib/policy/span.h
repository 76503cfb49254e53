/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pages for small requests, apart from all others: what is small stays longest, and would keep extents from moving. */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region;
struct stream;
struct vpmm_pool;

/**
 * span_borrow() - have small requests where large ones leave a rest
 * @pool: the pool; its lock is held
 * @stream: the stream that wants it, without waiting
 * @size: bytes that are wanted
 *
 * What is free in an extent that cannot move, and too small to be of use otherwise, is lent until it is free again.
 *
 * Return: a free region of @size bytes or more for small requests, or NULL.
 */
struct region *span_borrow(struct vpmm_pool *pool, struct stream *stream, size_t size);

/**
 * span_can_borrow() - whether span_borrow() would find anything
 * @pool: the pool; its lock is held
 * @stream: as there
 * @size: likewise
 */
bool span_can_borrow(struct vpmm_pool *pool, struct stream *stream, size_t size);

/**
 * span_return() - give back what was borrowed, once nothing is allocated of it
 * @pool: the pool; its lock is held
 * @region: a region for small requests that has just become free
 */
void span_return(struct vpmm_pool *pool, struct region *region);

/**
 * span_grow() - more pages for small requests
 * @pool: the pool; its lock is held, its backend entered
 * @addr: receives where a page or more is free, that no stream has used
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int span_grow(struct vpmm_pool *pool, uint64_t *addr);

/**
 * span_growth() - by how much span_grow() would grow
 * @pool: the pool; its lock is held
 *
 * Return: bytes, whole pages.
 */
size_t span_growth(struct vpmm_pool *pool);

/**
 * span_return_all() - give back to the pool what was borrowed, and nothing is allocated of
 * @pool: the pool; its lock is held
 *
 * Where several streams had parts of it, only what nobody has to wait for.
 */
void span_return_all(struct vpmm_pool *pool);

/**
 * span_trim() - give back to the device the pages that no small request is in
 * @pool: the pool; its lock is held, its backend entered
 * @keep: bytes of device memory that the pool is to hold on to
 *
 * Return: 0, or what the backend's unmap returns.
 */
int span_trim(struct vpmm_pool *pool, uint64_t keep);

/**
 * span_unused() - what span_trim() would give back
 * @pool: the pool; its lock is held
 *
 * Return: bytes.
 */
uint64_t span_unused(struct vpmm_pool *pool);

/**
 * span_is_short() - whether the pool is too large to borrow for small requests, and still does
 * @pool: the pool; its lock is held
 *
 * What is cached passes for allocated here.
 */
bool span_is_short(const struct vpmm_pool *pool);

/**
 * span_settle() - have pages of its own for all small requests, where it is short of those
 * @pool: the pool; its lock is held, its backend entered
 *
 * What is borrowed goes back one day, and a program that begins again borrows no more. That it fails is no error.
 */
void span_settle(struct vpmm_pool *pool);

#endif /* SPAN_H */
