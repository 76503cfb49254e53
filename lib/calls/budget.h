/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A pool's part of a budget, see budget/budget.h, and its limit. Of a pool without a budget only limit_set() does
 * anything.
 */
#ifndef CALLS_BUDGET_H
#define CALLS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmm.h"

struct backend_info;
struct budget;
struct core;
struct settings;
struct vpmm_pool;

/**
 * pool_budget_join() - have a part of the budget of the settings
 * @settings: after settings_fit(); their budget becomes the one in force
 * @info: the device
 * @budget: receives it; NULL: there is none
 *
 * Return: 0, or as budget_join().
 */
int pool_budget_join(struct settings *settings, const struct backend_info *info, struct budget **budget);

/**
 * pool_budget_give() - give back some of what nothing needs
 * @pool: the pool, its backend entered
 * @bytes: how much
 *
 * Waits for nothing. The error's text stays.
 *
 * Return: how much was given back; the last extent may be larger than what was left of @bytes.
 */
uint64_t pool_budget_give(struct vpmm_pool *pool, uint64_t bytes);

/**
 * pool_budget_end_call() - give back what others have asked for, and tell what the pool has
 * @pool: the pool, its backend entered
 *
 * Return: bytes that others have asked for beyond that; budget_answer() has to follow then. 0: nothing.
 */
uint64_t pool_budget_end_call(struct vpmm_pool *pool);

/* -EUCLEAN unless what was told last is what the pool has: each call tells at its end. */
int pool_budget_check(const struct core *core);

/**
 * pool_budget_leave() - leave the budget; all memory was given back
 * @pool: the pool, or an arena, which leaves the budget to its pool
 */
void pool_budget_leave(struct vpmm_pool *pool);

/**
 * pool_budget_count() - fill in the statistics
 * @core: the pool's core; its lock is held
 * @stats: receives them
 */
void pool_budget_count(const struct core *core, struct vpmm_stats *stats);

/**
 * limit_set() - set the most device memory that the pool may hold, and give back what is beyond it
 * @pool: the pool, its lock held
 * @bytes: the limit; 0: none
 *
 * Return: as vpmm_pool_set_limit().
 */
int limit_set(struct vpmm_pool *pool, size_t bytes);

/**
 * limit_is_exceeded() - whether the pool, with its arenas and shared ranges, holds more than its limit
 * @pool: the pool, its lock not held
 *
 * Return: whether that is so.
 */
bool limit_is_exceeded(struct vpmm_pool *pool);

#endif /* CALLS_BUDGET_H */
