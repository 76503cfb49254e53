/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Giving device memory back: whole extents of which nothing is allocated, and that nobody works through any more at any
 * of their places. Nothing here waits.
 */
#ifndef TRIM_H
#define TRIM_H

#include <stddef.h>
#include <stdint.h>

struct core;

/**
 * trim_small() - give back what the driver's allocator keeps of small requests that were freed
 * @core: the pool's core, its backend entered
 * @keep: bytes of device memory that the pool is to hold on to, what that allocator holds included
 * @released: receives how many bytes were given back; may be NULL
 *
 * Return: 0, or what the backend's small_trim and, for @released, small_held return.
 */
int trim_small(struct core *core, uint64_t keep, uint64_t *released);

/**
 * trim_pool() - give free memory back
 * @core: the pool's core, its backend entered
 * @keep: bytes of device memory that it is to hold on to
 * @released: receives how many bytes were given back; may be NULL
 *
 * What the caches have and others can have is free; what was borrowed for small requests goes back first. What was
 * given back when the driver refuses a call stays given back.
 *
 * Return: 0, or what the backend's event_query, unmap, release, small_trim and small_held return.
 */
int trim_pool(struct core *core, uint64_t keep, uint64_t *released);

/**
 * trim_whole() - give back whole extents, those first that have been free longest; a policy's trim
 * @core: the pool's core, its backend entered
 * @keep: bytes of device memory that it is to hold on to
 * @looks: how many extents may be looked at
 * @most: how many may be given back
 *
 * Return: 0, or an error of the backend.
 */
int trim_whole(struct core *core, uint64_t keep, uint64_t looks, uint64_t most);

/**
 * trim_pages() - the same of extents that are not counted, but found by what is free
 * @core: the pool's core, its backend entered
 * @keep: bytes of device memory that it is to hold on to
 * @looks: how many extents may be looked at
 * @most: how many may be given back
 *
 * Return: 0, or an error of the backend.
 */
int trim_pages(struct core *core, uint64_t keep, uint64_t looks, uint64_t most);

/**
 * trim_some() - give back what is held beyond what the settings say
 * @core: the pool's core, its backend entered
 *
 * At most TRIM_EXTENTS extents, among the first TRIM_LOOKS that are free, so that no call takes long. That it fails is
 * no error: the next call tries again.
 */
void trim_some(struct core *core);

#define TRIM_EXTENTS 8
#define TRIM_LOOKS 32

#endif /* TRIM_H */
