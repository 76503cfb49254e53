/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks outside of the region maps: those that the driver's stream-ordered allocator serves, and shareable ones. */
#ifndef SMALL_H
#define SMALL_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/address-index.h"

struct CUstream_st;
struct core;
struct event;
struct shareable;

/**
 * struct small - one such allocation
 * @addr: its address
 * @size: bytes, as requested
 * @event: behind the last work of the library's own on it, with a reference; NULL: there was none
 * @held: it was freed, and the free is deferred; see pending/deferred-free.h
 * @shareable: its memory; NULL: the driver's allocator serves it
 * @known: in the index of all pools' addresses
 */
struct small {
	uint64_t addr;
	size_t size;
	struct event *event;
	bool held;
	struct shareable *shareable;
	struct address_range known;
};

/**
 * small_table_new() - make the table of such allocations
 *
 * Return: the table: struct small by address.
 */
GHashTable *small_table_new(void);

/**
 * small_count() - count bytes that the driver's allocator is about to allocate, or has not allocated after all
 * @core: the pool's core
 * @more: bytes; what was counted is taken back by the negative of it, which wraps
 */
void small_count(struct core *core, uint64_t more);

/**
 * small_add() - note an allocation that the driver's allocator has made
 * @core: the pool's core
 * @addr: its address
 * @size: bytes, which small_count() has counted
 */
void small_add(struct core *core, uint64_t addr, size_t size);

/**
 * small_add_shareable() - note a block with memory of its own
 * @core: the pool's core
 * @shareable: the memory, which belongs to the table from now on
 * @size: bytes, as requested
 */
void small_add_shareable(struct core *core, struct shareable *shareable, size_t size);

/**
 * small_find() - the allocation at an address
 * @core: the pool's core
 * @addr: its exact start
 *
 * Return: the allocation; NULL: there is none, or it was freed.
 */
struct small *small_find(struct core *core, uint64_t addr);

/**
 * small_set_event() - note a point behind work of the library's own on an allocation
 * @small: the allocation
 * @event: the event
 */
void small_set_event(struct small *small, struct event *event);

/**
 * small_release() - give the memory of an allocation back, which stays in the table
 * @core: the pool's core, its backend entered
 * @small: the allocation; no work is pending on it if it is shareable
 * @handle: the stream in whose order it is freed otherwise, which comes after the library's work on it
 *
 * Return: 0, or an error of the backend.
 */
int small_release(struct core *core, struct small *small, struct CUstream_st *handle);

/**
 * small_forget() - note that the memory of an allocation was given back
 * @core: the pool's core
 * @small: the allocation, which is destroyed
 */
void small_forget(struct core *core, const struct small *small);

#endif /* SMALL_H */
