/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests that the driver's stream-ordered allocator serves. */
#ifndef SMALL_H
#define SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;

/**
 * struct small - one such allocation
 * @addr: its address
 * @size: bytes, as requested
 * @held: it was freed, and the free is deferred; see pending/deferred-free.h
 */
struct small {
	uint64_t addr;
	size_t size;
	bool held;
};

/**
 * small_add() - note an allocation that the driver's allocator has made
 * @core: the pool's core
 * @addr: its address
 * @size: bytes
 */
void small_add(struct core *core, uint64_t addr, size_t size);

/**
 * small_find() - the allocation at an address
 * @core: the pool's core
 * @addr: its exact start
 *
 * Return: the allocation; NULL: there is none, or it was freed.
 */
struct small *small_find(struct core *core, uint64_t addr);

/**
 * small_forget() - note that the driver's allocator has it back
 * @core: the pool's core
 * @small: the allocation, which is destroyed
 */
void small_forget(struct core *core, const struct small *small);

#endif /* SMALL_H */
