/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Declarations that the files of budget/ share, and futexes in memory that several processes have. */
#ifndef BUDGET_INSIDE_H
#define BUDGET_INSIDE_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "budget/budget.h"
#include "util/lock.h"

/* Changes the word, and wakes all who wait for that. */
static inline void futex_bump(_Atomic uint32_t *word)
{
	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits until the word is no longer @value, for @ns at most, or for as long as it takes; it may return earlier. */
static inline void futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec left = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

	syscall(SYS_futex, word, FUTEX_WAIT, value, ns == UINT64_MAX ? NULL : &left, NULL, 0);
}

/**
 * struct budget - what a pool and its arenas have of a budget
 * @lock: held while @taken and @idle change, so that the slot says the same
 * @name: without the size
 * @text: with it
 * @locks: has the lock of the slot; none: it was left
 * @file: the contents
 * @slot: the pool's
 * @own: its number
 * @kept: where the budget is noted, for a forked child
 * @taken: bytes of all parts; read without @lock, too
 * @idle: what of those could be given back
 */
struct budget {
	struct lock lock;
	char *name;
	const char *text;
	struct descriptor locks;
	struct budget_file *file;
	struct budget_slot *slot;
	unsigned int own;
	struct budget *_Atomic *kept;
	_Atomic uint64_t taken;
	uint64_t idle;
};

/* Slots that were ever used; another process may have written anything. */
static inline unsigned int budget_used(const struct budget *budget)
{
	unsigned int used = atomic_load(&budget->file->used);

	return used < BUDGET_SLOTS ? used : BUDGET_SLOTS;
}

/* The slots of the other pools. */
#define for_each_other(slot, budget) \
	for (struct budget_slot *slot = (budget)->file->slots, *end_ = slot + budget_used(budget); slot < end_; slot++) \
		if (slot != (budget)->slot)

/**
 * budget_others() - what the others have
 * @budget: the budget
 * @wants: with what they are about to take
 *
 * Return: bytes, those that they are sure of included.
 */
uint64_t budget_others(const struct budget *budget, bool wants);

#endif /* BUDGET_INSIDE_H */
