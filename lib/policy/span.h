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

#endif /* SPAN_H */
