/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gathering of the paged policy: one block of scattered free pages, and of new memory if they are not enough. */
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
 * defrag_gather() - make a free region for a request
 * @core: the pool's core; its lock is held, its backend entered
 * @request: the request, for which no single free region would do
 * @region: receives a free region of at least its size, which the stream is ordered after
 *
 * Takes free pages: the stream's own first, then unused ones, then other streams', each oldest first. Creates the
 * shortfall and no more. The pages are mapped behind one another into a hole; their old addresses become zombies. A
 * region right in front of the hole stays where it is, as the start of the block. If one region suffices, nothing is
 * remapped.
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int defrag_gather(struct core *core, const struct request *request, struct region **region);

/**
 * struct defrag_cost - the price of a gathering
 * @create: bytes that are created
 * @moved: bytes that are remapped
 * @waits: other streams to wait for
 * @pieces: free regions that are used
 */
struct defrag_cost {
	uint64_t create;
	uint64_t moved;
	uint64_t waits;
	unsigned int pieces;
};

/**
 * defrag_forecast() - the price that defrag_gather() would pay now
 * @core: the pool's core; its lock is held
 * @size: bytes, a multiple of the page size
 * @stream: the stream
 * @cost: receives it
 */
void defrag_forecast(struct core *core, size_t size, struct stream *stream, struct defrag_cost *cost);

#endif /* PAGED_GATHER_H */
