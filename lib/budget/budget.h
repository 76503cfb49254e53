/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Device memory that the pools of several processes share: a pool takes bytes before it creates memory, and no sum of
 * what all have taken is above the size. Nothing here knows a pool.
 *
 * A pool has a slot in a file that the processes of a user map, together with its arenas: each of those has a part of
 * what the slot says, so that the floor and the weight are of all of them. Each slot has one process that writes it,
 * and counts while that holds the lock of the slot's byte, which the kernel releases at any death: no sum is kept that
 * a death could leave wrong, and nobody repairs what another has written. The pool writes what it wants, then reads
 * what the others have and want. Of two that do so at once, one at least sees both, so that processes need no lock.
 *
 * extent_judge_limit() takes bytes before they are created. Every call on the slow path ends with
 * pool_budget_end_call(), which tells what the pool has now and gives back what others ask for. An allocation that
 * fails asks them in api_budget_ask(), with no lock held; the thread of api/budget.c answers for a program that makes
 * no call.
 */
#ifndef BUDGET_H
#define BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/file.h"

struct budget;

/**
 * struct budget_terms - with what a pool joins
 * @name: NAME[:SIZE]; what size the others have, or @memory where there are none, if there is no SIZE
 * @floor: bytes that it is to be sure of
 * @weight: of its share beyond the floors
 * @uuid: of the device
 * @memory: bytes of the device
 */
struct budget_terms {
	const char *name;
	uint64_t floor;
	unsigned int weight;
	unsigned char uuid[BUDGET_UUID];
	uint64_t memory;
};

/**
 * struct budget_part - what a pool or an arena has of what both have together
 * @taken: bytes that it has, or is about to create
 * @idle: bytes of those that it could give back when it last told
 */
struct budget_part {
	uint64_t taken;
	uint64_t idle;
};

/**
 * struct budget_holder - a pool that has part of a budget
 * @slot: its number
 * @pid: of its process, in that process's namespace
 * @taken: bytes that it has
 * @idle: bytes of those that it could give back when it last told
 * @last: when that was
 * @floor: bytes that it is sure of
 * @share: bytes that are its share by weight
 * @program: the name of its process
 */
struct budget_holder {
	unsigned int slot;
	uint32_t pid;
	uint64_t taken;
	uint64_t idle;
	uint64_t last;
	uint64_t floor;
	uint64_t share;
	char program[16];
};

/**
 * budget_join() - have a part of a budget
 * @terms: how
 * @budget: receives the budget
 *
 * Return: 0; -EINVAL if the others have another size, there is not so much left for @floor, or the file is not what it
 * should be; -EBUSY if there are too many pools; or the error of a system call. The texts begin with "VPMM_BUDGET".
 */
int budget_join(const struct budget_terms *terms, struct budget **budget);

/**
 * budget_leave() - give back all that was taken
 * @budget: the budget, of which no part has anything any more; only budget_free() may be called then
 */
void budget_leave(struct budget *budget);

/**
 * budget_free() - free a budget that was left
 * @budget: the budget; NULL: nothing to free
 */
void budget_free(struct budget *budget);

/**
 * budget_forked() - this is a forked child: let go of what would keep the parent's budgets after the parent
 */
void budget_forked(void);

/* Its name; NAME:SIZE, valid as long as the process; and its bytes. */
const char *budget_name(const struct budget *budget);
const char *budget_text(const struct budget *budget);
uint64_t budget_size(const struct budget *budget);

/* Bytes that the slot says a part has, which does not change meanwhile. */
uint64_t budget_taken(struct budget *budget, const struct budget_part *part);

/**
 * budget_room() - how much more may be taken
 * @budget: the budget
 * @part: the part of it, which does not change meanwhile
 * @total: bytes that the part has
 *
 * What the others are sure of is theirs. Processes that have ended unseen count still, see budget_bury().
 *
 * Return: bytes.
 */
uint64_t budget_room(const struct budget *budget, const struct budget_part *part, uint64_t total);

/* What others hold that they could give back, as of when each told. */
uint64_t budget_idle(const struct budget *budget);

/**
 * budget_take() - take bytes before memory is created
 * @budget: the budget
 * @part: the part of it; calls to this and budget_tell() for the same part exclude one another
 * @total: bytes that the part is to have, those that it has included
 *
 * Return: whether the budget allows them. What was taken stays as it is if not.
 */
bool budget_take(struct budget *budget, struct budget_part *part, uint64_t total);

/**
 * budget_tell() - tell what a part has, after a change
 * @budget: the budget
 * @part: the part of it
 * @total: bytes
 * @idle: bytes of those that could be given back
 */
void budget_tell(struct budget *budget, struct budget_part *part, uint64_t total, uint64_t idle);

/**
 * budget_bury() - find slots of processes that have ended, and give back what they had
 * @budget: the budget
 *
 * Return: whether there were any.
 */
bool budget_bury(struct budget *budget);

/* Nanoseconds since such a slot was found; UINT64_MAX: never. */
uint64_t budget_since_death(const struct budget *budget);

/**
 * budget_holders() - the other pools that have anything, the idlest first
 * @budget: the budget
 * @holders: receives them
 *
 * First those that made no call on the slow path for a second, the longest idle first; then those that are the most
 * above their share.
 *
 * Return: how many there are.
 */
unsigned int budget_holders(const struct budget *budget, struct budget_holder holders[BUDGET_SLOTS]);

/* Whether another pool has more than it is sure of, so that it could give some back, now or later. */
bool budget_can_give(const struct budget *budget);

/**
 * budget_ask() - ask the others to give back what they do not need, one after the other, and wait for it
 * @budget: the budget; the caller holds no lock
 * @bytes: how much is missing
 * @until: when to end waiting, as clock_ns()
 *
 * Each is asked once. One that has not enough now may have more later, and one may answer another pool instead.
 *
 * Return: whether they have given anything.
 */
bool budget_ask(struct budget *budget, uint64_t bytes, uint64_t until);

/* Whether somebody asks this pool. */
bool budget_is_asked(const struct budget *budget);

/**
 * budget_asked() - what this pool is asked to give back
 * @budget: the budget
 *
 * Return: bytes, no more than it has above its floor; budget_answer() has to follow. 0: nothing.
 */
uint64_t budget_asked(struct budget *budget);

/**
 * budget_answer() - what was asked was done, as far as possible
 * @budget: the budget; budget_tell() has told the result
 */
void budget_answer(struct budget *budget);

/**
 * budget_listen() - wait until somebody asks, or budget_ring()
 * @budget: the budget
 * @heard: what the previous call returned
 *
 * Return: for the next call.
 */
uint32_t budget_listen(const struct budget *budget, uint32_t heard);

/* Ends a budget_listen() of this process. */
void budget_ring(struct budget *budget);

#endif /* BUDGET_H */
