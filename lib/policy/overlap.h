/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * VPMM_OVERLAP: which memory a stream takes while other streams' work is pending, so that it stands as little as
 * possible.
 *
 * In this order: what the stream itself freed, the last first, which leaves older memory to others; what is complete;
 * new memory, as far as VPMM_OVERLAP allows; and then what other streams freed, the oldest first. Remapping has to reach
 * older memory than what needs no driver call: overlap_prefers().
 */
#ifndef OVERLAP_H
#define OVERLAP_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct order;
struct packed;
struct stream;

/**
 * overlap_matters() - whether another stream's work could be pending on free memory, and more may be taken than wait
 * @core: the pool's core; its lock is held
 */
bool overlap_matters(const struct core *core);

/**
 * overlap_find() - the free range that a stream has to wait for the least, as far as events tell
 * @core: the pool's core; its lock is held
 * @stream: the stream
 * @size: bytes
 * @addr: receives its address
 * @stamp: receives the stamp of the latest event to wait for, as event_stamp() has it
 *
 * Return: its bytes, of one or more free regions in a row; 0: there is none.
 */
size_t overlap_find(struct core *core, const struct stream *stream, size_t size, uint64_t *addr, uint64_t *stamp);

/**
 * overlap_reaches() - whether a block could lie where memory was mapped before
 * @core: the pool's core; its lock is held
 * @stream: the stream that the block is for
 * @addr: the address
 * @size: bytes
 * @stamp: receives the stamp of the latest event to wait for, as event_stamp() has it
 */
bool overlap_reaches(struct core *core, struct stream *stream, uint64_t addr, size_t size, uint64_t *stamp);

/**
 * overlap_prefers() - whether remapping other memory is worth its driver calls
 * @core: the pool's core; its lock is held
 * @order: what the stream would have to wait for then
 * @stamp: of the latest event it would have to wait for otherwise
 */
bool overlap_prefers(const struct core *core, const struct order *order, uint64_t stamp);

/*
 * Where blocks of each size lay lately. Such an address is mapped still, so a block of the same size can have it again
 * without a driver call as soon as all of the memory behind it is free.
 */

/**
 * recent_note() - a block is about to be allocated
 * @core: the pool's core; its lock is held
 * @addr: where
 * @size: bytes
 */
void recent_note(struct core *core, uint64_t addr, size_t size);

/**
 * recent_find() - the address for a block that a stream has to wait for the least, as far as events tell
 * @core: the pool's core; its lock is held
 * @stream: the stream
 * @size: bytes
 * @addr: receives the address; alias_claim() makes the memory free there
 * @stamp: receives the stamp of the latest event to wait for, as event_stamp() has it; 0: there is nothing to wait for
 *
 * Return: false if no block of this size can have its address again.
 */
bool recent_find(struct core *core, struct stream *stream, size_t size, uint64_t *addr, uint64_t *stamp);

/**
 * recent_clear() - forget all addresses
 * @packed: the state of the policy
 */
void recent_clear(struct packed *packed);

#endif /* OVERLAP_H */
