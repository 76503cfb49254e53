/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where in free memory a request is put: such that little is left over and extents stay whole, as only whole ones can
 * be remapped. And VPMM_OVERLAP: which memory a stream takes while other streams' work is pending, so that it stands as
 * little as possible.
 *
 * In this order: what the stream itself freed, the last first, which leaves older memory to others; what is complete;
 * new memory, as far as VPMM_OVERLAP allows; and then what other streams freed, the oldest first. Remapping has to
 * reach older memory than what needs no driver call: overlap_prefers().
 */
#ifndef FIT_H
#define FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct order;
struct packed;
struct stream;

/**
 * fit_find() - the best free range that a stream can have without a wait, by stream order
 * @core: the pool's core
 * @stream: the stream
 * @size: bytes
 * @addr: receives the address
 *
 * Return: whether there is one.
 */
bool fit_find(struct core *core, struct stream *stream, size_t size, uint64_t *addr);

/* The address of a block of @size bytes at the better end of the free region of @room bytes at @addr. */
uint64_t fit_within(struct core *core, uint64_t addr, size_t room, size_t size);

/**
 * struct overlap_choice - memory that takes no driver call
 * @addr: its address
 * @row: bytes of it, of free regions in a row; 0: a block of the size lay there before, and what is mapped there is
 *	free
 * @stamp: of the latest event to wait for, as event_stamp() has it; 0: there is nothing to wait for
 */
struct overlap_choice {
	uint64_t addr;
	size_t row;
	uint64_t stamp;
};

/**
 * overlap_choose() - the memory for a block that a stream has to wait for the least, as far as events tell
 * @core: the pool's core
 * @stream: the stream
 * @size: bytes
 * @known: an address that such a block had before, which comes first of equals; 0: none
 * @choice: receives it
 *
 * It is free in one place, or where it was mapped for one of the latest blocks of the size.
 *
 * Return: false if no memory can be had without a driver call.
 */
bool overlap_choose(struct core *core, struct stream *stream, size_t size, uint64_t known,
		    struct overlap_choice *choice);

/**
 * overlap_prefers() - whether remapping other memory is worth its driver calls
 * @core: the pool's core
 * @order: what the stream would have to wait for then
 * @stamp: of the latest event it would have to wait for otherwise
 */
bool overlap_prefers(const struct core *core, const struct order *order, uint64_t stamp);

/* A block of @size bytes is about to be allocated at @addr, which overlap_choose() may choose later. */
void recent_note(struct core *core, uint64_t addr, size_t size);

/* Forgets all of these addresses. */
void recent_clear(struct packed *packed);

#endif /* FIT_H */
