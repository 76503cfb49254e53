// SPDX-License-Identifier: LGPL-2.1-or-later
/* Asks other pools of a budget for memory, and the thread that answers them while the program makes no call. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdatomic.h>

#include "api/api.h"
#include "budget/budget.h"
#include "calls/arena.h"
#include "calls/budget.h"
#include "calls/request.h"
#include "calls/shared.h"
#include "core/account.h"
#include "settings/settings.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/held.h"

#define NS_PER_MS UINT64_C(1000000)

/* The driver may take so long to give back what a process had that was killed. */
#define MOURNING_NS UINT64_C(2000000000)
#define MOURNING_STEP_US 10000

/* How long the thread waits for pending work, and how often it looks. */
#define PENDING_STEP_US 1000
#define PENDING_TRIES 40

/* How long to wait before others that could not give what was asked for are asked again. */
#define AGAIN_NS UINT64_C(5000000)

struct listener {
	struct vpmm_pool *pool;
	pthread_t thread;
	_Atomic bool ending;
};

/* Messages are delivered with those of the next call, as callbacks are for threads of the program. */
static uint64_t give_of(struct vpmm_pool *pool, uint64_t bytes)
{
	uint64_t given;

	lock_acquire(&pool->core.lock);
	given = pool_budget_give(pool, bytes);
	account_tell(&pool->core);
	lock_release(&pool->core.lock);
	return given;
}

/* Of a pool and its arenas, with one lock at a time; @but has given already. */
static uint64_t give_of_all(struct vpmm_pool *root, const struct vpmm_pool *but, uint64_t bytes)
{
	uint64_t given = root == but ? 0 : give_of(root, bytes);

	for_each_arena(arena, pool_tags(root)) {
		if (arena != but && given < bytes)
			given += give_of(arena, bytes - given);
	}
	return given;
}

/* Returns the bytes given back; -1: the pool cannot be entered. */
static int64_t give_to_others(struct vpmm_pool *pool, uint64_t bytes)
{
	struct backend *be = pool->core.backend;
	uint64_t given;

	if (be->ops->enter(be))
		return -1;
	given = give_of_all(pool, NULL, bytes);
	be->ops->leave(be);
	return (int64_t)given;
}

/* Memory that work is pending on can be had a little later. */
static void answer_others(struct listener *listener, uint64_t bytes)
{
	struct vpmm_pool *pool = listener->pool;

	for (int tries = 0; tries < PENDING_TRIES && !atomic_load(&listener->ending); tries++) {
		int64_t given = give_to_others(pool, bytes);

		if (given < 0 || (uint64_t)given >= bytes)
			break;
		bytes -= (uint64_t)given;
		if (!tries)
			pool_shared_trim(pool, false);
		g_usleep(PENDING_STEP_US);
	}
	budget_answer(pool->core.extents.budget);
}

void api_budget_give(struct vpmm_pool *pool, uint64_t bytes)
{
	struct error_kept kept;

	if (G_LIKELY(!bytes))
		return;
	error_keep(&kept);
	if (give_of_all(arena_root(pool), pool, bytes) < bytes)
		pool_shared_trim(arena_root(pool), false);
	budget_answer(pool->core.extents.budget);
	error_restore(&kept);
}

void api_budget_end_call(struct vpmm_pool *pool)
{
	uint64_t bytes;

	if (!pool->core.extents.budget || !budget_is_asked(pool->core.extents.budget))
		return;
	lock_acquire(&pool->core.lock);
	bytes = pool_budget_end_call(pool);
	lock_release(&pool->core.lock);
	api_budget_give(pool, bytes);
}

static void *listen_to_others(void *data)
{
	struct listener *listener = data;
	struct budget *budget = listener->pool->core.extents.budget;
	uint32_t heard = 0;
	uint64_t bytes;

	pthread_setname_np(pthread_self(), "vpmm-budget");
	while (!atomic_load(&listener->ending)) {
		bytes = budget_asked(budget);
		if (bytes)
			answer_others(listener, bytes);
		else
			heard = budget_listen(budget, heard);
	}
	return NULL;
}

void api_budget_begin(struct vpmm_pool *pool)
{
	struct listener *listener;
	int err;

	if (!pool->core.extents.budget || pool->core.settings.budget_thread == VPMM_BUDGET_THREAD_OFF)
		return;
	listener = g_new0(struct listener, 1);
	listener->pool = pool;
	err = held_thread(&listener->thread, listen_to_others, listener);
	if (!err) {
		pool->listener = listener;
		return;
	}
	g_free(listener);
	lock_acquire(&pool->core.lock);
	log_report(&pool->core.log, "no thread answers what others of the budget %s ask (VPMM_BUDGET_THREAD): %s",
		   budget_name(pool->core.extents.budget), g_strerror(err));
	lock_release(&pool->core.lock);
}

void api_budget_end(struct vpmm_pool *pool)
{
	struct listener *listener = pool->listener;

	if (!listener)
		return;
	atomic_store(&listener->ending, true);
	budget_ring(pool->core.extents.budget);
	pthread_join(listener->thread, NULL);
	pool->listener = NULL;
	g_free(listener);
}

/* The bytes that are missing; 0: others could give nothing. */
static uint64_t bytes_missing(struct vpmm_pool *pool, size_t size, bool *device)
{
	const struct extent_map *extents = &pool->core.extents;
	uint64_t room;

	lock_acquire(&pool->core.lock);
	room = budget_room(extents->budget, &extents->part, extent_taken(extents));
	lock_release(&pool->core.lock);
	*device = room >= size;
	/* Of the device others have to give all of it, as who has what is free there is not known. */
	return *device ? size : size - room;
}

static void sleep_until(uint64_t until, uint64_t most)
{
	uint64_t now = clock_ns(), left = until > now ? until - now : 0;

	g_usleep(MIN(left, most) / 1000);
}

static bool ask_others(struct vpmm_pool *pool, size_t size, uint64_t *until)
{
	struct budget *budget = pool->core.extents.budget;
	uint64_t now = clock_ns(), bytes;
	bool device;

	if (!is_exhausted_elsewhere())
		return false;
	if (!*until)
		*until = now + (uint64_t)pool->core.settings.budget_wait * NS_PER_MS;
	if (budget_bury(budget))
		return true;
	bytes = bytes_missing(pool, size, &device);
	if (now < *until && budget_can_give(budget)) {
		/* Asks again later: work of the others may end, and another pool may have taken what they gave. */
		if (!budget_ask(budget, bytes, *until))
			sleep_until(*until, AGAIN_NS);
		return true;
	}
	if (!device || budget_since_death(budget) > MOURNING_NS)
		return false;
	g_usleep(MOURNING_STEP_US);
	return true;
}

bool api_budget_ask(struct vpmm_pool *pool, size_t size, uint64_t *until)
{
	struct error_kept kept;
	bool given;

	if (!pool->core.extents.budget)
		return false;
	error_keep(&kept);
	given = ask_others(pool, size, until);
	error_restore(&kept);
	return given;
}
