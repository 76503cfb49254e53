/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Making one block out of scattered free pieces, and of new memory where they are not enough. */
#ifndef PAGED_GATHER_H
#define PAGED_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct region;
struct request;
struct stream;

/**
 * defrag_gather() - make a free region that a stream can have
 * @core: the pool's core; its lock is held, its backend entered
 * @request: what is wanted, more than any one free region has that the stream could take
 * @region: receives a free region of that size or more, after whose last use the stream comes
 *
 * Harvests what is free: the stream's own first, then what no stream has used, then other streams', each oldest
 * first; creates what is missing, and no more. The memory is mapped into a hole one after another; the old addresses
 * become zombies. Where a region that is harvested ends at the hole, it stays where it is and the block starts there;
 * where one region has it all, nothing moves.
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int defrag_gather(struct core *core, const struct request *request, struct region **region);

/**
 * struct defrag_cost - what making a free region takes
 * @create: bytes that are created
 * @moved: bytes that are mapped elsewhere
 * @waits: streams whose work is to be waited for
 * @pieces: free regions that go into it
 */
struct defrag_cost {
	uint64_t create;
	uint64_t moved;
	uint64_t waits;
	unsigned int pieces;
};

/**
 * defrag_forecast() - what defrag_gather() would take now
 * @core: the pool's core; its lock is held
 * @size: bytes, a multiple of the page size
 * @stream: the stream
 * @cost: receives it
 */
void defrag_forecast(struct core *core, size_t size, struct stream *stream, struct defrag_cost *cost);

#endif /* PAGED_GATHER_H */
