// SPDX-License-Identifier: LGPL-2.1-or-later
/* The life of a pool. */
#include "calls/pool.h"
#include "core/account.h"
#include "core/alias.h"
#include "core/core-life.h"
#include "core/small.h"
#include "pending/flush.h"
#include "pending/pending-life.h"
#include "policy/initial.h"
#include "policy/policy.h"
#include "util/error.h"

/* Everything but the backend. */
static void pool_give_back(struct vpmm_pool *pool)
{
	lock_acquire(&pool->core.lock);
	core_unmap(&pool->core);
	pending_clear(&pool->pending);
	lock_release(&pool->core.lock);
	core_clear(&pool->core);
}

int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings)
{
	struct settings fitting = *settings;
	struct backend_info info;
	struct error_kept kept;
	struct vpmm_pool *made;
	int err;

	err = backend->ops->info(backend, &info);
	if (err)
		return err;
	err = settings_fit(&fitting, &info);
	if (err)
		return err;

	made = g_aligned_alloc0(1, sizeof(*made), _Alignof(struct vpmm_pool));
	core_init(&made->core, backend, &info, &fitting);
	pending_init(&made->pending, &made->core);
	policy_init(&made->core, &made->packed, &info);
	lock_acquire(&made->core.lock);
	err = initial_create(&made->core);
	lock_release(&made->core.lock);
	if (err)
		goto err_release;
	log_add(&made->core.log, VPMM_LOG_INFO, "pool created on %s device %d, %s, with pages of %zu bytes", info.name,
		info.device, info.device_name, fitting.page_size);
	*pool = made;
	return 0;

err_release:
	error_keep(&kept);
	log_finish(&made->core.log);
	pool_give_back(made);
	g_aligned_free(made);
	error_restore(&kept);
	return err;
}

/* Errors are ignored: release all that can be released. */
static void pool_drain(struct vpmm_pool *pool)
{
	cache_drain(&pool->core);
	/* Silent streams, and clears of the driver's allocations, have no event either. */
	if (g_hash_table_size(pool->pending.silent) || (pool->core.small_cleared && g_hash_table_size(pool->core.small)))
		pool->core.backend->ops->sync(pool->core.backend);
	stream_sync_busy(&pool->core.streams);
	zombie_reap(&pool->core);
}

void pool_delete(struct vpmm_pool *pool)
{
	struct backend *be = pool->core.backend;
	GHashTableIter iter;
	gpointer small;

	lock_acquire(&pool->core.lock);
	pool_drain(pool);
	g_hash_table_iter_init(&iter, pool->core.small);
	while (g_hash_table_iter_next(&iter, NULL, &small)) {
		uint64_t addr = ((struct small *)small)->addr;

		/* No later call could try again. */
		if (be->ops->small_free(be, addr, NULL))
			be->ops->small_free(be, addr, NULL);
	}
	lock_release(&pool->core.lock);
	log_finish(&pool->core.log);
	pool_give_back(pool);
	g_aligned_free(pool);
}

void pool_announce_end(struct vpmm_pool *pool)
{
	struct cache_sums cached;

	lock_assert_held(&pool->core.lock);
	cache_sum(&pool->core, &cached);
	log_add(&pool->core.log, VPMM_LOG_INFO, "pool destroyed after %" G_GUINT64_FORMAT " allocations",
		pool->core.counts.mallocs + cached.mallocs);
}
