/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What was decided before, so that a program that repeats itself meets the same decisions, and settles.
 *
 * A decision depends on what is allocated where, and on the size that is asked for. The same two give the same address
 * again, as long as it can be had; then the next request finds what it found before, too.
 */
#ifndef MEMO_H
#define MEMO_H

#include <stddef.h>
#include <stdint.h>

#include "table.h"

/**
 * struct memo - decisions
 * @young: the hash of a state and a size to an address; the newer half of what is remembered
 * @old: the older half
 * @state: a hash of all that is allocated and where
 */
struct memo {
	struct table young;
	struct table old;
	uint64_t state;
};

void memo_init(struct memo *memo);
void memo_clear(struct memo *memo);

/**
 * memo_enter() - something is allocated now
 * @memo: the memo
 * @addr: where
 * @size: bytes
 */
void memo_enter(struct memo *memo, uint64_t addr, size_t size);

/**
 * memo_leave() - it no longer is
 * @memo: the memo
 * @addr: as given to memo_enter()
 * @size: likewise
 */
void memo_leave(struct memo *memo, uint64_t addr, size_t size);

/**
 * memo_find() - what was decided in this state
 * @memo: the memo
 * @size: bytes that are asked for
 *
 * Return: the address, or 0.
 */
uint64_t memo_find(struct memo *memo, size_t size);

/**
 * memo_put() - remember a decision, before memo_enter()
 * @memo: the memo
 * @size: bytes that were asked for
 * @addr: what was decided
 */
void memo_put(struct memo *memo, size_t size, uint64_t addr);

#endif /* MEMO_H */
