/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the packed policy could serve. */
#ifndef PACKED_H
#define PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct stream;

/**
 * packed_could() - whether the policy could serve a request of the regions, waiting for nobody on the host
 * @core: the pool's core; its lock is held
 * @size: bytes, of core_round()
 * @stream: the stream
 * @room: bytes that could be created
 */
bool packed_could(struct core *core, size_t size, struct stream *stream, uint64_t room);

/**
 * packed_largest() - the largest request that it could serve
 * @core: the pool's core; its lock is held
 * @stream: the stream
 * @room: bytes that could be created
 *
 * Plans a few dozen requests, in the time that as many allocations take without their driver calls.
 *
 * Return: bytes.
 */
uint64_t packed_largest(struct core *core, struct stream *stream, uint64_t room);

#endif /* PACKED_H */
