// SPDX-License-Identifier: LGPL-2.1-or-later
/* What calls on blocks and pools have to do with shared ranges. */
#include <errno.h>

#include "calls/pool.h"
#include "calls/shared.h"
#include "shared/gates.h"
#include "shared/migrate.h"
#include "shared/piece.h"
#include "util/error.h"
#include "util/held.h"

/* While pages move, a stream that is not at the gate yet must not get past it, so this waits for the move. */
static int add_user(struct shared *shared, const void *ptr, struct CUstream_st *stream)
{
	const struct backend_ops *ops = shared->core->backend->ops;
	struct range *range;
	struct held held;
	int err;

	held_begin(&held);
	err = ops->enter(shared->core->backend);
	if (err)
		goto out_held;
	err = gates_check(shared, stream);
	if (err)
		goto out;
	lock_acquire(&shared->mover);
	lock_acquire(&shared_lock);
	range = shared_find((uintptr_t)ptr);
	if (range && range->shared == shared)
		err = gates_add(range, stream);
	else
		err = error_set(-EINVAL, "the shared range was freed meanwhile");
	lock_release(&shared_lock);
	lock_release(&shared->mover);
out:
	ops->leave(shared->core->backend);
out_held:
	held_end(&held);
	return err;
}

bool pool_shared_use(struct vpmm_pool *pool, const void *ptr, struct CUstream_st *stream, int *err)
{
	struct shared *shared = NULL;
	const struct range *range;
	bool known = false;

	if (!g_atomic_int_get(&shared_exist))
		return false;
	lock_acquire(&shared_lock);
	range = shared_find((uintptr_t)ptr);
	if (range && (!pool || range->shared == pool->shared)) {
		shared = range->shared;
		shared->holds++;
		known = gates_have(range, stream);
	}
	lock_release(&shared_lock);
	if (!shared)
		return false;
	*err = known ? 0 : add_user(shared, ptr, stream);
	shared_drop(shared);
	return true;
}

bool pool_shared_lookup(uint64_t addr, struct vpmm_allocation *allocation)
{
	const struct range *range;

	if (!g_atomic_int_get(&shared_exist))
		return false;
	lock_acquire(&shared_lock);
	range = shared_find(addr);
	/* The rest of the last page is no more of the allocation than what a block is rounded up by. */
	if (range && addr - range->at >= range->requested)
		range = NULL;
	if (range) {
		allocation->pool = pool_of_core(range->shared->core);
		allocation->base = (void *)(uintptr_t)range->at;
		allocation->bytes = range->requested;
		allocation->device = range->shared->core->device;
	}
	lock_release(&shared_lock);
	return range;
}

/* Calls on a pool with ranges stand between this, or the next, and leave_shared(). *@shared is NULL: it has none. */
static int try_shared(struct vpmm_pool *pool, struct held *held, struct shared **shared)
{
	int err = 0;

	*shared = NULL;
	if (!g_atomic_pointer_get(&pool->shared))
		return 0;
	held_begin(held);
	*shared = shared_hold(&pool->shared);
	if (*shared)
		err = pool->core.backend->ops->enter(pool->core.backend);
	if (*shared && !err)
		return 0;
	if (*shared)
		shared_drop(*shared);
	*shared = NULL;
	held_end(held);
	return err;
}

/* NULL: it has none, or the backend cannot be entered. */
static struct shared *enter_shared(struct vpmm_pool *pool, struct held *held)
{
	struct shared *shared;

	try_shared(pool, held, &shared);
	return shared;
}

static void leave_shared(struct vpmm_pool *pool, struct shared *shared, const struct held *held)
{
	pool->core.backend->ops->leave(pool->core.backend);
	shared_drop(shared);
	held_end(held);
}

int pool_shared_retire(struct vpmm_pool *pool, struct CUstream_st *stream)
{
	struct shared *shared;
	struct held held;
	int err;

	err = try_shared(pool, &held, &shared);
	if (!shared)
		return err;
	err = gates_retire(shared, stream);
	leave_shared(pool, shared, &held);
	return err;
}

bool pool_shared_give(struct vpmm_pool *pool, size_t size)
{
	struct error_kept kept;
	struct shared *shared;
	uint64_t bytes = 0;
	struct held held;

	error_keep(&kept);
	shared = enter_shared(pool, &held);
	if (shared) {
		bytes = piece_trim_device(shared);
		if (bytes < size) {
			migrate_evict(shared, size - bytes, 0);
			bytes += piece_trim_device(shared);
		}
		leave_shared(pool, shared, &held);
	}
	error_restore(&kept);
	return bytes;
}

size_t pool_shared_trim(struct vpmm_pool *pool, bool all)
{
	struct shared *shared;
	struct held held;
	size_t bytes;

	shared = enter_shared(pool, &held);
	if (!shared)
		return 0;
	if (all)
		shared_wait(&shared->trailing);
	bytes = piece_trim_device(shared);
	if (all)
		piece_trim_host(shared, 0);
	leave_shared(pool, shared, &held);
	return bytes;
}
