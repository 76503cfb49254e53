/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Exchanges: before a block pins most of a whole extent, the extent goes back to the device, and the block gets new
 * memory of the size that it calls for.
 *
 * A first large request makes large extents. Small blocks that are carved out of them, and live on, would each pin a
 * whole one, whose free memory could serve no large request any more. After an exchange small blocks lie in extents of
 * their own size. The pool holds less than before; what it gave back it may create again, for the next small blocks.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct extent;
struct request;
struct vpmm_forecast;

/**
 * struct exchange - the whole extents that a block would break, at its start and at its end, and leave a page of
 * @count: how many
 * @extents: the extents
 * @from: the first page of each that the block needs
 * @bytes: bytes of those pages
 * @left: bytes of all that the block would pin, and not use
 */
struct exchange {
	guint count;
	struct extent *extents[2];
	uint64_t from[2];
	size_t bytes[2];
	size_t left;
};

/**
 * exchange_is_due() - whether a block would pin too much of the extents at its ends
 * @core: the pool's core; its lock is held
 * @request: the request
 * @addr: start of the free range that was chosen for it
 * @x: receives these extents, if it would
 *
 * Then new memory serves the request, if the budget has room for that, or else an exchange.
 */
bool exchange_is_due(struct core *core, const struct request *request, uint64_t addr, struct exchange *x);

/**
 * exchange_is_allowed() - whether the pool holds no more than its budget after an exchange
 * @core: the pool's core; its lock is held
 * @request: the request
 * @x: the extents
 */
bool exchange_is_allowed(struct core *core, const struct request *request, const struct exchange *x);

/**
 * exchange_is_possible() - whether extents can be exchanged
 * @core: the pool's core; its lock is held
 * @x: the extents
 *
 * They cannot while work is pending on them, as far as events were polled.
 */
bool exchange_is_possible(struct core *core, const struct exchange *x);

/**
 * exchange_carry_out() - exchange the extents that a range would break
 * @core: the pool's core, its lock held, its backend entered
 * @request: the request
 * @x: the extents; the range stays free
 *
 * Return: 0, or an error of the backend: then the pool may hold less free memory than before.
 */
int exchange_carry_out(struct core *core, const struct request *request, const struct exchange *x);

/**
 * exchange_price() - what that takes
 * @core: the pool's core; its lock is held
 * @request: the request
 * @x: the extents
 * @forecast: receives the way and the price
 */
void exchange_price(struct core *core, const struct request *request, const struct exchange *x,
		    struct vpmm_forecast *forecast);

/**
 * exchange_note() - note that a block has broken extents that are much larger than it calls for
 * @core: the pool's core; its lock is held
 * @addr: start of the block, which is allocated
 * @size: bytes of it
 */
void exchange_note(struct core *core, uint64_t addr, size_t size);

#endif /* EXCHANGE_H */
