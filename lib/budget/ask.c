// SPDX-License-Identifier: LGPL-2.1-or-later
/* Asks other pools to give memory back, and hears what they ask of this one. */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "budget/inside.h"
#include "util/at-most.h"
#include "util/clock.h"

/* A pool without a call on the slow path for so long is idle. */
#define IDLE_NS UINT64_C(1000000000)

/* Part of the time left that one pool may take: it may have been stopped. */
#define PATIENCE 2

static uint64_t sum_floors(const struct budget *budget, uint64_t *weights)
{
	uint64_t size = budget_size(budget), sum = 0;

	*weights = 0;
	for (unsigned int i = 0; i < budget_used(budget); i++) {
		const struct budget_slot *slot = &budget->file->slots[i];

		if (!atomic_load(&slot->pid))
			continue;
		sum += load_at_most(&slot->floor, size);
		*weights += atomic_load(&slot->weight);
	}
	return MIN(sum, size);
}

static void describe_slot(const struct budget *budget, const struct budget_slot *slot, struct budget_holder *holder)
{
	uint64_t weights, size = budget_size(budget), sure = sum_floors(budget, &weights);

	*holder = (struct budget_holder){
		.slot = (unsigned int)(slot - budget->file->slots),
		.pid = atomic_load(&slot->pid),
		.taken = load_at_most(&slot->taken, size),
		.last = atomic_load(&slot->last),
		.floor = load_at_most(&slot->floor, size),
	};
	holder->idle = load_at_most(&slot->idle, holder->taken);
	holder->share = holder->floor;
	if (weights)
		holder->share += (uint64_t)((double)(size - sure) * atomic_load(&slot->weight) / (double)weights);
	for (size_t i = 0; i + 1 < sizeof(holder->program); i++)
		holder->program[i] = atomic_load(&slot->program[i]);
}

static double bytes_above_share(const struct budget_holder *holder)
{
	return (double)holder->taken - (double)holder->share;
}

static int compare_holders(const void *a, const void *b, void *data)
{
	const struct budget_holder *x = a, *y = b;
	const uint64_t *idle_since = data;
	bool x_idle = x->last < *idle_since, y_idle = y->last < *idle_since;

	if (x_idle != y_idle)
		return y_idle - x_idle;
	if (x_idle)
		return (x->last > y->last) - (x->last < y->last);
	return (bytes_above_share(x) < bytes_above_share(y)) - (bytes_above_share(x) > bytes_above_share(y));
}

unsigned int budget_holders(const struct budget *budget, struct budget_holder holders[BUDGET_SLOTS])
{
	uint64_t idle_since = clock_ns() - IDLE_NS;
	unsigned int count = 0;

	for_each_other(slot, budget) {
		if (atomic_load(&slot->taken))
			describe_slot(budget, slot, &holders[count++]);
	}
	if (count)
		g_qsort_with_data(holders, (gint)count, sizeof(*holders), compare_holders, &idle_since);
	return count;
}

bool budget_can_give(const struct budget *budget)
{
	for_each_other(slot, budget) {
		if (atomic_load(&slot->taken) > atomic_load(&slot->floor))
			return true;
	}
	return false;
}

/* What was not given is not missing any more. */
static void withdraw_ask(struct budget_slot *slot, uint64_t bytes)
{
	uint64_t asked = atomic_load(&slot->ask);

	while (!atomic_compare_exchange_weak(&slot->ask, &asked, asked > bytes ? asked - bytes : 0))
		;
}

/* Whether the others have no more than @goal. */
static bool ask_one(struct budget *budget, struct budget_slot *slot, uint64_t goal, uint64_t until)
{
	uint64_t answered = atomic_load(&slot->answered), others = budget_others(budget, false), bytes, now;
	uint32_t released;

	if (others <= goal)
		return true;
	bytes = others - goal;
	atomic_fetch_add(&slot->ask, bytes);
	futex_bump(&slot->bell);
	for (;;) {
		released = atomic_load(&budget->file->released);
		now = clock_ns();
		others = budget_others(budget, false);
		if (others <= goal || atomic_load(&slot->answered) != answered || now >= until)
			break;
		futex_wait(&budget->file->released, released, until - now);
	}
	if (atomic_load(&slot->answered) == answered)
		withdraw_ask(slot, bytes);
	return others <= goal;
}

bool budget_ask(struct budget *budget, uint64_t bytes, uint64_t until)
{
	struct budget_holder *holders = g_new(struct budget_holder, BUDGET_SLOTS);
	uint64_t before = budget_others(budget, false), goal = before > bytes ? before - bytes : 0;
	unsigned int count = budget_holders(budget, holders);
	bool enough = false;

	for (unsigned int i = 0; i < count && !enough; i++) {
		uint64_t now = clock_ns(), left = until > now ? until - now : 0;

		if (holders[i].taken > holders[i].floor)
			enough = ask_one(budget, &budget->file->slots[holders[i].slot], goal, now + left / PATIENCE);
	}
	g_free(holders);
	return enough || budget_others(budget, false) < before;
}

bool budget_is_asked(const struct budget *budget)
{
	return atomic_load_explicit(&budget->slot->ask, memory_order_relaxed);
}

uint64_t budget_asked(struct budget *budget)
{
	struct budget_slot *slot = budget->slot;
	uint64_t bytes = atomic_exchange(&slot->ask, 0), taken = atomic_load(&slot->taken);
	uint64_t floor = atomic_load(&slot->floor), spare = taken > floor ? taken - floor : 0;

	if (bytes && !spare)
		budget_answer(budget);
	return MIN(bytes, spare);
}

void budget_answer(struct budget *budget)
{
	atomic_fetch_add(&budget->slot->answered, 1);
	futex_bump(&budget->file->released);
}

uint32_t budget_listen(const struct budget *budget, uint32_t heard)
{
	futex_wait(&budget->slot->bell, heard, UINT64_MAX);
	return atomic_load(&budget->slot->bell);
}

void budget_ring(struct budget *budget)
{
	futex_bump(&budget->slot->bell);
}
