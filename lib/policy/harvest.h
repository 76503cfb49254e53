/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A harvest of the paged policy: one block of scattered free pages, and of new memory if they are not enough. */
#ifndef HARVEST_H
#define HARVEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct event;
struct region;
struct request;
struct stream;

/**
 * harvest_block() - make a free region for a request
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
int harvest_block(struct core *core, const struct request *request, struct region **region);

/**
 * harvest_into() - the same, at a given address, whatever is free elsewhere
 * @core: the pool's core; its lock is held, its backend entered
 * @request: the request
 * @addr: where the pages are mapped; all of it is unmapped
 * @beside: a free region that stays where it is; NULL: none
 * @behind: what else the stream is to be ordered after; NULL: nothing
 * @event: receives a point in the stream behind all of that, with a reference
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int harvest_into(struct core *core, const struct request *request, uint64_t addr, const struct region *beside,
		 struct event *behind, struct event **event);

/**
 * struct harvest_cost - the price of a harvest
 * @create: bytes that are created
 * @moved: bytes that are remapped
 * @waits: other streams to wait for
 * @sources: free regions that are used
 */
struct harvest_cost {
	uint64_t create;
	uint64_t moved;
	uint64_t waits;
	unsigned int sources;
};

/**
 * harvest_forecast() - the price that harvest_block() would pay now
 * @core: the pool's core; its lock is held
 * @size: bytes, a multiple of the page size
 * @stream: the stream
 * @cost: receives it
 */
void harvest_forecast(struct core *core, size_t size, struct stream *stream, struct harvest_cost *cost);

#endif /* HARVEST_H */
