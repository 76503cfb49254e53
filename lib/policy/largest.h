/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The largest request that the packed policy could serve. */
#ifndef LARGEST_H
#define LARGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct stream;

/* Whether a request could be served without a wait on the host. */
typedef bool (*largest_could_fn)(struct core *core, struct stream *stream, size_t size, uint64_t room);

/**
 * largest_search() - the largest request that could be served
 * @core: the pool's core; its lock is held
 * @stream: the stream
 * @room: bytes that the device could create
 * @could: answers that for one size; nearly always monotonic: what fits one size fits smaller ones
 *
 * Plans a few dozen requests, which takes as long as that many mallocs without their driver calls.
 *
 * Return: bytes.
 */
uint64_t largest_search(struct core *core, struct stream *stream, uint64_t room, largest_could_fn could);

#endif /* LARGEST_H */
