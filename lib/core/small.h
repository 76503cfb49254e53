/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests below a page that the driver's stream-ordered allocator serves. */
#ifndef SMALL_H
#define SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;

/**
 * struct small - one of them
 * @addr: its address
 * @size: bytes, as requested
 * @held: it was freed, and is kept for its users; see pending/deferred-free.h
 */
struct small {
	uint64_t addr;
	size_t size;
	bool held;
};

/**
 * small_add() - the driver's allocator has served a request
 * @core: the pool's core
 * @addr: its address
 * @size: bytes
 */
void small_add(struct core *core, uint64_t addr, size_t size);

/**
 * small_find() - the request at an address
 * @core: the pool's core
 * @addr: exactly where it starts
 *
 * Return: the request; NULL: there is none, or it was freed already.
 */
struct small *small_find(struct core *core, uint64_t addr);

/**
 * small_forget() - the driver's allocator has it back
 * @core: the pool's core
 * @small: what it was; gone afterwards
 */
void small_forget(struct core *core, const struct small *small);

#endif /* SMALL_H */
