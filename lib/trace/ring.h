/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A ring of records between the threads that make calls and the one that writes them.
 *
 * A thread takes a number, which is its record's place in the trace, and fills the slot of that number. It waits for no
 * other thread that does so, and takes no lock. If it takes the number while it holds the lock under which a block is
 * freed or served, the records are in the order in which blocks went from hand to hand.
 */
#ifndef RING_H
#define RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace/record.h"
#include "util/line.h"

/* Records, a power of two: so many can wait to be written, 64 bytes each. */
#define RING_SIZE (UINT64_C(1) << 20)

/**
 * struct ring_slot - a record
 * @turn: the number of the record + 1, once it is there
 * @record: the record
 */
struct ring_slot {
	_Alignas(LINE_SIZE) _Atomic uint64_t turn;
	struct record record;
};

/**
 * struct ring - a ring
 * @slots: mapped, so that only what was used of it takes memory
 * @head: the next number
 * @tail: all records below this number were taken, and their slots can be filled again
 * @taken: the same, as of the one thread that takes them; it writes this each time, and the others read @tail each time
 */
struct ring {
	struct ring_slot *slots;
	_Alignas(LINE_PAIR) _Atomic uint64_t head;
	_Alignas(LINE_PAIR) _Atomic uint64_t tail;
	_Alignas(LINE_PAIR) uint64_t taken;
};

/**
 * ring_init() - set up an empty ring
 * @ring: the ring
 *
 * Return: 0, or -ENOMEM.
 */
int ring_init(struct ring *ring);

/**
 * ring_clear() - free it
 * @ring: the ring, which nobody uses
 */
void ring_clear(struct ring *ring);

/* Takes a number. */
static inline uint64_t ring_reserve(struct ring *ring)
{
	return atomic_fetch_add_explicit(&ring->head, 1, memory_order_relaxed);
}

/* Whether the slot of a number can be filled. */
static inline bool ring_has_room(struct ring *ring, uint64_t number)
{
	return number - atomic_load(&ring->tail) < RING_SIZE;
}

/* The record to be filled in for a number that was reserved and has room. */
static inline struct record *ring_record(struct ring *ring, uint64_t number)
{
	return &ring->slots[number % RING_SIZE].record;
}

/* All of the record is there. */
static inline void ring_publish(struct ring *ring, uint64_t number)
{
	atomic_store_explicit(&ring->slots[number % RING_SIZE].turn, number + 1, memory_order_release);
}

/* The next record; NULL: it is not there yet. */
static inline const struct record *ring_next(struct ring *ring)
{
	struct ring_slot *slot = &ring->slots[ring->taken % RING_SIZE];

	if (atomic_load_explicit(&slot->turn, memory_order_acquire) != ring->taken + 1)
		return NULL;
	return &slot->record;
}

#endif /* RING_H */
