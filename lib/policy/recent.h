/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where blocks of each size lay lately. Such an address is mapped still, so a block of the same size can have it again
 * without a driver call as soon as all of the memory behind it is free.
 */
#ifndef RECENT_H
#define RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct packed;
struct stream;

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

#endif /* RECENT_H */
