/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where in free memory a request is put: such that little is left over and extents stay whole, as only whole ones can
 * be remapped.
 */
#ifndef FIT_H
#define FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;
struct core;

/**
 * fit_find() - the best free range that a stream can have without a wait, by stream order
 * @core: the pool's core; its lock is held
 * @stream: the stream
 * @size: bytes
 * @addr: receives the address
 *
 * Return: whether there is one.
 */
bool fit_find(struct core *core, struct stream *stream, size_t size, uint64_t *addr);

/**
 * fit_within() - the better end of a free region for a block
 * @core: the pool's core; its lock is held
 * @addr: where the region starts
 * @room: bytes that it has
 * @size: bytes of the block, at most @room
 *
 * Return: the address.
 */
uint64_t fit_within(struct core *core, uint64_t addr, size_t room, size_t size);

#endif /* FIT_H */
