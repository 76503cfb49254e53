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

struct CUstream_st;
struct core;
struct gathering;

/**
 * gather_prepare() - see to it that a choice can be made of what is free now
 * @core: the pool's core; its lock is held, its backend entered
 *
 * Polls events, and unmaps old mappings once there are too many.
 *
 * Return: 0, or an error of the backend.
 */
int gather_prepare(struct core *core);

/**
 * gather_order() - find out what the stream has to come after before it may have the block
 * @g: the choice; its order receives the events
 */
void gather_order(struct gathering *g);

/**
 * gather_carry_out() - make a free range for a request
 * @g: the choice, of gather_decide(); gather_order() has been called
 * @handle: a handle of the stream
 * @addr: receives where the range starts; all of it is free, and the stream is behind whoever had it
 *
 * The block begins with the largest row of free regions that has a hole behind it. Whole extents that are free follow,
 * mapped once more, the largest first; then what is created. When that would take more than the budget, it begins in
 * the free end, or ends in the free beginning, of an extent that is partly allocated.
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int gather_carry_out(struct gathering *g, struct CUstream_st *handle, uint64_t *addr);

#endif /* GATHER_H */
