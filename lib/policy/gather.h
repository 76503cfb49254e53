/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Making one block out of extents that are free, and of new memory where they are not enough.
 *
 * What paged-gather.h does with pages, as the specification has it, this does with extents of many sizes: few calls for
 * much memory, at the price of what is free within extents that cannot move.
 */
#ifndef GATHER_H
#define GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct order;
struct request;
struct stream;

/**
 * gather_block() - make a free range for a request
 * @core: the pool's core; its lock is held, its backend entered
 * @request: what is wanted
 * @order: of the stream that wants it, with nothing to come after yet; the stream comes after all that is in there then
 * @addr: receives where the range starts; all of it is free, and the stream is behind whoever had it
 *
 * The block begins with the largest row of free regions that has a hole behind it. Whole extents that are free follow,
 * mapped once more, the largest first; then what is created. When that would take more than the budget, it begins in
 * the free end, or ends in the free beginning, of an extent that is partly allocated.
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int gather_block(struct core *core, const struct request *request, struct order *order, uint64_t *addr);

/**
 * struct gather_cost - what making a block takes
 * @create: bytes that are created
 * @remapped: bytes of whole extents that are mapped once more
 * @waits: other streams whose work is to be waited for
 * @calls: driver calls
 */
struct gather_cost {
	uint64_t create;
	uint64_t remapped;
	uint64_t waits;
	uint64_t calls;
};

/**
 * gather_forecast() - what gather_block() would take now
 * @core: the pool's core; its lock is held
 * @stream: the stream that wants it
 * @size: bytes
 * @frugal: as there
 * @cost: receives it
 */
void gather_forecast(struct core *core, struct stream *stream, size_t size, bool frugal,
		     struct gather_cost *cost);

#endif /* GATHER_H */
