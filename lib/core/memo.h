/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What was decided before, so that a program that repeats itself meets the same decisions, and settles.
 *
 * A decision depends on what is allocated where, and on the size that is asked for. The same two give the same address
 * again, as long as it can be had; then the next request finds what it found before, too.
 *
 * Decisions are kept in the order in which they were made. A program that repeats itself comes to what followed the
 * last time, so that is looked at first; there are too many of them to be near, and only what is read in a row comes in
 * time. What does not follow is found by a table of where each is.
 */
#ifndef MEMO_H
#define MEMO_H

#include <stddef.h>
#include <stdint.h>

struct decision {
	uint64_t key;			/* of the state and the size */
	uint64_t addr;
};

/* What a memo keeps at most: a training step makes some thousands. With the table it is 6 MB. */
#define MEMO_MOST (256 * 1024)

/* Decisions that the table finds by one part of the key; when there are more of them, the oldest is not found. */
#define MEMO_WAYS 16

struct memo_row {
	uint32_t slots[MEMO_WAYS];	/* a part of the key, and where the decision is */
};

/**
 * struct memo - decisions
 * @log: the decisions, each where its number says; the oldest make room for new ones
 * @mask: how many there is room for, a power of two, less one
 * @count: how many there have been
 * @next: the number of the one that is expected
 * @absent: the key that was looked for last, and not found; or 0
 * @rows: the table
 * @row_mask: how many rows it has, a power of two, less one
 * @state: a hash of all that is allocated and where
 */
struct memo {
	struct decision *log;
	uint32_t mask;
	uint64_t count;
	uint64_t next;
	uint64_t absent;
	struct memo_row *rows;
	uint32_t row_mask;
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
 * memo_peek() - the same for who only asks: nothing of the memo changes
 * @memo: the memo
 * @size: bytes that are asked for
 *
 * Return: the address, or 0; also 0 for some that memo_find() would find where they are expected next.
 */
uint64_t memo_peek(const struct memo *memo, size_t size);

/**
 * memo_put() - remember a decision, before memo_enter()
 * @memo: the memo
 * @size: bytes that were asked for
 * @addr: what was decided
 */
void memo_put(struct memo *memo, size_t size, uint64_t addr);

#endif /* MEMO_H */
