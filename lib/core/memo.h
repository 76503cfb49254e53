/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A memo of decisions. A program that repeats itself then gets the same decisions again, and settles.
 *
 * A pool has two. In core.memo the key of a decision is the set of allocations, with their addresses, and the requested
 * size. The same key gives the same address again if it is available, which leads to the state that the next request
 * was decided in.
 *
 * Some programs never come back to a state: a training step keeps its gradients until the next one, and they lie
 * elsewhere then. In core.routine a key is of the latest sizes that the stream has asked for, and streams share the
 * answers. Each pass gives a block the address that the pass before gave it, as far as that is available. The passes
 * become alike, and as soon as one ends in the state that it began in, core.memo has all that follows. A decision has
 * two addresses: a pass that allocates a block before it frees that of the pass before has them in turn.
 *
 * A request has two decisions in core.routine: one by its long past, some 1,000 sizes, and one by its short past, 32.
 * The long past tells the equal batches of a pass apart. A pass that is much shorter has that past only after several
 * passes, and until then goes by the short one.
 *
 * Decisions are kept in a log, in the order in which they were made. A program that repeats itself follows the log, so
 * the entry after the last hit is tried first: there are too many for the processor's caches, and only sequential
 * reads are prefetched. A hash table finds the others.
 */
#ifndef MEMO_H
#define MEMO_H

#include <stddef.h>
#include <stdint.h>

#include "util/bound.h"

struct decision {
	uint64_t key;			/* of the state and the size */
	uint64_t addr;
	uint64_t before;		/* the address that @addr replaced; 0: none */
};

/* The most decisions in a memo: a training step makes some thousands. A full memo takes 10 MB. */
#define MEMO_MOST BOUND(256 * 1024, 1024)

/* Entries of a hash bucket; if it is full, the oldest is replaced. */
#define MEMO_WAYS 16

struct memo_row {
	uint32_t slots[MEMO_WAYS];	/* part of the key, and the index in the log */
};

/**
 * struct memo - decisions
 * @log: a ring of decisions, indexed by their numbers
 * @mask: its size, a power of two, less one
 * @count: decisions so far
 * @next: the number of the decision that is expected
 * @rows: the hash table
 * @row_mask: its rows, a power of two, less one
 * @state: what the keys are of, besides the size. core.memo: a hash of all allocations and their addresses.
 *	core.routine: the past_state() that memo_note() is about
 */
struct memo {
	struct decision *log;
	uint32_t mask;
	uint64_t count;
	uint64_t next;
	struct memo_row *rows;
	uint32_t row_mask;
	uint64_t state;
};

void memo_init(struct memo *memo);
void memo_clear(struct memo *memo);

/**
 * memo_enter() - add an allocation to the state
 * @memo: the memo
 * @addr: where
 * @size: bytes
 */
void memo_enter(struct memo *memo, uint64_t addr, size_t size);

/**
 * memo_leave() - remove an allocation from the state
 * @memo: the memo
 * @addr: as given to memo_enter()
 * @size: as given to memo_enter()
 */
void memo_leave(struct memo *memo, uint64_t addr, size_t size);

/**
 * struct memo_found - what the memo has for a request
 * @hash: of the size
 * @key: of the size and the state
 * @addr: the address; 0: none
 * @before: the address that this one replaced; 0: none
 * @where: index of the decision in the log, if there is one
 */
struct memo_found {
	uint64_t hash;
	uint64_t key;
	uint64_t addr;
	uint64_t before;
	uint32_t where;
};

/**
 * memo_find() - the decision for a request in a state
 * @memo: the memo
 * @state: as @state of struct memo
 * @size: bytes requested
 */
struct memo_found memo_find(const struct memo *memo, uint64_t state, size_t size);

/* A request has two pasts: the long one is of some PAST_REACH sizes, 64 marks of one in 16, the short one of 32. */
enum past_length {
	PAST_LONG,
	PAST_SHORT,
	PASTS
};

#define PAST_REACH (64 * 16)

/**
 * struct past - hashes of the latest sizes that a stream has asked for
 * @near: of the latest 32
 * @far: of the latest 64 marks. A mark is a @near whose upper four bits are 0, as those of one in 16 are; sizes without
 *	a mark leave @far as it is
 * @repeated: requests in a row whose long past the stream had before, of those that core.routine was asked about
 *
 * The long past reaches so far, because a pass may have equal batches that follow on different ones, and so begin in
 * different states. By the short past alone each batch takes the addresses of the other while these are in use.
 */
struct past {
	uint64_t near;
	uint64_t far;
	uint64_t repeated;
};

/**
 * past_add() - add a size to it
 * @past: the hashes so far, at first 0
 * @found: what memo_find() has for a request of the size
 */
void past_add(struct past *past, const struct memo_found *found);

/* A hash as a state for memo_find(). */
uint64_t past_state(const struct past *past, enum past_length length);

/**
 * memo_age() - how many decisions were added since
 * @memo: the memo
 * @found: a decision that memo_find() has found
 */
uint32_t memo_age(const struct memo *memo, const struct memo_found *found);

/**
 * memo_note() - a request is about to get an address: note it before memo_enter()
 * @memo: the memo
 * @found: the result of memo_find() for the request. Since then no other request was noted, but the state may have
 *	changed
 * @addr: the address; if @found has another, this one replaces it
 */
void memo_note(struct memo *memo, const struct memo_found *found, uint64_t addr);

/**
 * memo_restore() - add a decision that another process has made, the older before the newer
 * @memo: the memo
 * @key: of the state and the size
 * @addr: the address
 */
void memo_restore(struct memo *memo, uint64_t key, uint64_t addr);

#endif /* MEMO_H */
