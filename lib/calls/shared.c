// SPDX-License-Identifier: LGPL-2.1-or-later
/* What calls on blocks and pools have to do with shared ranges. */
#include <errno.h>

#include "calls/pool.h"
#include "calls/shared.h"
#include "shared/gates.h"
#include "shared/migrate.h"
#include "shared/piece.h"
#include "util/cancel.h"
#include "util/error.h"

/* While pages move, a stream that is not at the gate yet must not get past it, so this waits for the move. */
static int add_user(struct shared *shared, const void *ptr, struct CUstream_st *stream)
{
	const struct backend_ops *ops = shared->core->backend->ops;
	struct range *range;
	int err;

	err = ops->enter(shared->core->backend);
	if (err)
		return err;
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
	return err;
}

bool pool_shared_use(struct vpmm_pool *pool, const void *ptr, struct CUstream_st *stream, int *err)
{
	struct shared *shared = NULL;
	const struct range *range;
	bool known = false;
	int cancel;

	if (!g_atomic_int_get(&shared_exist))
		return false;
	lock_acquire(&shared_lock);
	range = shared_find((uintptr_t)ptr);
	if (range && (!pool || range->shared == g_atomic_pointer_get(&pool->shared))) {
		shared = range->shared;
		known = gates_have(range, stream);
	}
	lock_release(&shared_lock);
	if (!shared)
		return false;
	cancel = cancel_hold();
	*err = known ? 0 : add_user(shared, ptr, stream);
	cancel_release(cancel);
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
		allocation->pool = (struct vpmm_pool *)range->shared->core;
		allocation->base = (void *)(uintptr_t)range->at;
		allocation->bytes = range->requested;
		allocation->device = range->shared->core->device;
	}
	lock_release(&shared_lock);
	return range;
}

void pool_shared_retire(struct vpmm_pool *pool, struct CUstream_st *stream)
{
	struct shared *shared = g_atomic_pointer_get(&pool->shared);
	int cancel;

	if (!shared)
		return;
	cancel = cancel_hold();
	if (!pool->core.backend->ops->enter(pool->core.backend)) {
		gates_retire(shared, stream);
		pool->core.backend->ops->leave(pool->core.backend);
	}
	cancel_release(cancel);
}

bool pool_shared_give(struct vpmm_pool *pool, size_t size)
{
	struct shared *shared = g_atomic_pointer_get(&pool->shared);
	struct error_kept kept;
	uint64_t bytes = 0;
	int cancel;

	if (!shared)
		return false;
	cancel = cancel_hold();
	error_keep(&kept);
	if (!pool->core.backend->ops->enter(pool->core.backend)) {
		bytes = piece_trim_device(shared);
		if (bytes < size) {
			migrate_evict(shared, size - bytes, 0);
			bytes += piece_trim_device(shared);
		}
		pool->core.backend->ops->leave(pool->core.backend);
	}
	error_restore(&kept);
	cancel_release(cancel);
	return bytes;
}

size_t pool_shared_trim(struct vpmm_pool *pool, bool all)
{
	struct shared *shared = g_atomic_pointer_get(&pool->shared);
	size_t bytes = 0;
	int cancel;

	if (!shared)
		return 0;
	cancel = cancel_hold();
	if (!pool->core.backend->ops->enter(pool->core.backend)) {
		if (all)
			shared_wait(&shared->trailing);
		bytes = piece_trim_device(shared);
		if (all)
			piece_trim_host(shared, 0);
		pool->core.backend->ops->leave(pool->core.backend);
	}
	cancel_release(cancel);
	return bytes;
}
