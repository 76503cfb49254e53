// SPDX-License-Identifier: LGPL-2.1-or-later
/* The life of a pool. */
#include <errno.h>
#include <inttypes.h>

#include "budget/budget.h"
#include "calls/arena.h"
#include "calls/budget.h"
#include "calls/plan-file.h"
#include "calls/pool.h"
#include "core/account.h"
#include "core/alias.h"
#include "core/cache-flush.h"
#include "core/core.h"
#include "core/peer.h"
#include "core/small.h"
#include "pending/pending.h"
#include "policy/policy.h"
#include "settings/options.h"
#include "shared/shared.h"
#include "trace/sampler.h"
#include "util/error.h"
#include "util/text.h"
#include "warm/warm.h"

/* Everything but the backend. */
static void pool_give_back(struct vpmm_pool *pool)
{
	lock_acquire(&pool->core.lock);
	core_unmap(&pool->core);
	pending_clear(&pool->pending);
	lock_release(&pool->core.lock);
	core_clear(&pool->core);
	policy_clear(&pool->packed);
	pool_budget_leave(pool);
}

static const enum backend_handles handles[] = {
	[VPMM_EXPORT_NONE] = BACKEND_HANDLES_NONE,
	[VPMM_EXPORT_FD] = BACKEND_HANDLES_FD,
	[VPMM_EXPORT_FABRIC] = BACKEND_HANDLES_FABRIC,
	[VPMM_EXPORT_AUTO] = BACKEND_HANDLES_FD,
};

/* Errors name the options, of which the backend knows nothing. */
static int configure(struct backend *backend, struct settings *settings)
{
	const struct option *export = &pool_options[OPTION_EXPORT], *rdma = &pool_options[OPTION_RDMA];
	bool may_do_without = settings->export_as == VPMM_EXPORT_AUTO;
	int err;

	err = backend->ops->configure(backend, handles[settings->export_as], settings->rdma);
	if (may_do_without)
		settings->export_as = err == -ENOTSUP ? VPMM_EXPORT_NONE : VPMM_EXPORT_FD;
	if (err == -ENOTSUP && may_do_without)
		err = backend->ops->configure(backend, BACKEND_HANDLES_NONE, settings->rdma);
	if (err && settings->rdma)
		error_add(err, "%s (%s)", rdma->field, rdma->variable);
	if (err && settings->export_as != VPMM_EXPORT_NONE)
		error_add(err, "%s (%s)", export->field, export->variable);
	return err;
}

/* The name of a file with what % stands for; valid as long as the process. */
static const char *expand_name(const char *name)
{
	size_t size = name_expand(name, NULL, 0) + 1;
	char *expanded = g_malloc(size);
	const char *kept;

	name_expand(name, expanded, size);
	kept = g_intern_string(expanded);
	g_free(expanded);
	return kept;
}

static struct vpmm_pool *prepare(struct backend *backend, const struct backend_info *info,
				 const struct settings *settings)
{
	struct vpmm_pool *made = g_aligned_alloc0(1, sizeof(*made), _Alignof(struct vpmm_pool));

	lock_init(&made->making, LOCK_ARENAS);
	core_init(&made->core, backend, info, settings);
	pending_init(&made->pending, &made->core);
	policy_init(&made->core, &made->packed, info);
	return made;
}

/* What a plan has, or VPMM_PAGES. */
static int create_first(struct vpmm_pool *pool, const struct backend_info *info)
{
	struct warm *warm = pool->plan ? plan_file_read(pool, info) : NULL;
	int err = initial_create(&pool->core, warm);

	if (warm)
		warm_free(warm);
	return err;
}

int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings)
{
	struct settings fitting = *settings;
	struct backend_info info;
	struct error_kept kept;
	struct budget *budget = NULL;
	struct vpmm_pool *made;
	int err = 0;

	/* The granularity depends on it. */
	if (fitting.export_as != VPMM_EXPORT_NONE || fitting.rdma)
		err = configure(backend, &fitting);
	if (!err)
		err = backend->ops->info(backend, &info);
	if (err)
		return err;
	err = settings_fit(&fitting, &info);
	if (!err)
		err = pool_budget_join(&fitting, &info, &budget);
	if (err)
		return err;
	if (fitting.oom_dump)
		fitting.oom_dump = expand_name(fitting.oom_dump);
	if (fitting.plan)
		fitting.plan = expand_name(fitting.plan);

	made = prepare(backend, &info, &fitting);
	made->core.extents.budget = budget;
	if (fitting.plan && fitting.page_size != SIZE_MAX)
		plan_file_begin(made, &info);
	lock_acquire(&made->core.lock);
	err = peer_begin(&made->core);
	if (!err)
		err = create_first(made, &info);
	account_tell(&made->core);
	lock_release(&made->core.lock);
	if (err)
		goto err_release;
	plan_file_settle(made);
	log_add(&made->core.log, VPMM_LOG_INFO, "pool created on %s device %d, %s, with pages of %zu bytes", info.name,
		info.device, info.device_name, fitting.page_size);
	if (info.mapless)
		log_add(&made->core.log, VPMM_LOG_WARNING, "%s device %d has no virtual memory management: its driver's "
			"allocator serves every request", info.name, info.device);
	if (fitting.budget_floor && !fitting.budget)
		log_add(&made->core.log, VPMM_LOG_WARNING, "budget_floor (VPMM_BUDGET_FLOOR) keeps nothing for the pool: it "
			"has no budget (VPMM_BUDGET)");
	*pool = made;
	return 0;

err_release:
	error_keep(&kept);
	plan_file_end(made);
	sampler_free(made->core.sampler);
	log_finish(&made->core.log);
	pool_give_back(made);
	budget_free(budget);
	lock_destroy(&made->core.lock);
	lock_destroy(&made->making);
	g_aligned_free(made);
	error_restore(&kept);
	return err;
}

int pool_new_behind(struct vpmm_pool **pool, struct vpmm_pool *parent)
{
	struct backend *backend = parent->core.backend;
	struct settings settings;
	struct backend_info info;
	struct vpmm_pool *made;
	int err;

	err = backend->ops->info(backend, &info);
	if (err)
		return err;
	lock_acquire(&parent->core.lock);
	settings = parent->core.settings;
	lock_release(&parent->core.lock);
	made = prepare(backend, &info, &settings);
	made->core.extents.budget = parent->core.extents.budget;
	made->core.extents.taken = parent->core.extents.taken;
	made->core.extents.all_held = parent->core.extents.all_held;
	made->core.extents.most = parent->core.extents.most;
	lock_acquire(&parent->core.lock);
	made->core.extents.losing = parent->core.extents.losing;
	made->core.extents.regained = parent->core.extents.regained;
	made->core.extents.told_data = parent->core.extents.told_data;
	lock_release(&parent->core.lock);
	made->core.generation = parent->core.generation;
	made->core.recorder = parent->core.recorder;
	made->core.recorded_as = parent->core.recorded_as;
	made->core.direct = parent->core.direct;
	*pool = made;
	return 0;
}

/* Errors are ignored: release all that can be released. */
static void pool_drain(struct vpmm_pool *pool)
{
	cache_drain(&pool->core);
	/* Silent streams have no event either. */
	if (g_hash_table_size(pool->pending.silent))
		pool->core.backend->ops->sync(pool->core.backend);
	stream_sync_busy(&pool->core.streams);
	zombie_reap(&pool->core);
}

/*
 * Blocks of the driver's allocator went with the context; shareable memory did not. A stream of the pool's own frees
 * them, as the legacy default stream refuses to beside a capture; without memory for a stream, that one does.
 */
static void free_small(struct vpmm_pool *pool, bool gone)
{
	struct backend *be = pool->core.backend;
	struct CUstream_st *stream = NULL;
	GHashTableIter iter;
	gpointer small;

	if (!gone && g_hash_table_size(pool->core.small) && be->ops->stream_create(be, &stream))
		stream = NULL;
	g_hash_table_iter_init(&iter, pool->core.small);
	while (g_hash_table_iter_next(&iter, NULL, &small)) {
		if (gone && !((struct small *)small)->shareable)
			continue;
		/* No later call could try again. */
		if (small_release(&pool->core, small, stream))
			small_release(&pool->core, small, stream);
	}
	if (stream)
		be->ops->stream_destroy(be, stream);
}

static void arena_clear(struct arena *arena)
{
	g_ptr_array_free(arena->pieces, TRUE);
	g_array_free(arena->saved, TRUE);
	g_array_free(arena->dropped, TRUE);
	g_free(arena);
}

/* @keep: the structures stay for threads that still find them. */
static void arenas_end(struct vpmm_pool *pool, enum pool_end end, bool keep)
{
	struct tags *tags = pool_tags(pool);

	for_each_arena(arena, tags) {
		address_end(&arena->core.owner);
		store_give(&tags->store, arena->arena->pieces);
		if (keep)
			pool_empty(arena, end);
		else
			pool_delete(arena, end);
	}
	if (tags && keep)
		store_trim(&tags->store, 0);
	else if (tags)
		tags_delete(tags);
}

/* @keep: as for arenas_end(). */
static void pool_finish(struct vpmm_pool *pool, enum pool_end end, bool keep)
{
	struct shared *shared = shared_take(&pool->shared);

	plan_file_end(pool);
	/*
	 * Another pool may sample a block at an address as soon as this one has given the address back. The pointer
	 * stays, as threads that still find the pool compare it.
	 */
	sampler_free(pool->core.sampler);
	arenas_end(pool, end, keep);
	if (shared)
		shared_empty(shared, end == POOL_END_WAIT);
	lock_acquire(&pool->core.lock);
	if (end == POOL_END_WAIT)
		pool_drain(pool);
	free_small(pool, end == POOL_END_GONE);
	lock_release(&pool->core.lock);
	pool_give_back(pool);
	if (shared)
		shared_delete(shared);
}

void pool_delete(struct vpmm_pool *pool, enum pool_end end)
{
	pool_finish(pool, end, false);
	if (!pool->arena)
		budget_free(pool->core.extents.budget);
	log_finish(&pool->core.log);
	if (pool->arena)
		arena_clear(pool->arena);
	lock_destroy(&pool->core.lock);
	lock_destroy(&pool->making);
	g_aligned_free(pool);
}

void pool_empty(struct vpmm_pool *pool, enum pool_end end)
{
	GList *messages;

	/* Calls that cannot enter any more may log their failure at any time, so the lock and the log stay good. */
	lock_acquire(&pool->core.lock);
	stream_map_end(&pool->core.streams);
	messages = log_take(&pool->core.log);
	pool->core.log.level = VPMM_LOG_NONE;
	lock_release(&pool->core.lock);
	log_deliver(&pool->core.log, messages);
	pool_finish(pool, end, true);
	g_atomic_int_set(&pool->end, POOL_GONE);
}

void pool_announce_end(struct vpmm_pool *pool)
{
	struct cache_sums cached;

	lock_assert_held(&pool->core.lock);
	cache_sum(&pool->core, &cached);
	log_add(&pool->core.log, VPMM_LOG_INFO, "pool destroyed after %" PRIu64 " allocations",
		pool->core.counts.mallocs + cached.mallocs);
}
