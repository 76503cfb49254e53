// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls of vpmm-shared.h, and what other calls have to do with shared ranges. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "api/api.h"
#include "calls/arena.h"
#include "shared/migrate.h"
#include "shared/mirror.h"
#include "shared/shared.h"
#include "util/error.h"
#include "util/held.h"
#include "util/sized.h"
#include "vpmm-host.h"

/* Held while a range is made. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static int no_range(const void *addr)
{
	return error_set(-EINVAL, "%p is in no shared range", addr);
}

/* The pool that a call on an address means, and its ranges, which are held from then on. */
static int find_pool(struct vpmm_pool **pool, struct shared **shared, const void *addr)
{
	struct range *range;
	int err;

	err = api_refuse_fork();
	if (err)
		return err;
	if (*pool) {
		*shared = shared_hold(&(*pool)->shared);
		return *shared ? 0 : error_set(-EINVAL, "%p: the pool has no shared ranges", addr);
	}
	lock_acquire(&shared_lock);
	range = shared_find((uintptr_t)addr);
	if (range) {
		*shared = range->shared;
		(*shared)->holds++;
		*pool = pool_of_core((*shared)->core);
	}
	lock_release(&shared_lock);
	return range ? 0 : no_range(addr);
}

static int enter_backend(struct vpmm_pool *pool)
{
	return pool->core.backend->ops->enter(pool->core.backend);
}

static int begin_at(struct vpmm_pool **pool, struct shared **shared, const void *addr)
{
	int err;

	err = find_pool(pool, shared, addr);
	if (err)
		return err;
	err = enter_backend(*pool);
	if (err)
		shared_drop(*shared);
	return err;
}

static void leave_backend(struct vpmm_pool *pool, struct shared *shared)
{
	pool->core.backend->ops->leave(pool->core.backend);
	shared_drop(shared);
}

static int end_at(struct vpmm_pool *pool, struct shared *shared, const char *call, int err)
{
	api_budget_end_call(pool);
	leave_backend(pool, shared);
	if (err >= 0)
		return err;
	error_add(err, "%s", call);
	return api_fail(pool, err);
}

/* What the pool has, or made and held. */
static int hold_or_make(struct vpmm_pool *pool, struct shared **shared)
{
	int err;

	*shared = shared_hold(&pool->shared);
	if (*shared)
		return 0;
	err = shared_new(&pool->core, shared);
	if (err)
		return err;
	lock_acquire(&shared_lock);
	(*shared)->holds++;
	g_atomic_pointer_set(&pool->shared, *shared);
	lock_release(&shared_lock);
	return 0;
}

static int begin_shared(struct vpmm_pool **pool, struct shared **shared, const char *call)
{
	int err;

	err = api_refuse_fork();
	if (!err)
		err = api_resolve(pool, call);
	if (!err)
		err = enter_backend(*pool);
	if (err)
		return err;
	pthread_mutex_lock(&making);
	err = hold_or_make(*pool, shared);
	pthread_mutex_unlock(&making);
	if (err)
		(*pool)->core.backend->ops->leave((*pool)->core.backend);
	return err;
}

static int make_shared_range(struct shared *shared, size_t size, unsigned int flags, uint64_t *at)
{
	int err;

	pthread_mutex_lock(&making);
	err = range_new(shared, size, flags & VPMM_SHARED_FINE, at);
	pthread_mutex_unlock(&making);
	return err;
}

/* @page: receives the bytes of a page, since one has to read as zero; untouched if the call cannot begin. */
static int try_alloc(struct vpmm_pool **pool, size_t size, unsigned int flags, uint64_t *at, size_t *page)
{
	struct shared *shared;
	struct held held;
	int err;

	held_begin(&held);
	err = begin_shared(pool, &shared, "vpmm_shared_alloc");
	if (!err) {
		*page = range_choose_page(shared, size, flags & VPMM_SHARED_FINE);
		err = make_shared_range(shared, size, flags, at);
		api_budget_end_call(*pool);
		leave_backend(*pool, shared);
	}
	held_end(&held);
	return err ? error_add(err, "vpmm_shared_alloc") : 0;
}

int vpmm_shared_alloc(struct vpmm_pool *pool, void **addr, size_t size, unsigned int flags)
{
	uint64_t at, until = 0;
	size_t page = 0;
	int err;

	if (!addr || !size)
		return error_set(-EINVAL, "vpmm_shared_alloc: %s", !addr ? "addr is NULL" : "size is 0");
	if (flags & ~VPMM_SHARED_FINE)
		return error_set(-EINVAL, "vpmm_shared_alloc: flags are %#x: expected 0 or VPMM_SHARED_FINE", flags);
	err = try_alloc(&pool, size, flags, &at, &page);
	while (err == -ENOMEM && page && size <= SHARED_RANGE_MOST && api_ask_for_pages(pool, page, page, &until))
		err = try_alloc(&pool, size, flags, &at, &page);
	if (err)
		return page ? api_fail(pool, err) : err;
	*addr = (void *)(uintptr_t)at;
	return 0;
}

/*
 * The result of a call on an address: @does works on @shared, the ranges that the address is in, with the backend
 * entered and signals held back.
 */
#define CALL_AT(pool, addr, call, does) \
	({ \
		struct vpmm_pool *pool_ = pool; \
		struct shared *shared; \
		struct held held_; \
		int err_; \
		\
		held_begin(&held_); \
		err_ = begin_at(&pool_, &shared, addr); \
		err_ = err_ ? error_add(err_, call) : end_at(pool_, shared, call, does); \
		held_end(&held_); \
		err_; \
	})

int vpmm_shared_free(struct vpmm_pool *pool, void *addr, struct CUstream_st *stream)
{
	return !addr ? 0 : CALL_AT(pool, addr, "vpmm_shared_free", range_free(shared, (uintptr_t)addr, stream));
}

static int check_location(const char *call, enum vpmm_location to)
{
	if (to == VPMM_HOST || to == VPMM_DEVICE)
		return 0;
	return error_set(-EINVAL, "%s: %d is no location", call, (int)to);
}

static int import(const char *call, const struct sized *sized, void *known, const void *ops)
{
	int err;

	err = sized_check(sized, "ops", ops);
	if (!err)
		err = sized_import(sized, known, ops);
	return err ? error_add(err, "%s", call) : 0;
}

int vpmm_migrate(struct vpmm_pool *pool, void *addr, size_t size, enum vpmm_location to, struct CUstream_st *stream,
		 const struct vpmm_migrate_ops *ops, void *data)
{
	struct vpmm_migrate_ops known;
	struct migration want = {
		.addr = (uintptr_t)addr,
		.size = size,
		.to = to,
		.stream = stream,
		.streamed = true,
		.data = data,
	};
	int err;

	err = check_location("vpmm_migrate", to);
	if (!err)
		err = api_check_stream(stream, "vpmm_migrate");
	if (!err && ops) {
		err = import("vpmm_migrate", &sized_migrate_ops, &known, ops);
		want.ops = &known;
	}
	return err ? err : CALL_AT(pool, addr, "vpmm_migrate", migrate_pages(shared, &want));
}

/* @missing: receives the bytes of pages that there is no device memory for. @begun: whether the call could begin. */
static int try_fault(struct vpmm_pool **pool, const struct migration *want, size_t *missing, bool *begun)
{
	struct error_kept kept;
	struct shared *shared;
	struct held held;
	int err;

	held_begin(&held);
	err = begin_at(pool, &shared, (void *)(uintptr_t)want->addr);
	*begun = !err;
	if (!err) {
		err = migrate_pages(shared, want);
		error_keep(&kept);
		*missing = err == -ENOMEM && want->to == VPMM_DEVICE ? migrate_missing(shared, want) : 0;
		error_restore(&kept);
		api_budget_end_call(*pool);
		leave_backend(*pool, shared);
	}
	held_end(&held);
	return err < 0 ? error_add(err, "vpmm_fault") : 0;
}

static int fault(struct vpmm_pool *pool, const struct migration *want)
{
	uint64_t until = 0;
	size_t missing = 0;
	bool begun;
	int err;

	err = try_fault(&pool, want, &missing, &begun);
	while (err == -ENOMEM && begun && missing && api_ask_for_pages(pool, want->size, missing, &until))
		err = try_fault(&pool, want, &missing, &begun);
	return err && begun ? api_fail(pool, err) : err;
}

int vpmm_fault(struct vpmm_pool *pool, void *addr, size_t size, enum vpmm_location to, unsigned int flags)
{
	size_t moved = 0;
	const struct migration want = { .addr = (uintptr_t)addr, .size = size, .to = to, .fill = true,
					.moved = &moved };
	int err;

	err = check_location("vpmm_fault", to);
	if (!err && flags)
		err = error_set(-EINVAL, "vpmm_fault: flags are %#x: expected 0", flags);
	if (!err)
		err = fault(pool, &want);
	return err ? err : (int)MIN(moved, INT_MAX);
}

/* The caller's array may be in a shared range, so it is written with no lock held. */
int vpmm_locate(struct vpmm_pool *pool, const void *addr, size_t size, struct vpmm_page *pages)
{
	struct vpmm_page *found = NULL;
	struct shared *shared;
	int count;

	count = find_pool(&pool, &shared, addr);
	if (!count) {
		count = migrate_locate(shared, (uintptr_t)addr, size, pages ? &found : NULL);
		shared_drop(shared);
	}
	if (count < 0)
		return error_add(count, "vpmm_locate");
	for (int i = 0; i < count && found; i++)
		pages[i] = found[i];
	g_free(found);
	return count;
}

int vpmm_advise(struct vpmm_pool *pool, void *addr, size_t size, enum vpmm_advice advice)
{
	struct shared *shared;
	struct held held;
	int err;

	if (advice != VPMM_ADVISE_NONE && advice != VPMM_ADVISE_PREFER_HOST && advice != VPMM_ADVISE_PREFER_DEVICE &&
	    advice != VPMM_ADVISE_READ_MOSTLY)
		return error_set(-EINVAL, "vpmm_advise: there is no advice %d", (int)advice);
	held_begin(&held);
	err = find_pool(&pool, &shared, addr);
	if (!err) {
		err = migrate_advise(shared, (uintptr_t)addr, size, advice);
		shared_drop(shared);
	}
	held_end(&held);
	return err ? error_add(err, "vpmm_advise") : 0;
}

int vpmm_pin(struct vpmm_pool *pool, void *addr, size_t size)
{
	return CALL_AT(pool, addr, "vpmm_pin", migrate_pin(shared, (uintptr_t)addr, size));
}

int vpmm_unpin(struct vpmm_pool *pool, void *addr, size_t size)
{
	struct shared *shared;
	int err;

	err = find_pool(&pool, &shared, addr);
	if (!err) {
		err = migrate_unpin(shared, (uintptr_t)addr, size);
		shared_drop(shared);
	}
	return err ? error_add(err, "vpmm_unpin") : 0;
}

int vpmm_shared_stats(struct vpmm_pool *pool, struct vpmm_shared_stats *stats)
{
	struct vpmm_shared_stats known = { 0 };
	int err;

	err = sized_check(&sized_shared_stats, "stats", stats);
	if (!err)
		err = api_refuse_fork();
	if (!err)
		err = api_resolve(&pool, "vpmm_shared_stats");
	if (err)
		return error_add(err, "vpmm_shared_stats");
	lock_acquire(&shared_lock);
	if (pool->shared)
		known = pool->shared->stats;
	lock_release(&shared_lock);
	sized_export(&sized_shared_stats, stats, &known);
	return 0;
}

/* No arena is made meanwhile; a later one does as the pool. */
static void watch_arenas(struct vpmm_pool *pool, struct shared *shared)
{
	lock_acquire(&pool->making);
	for_each_arena(arena, pool_tags(pool)) {
		lock_acquire(&arena->core.lock);
		mirror_watch(shared, &arena->core);
		lock_release(&arena->core.lock);
	}
	lock_release(&pool->making);
}

int vpmm_mirror_register(struct vpmm_pool *pool, struct vpmm_mirror **mirror, const struct vpmm_mirror_ops *ops,
			 void *data)
{
	struct vpmm_mirror *made = NULL;
	struct vpmm_mirror_ops known;
	struct shared *shared;
	struct held held;
	int err;

	if (!mirror)
		return error_set(-EINVAL, "vpmm_mirror_register: mirror is NULL");
	err = import("vpmm_mirror_register", &sized_mirror_ops, &known, ops);
	if (err)
		return err;
	if (!known.update)
		return error_set(-EINVAL, "vpmm_mirror_register: ops.update is NULL");
	held_begin(&held);
	err = begin_shared(&pool, &shared, "vpmm_mirror_register");
	if (!err) {
		mirror_add(shared, &made, &known, data);
		watch_arenas(pool, shared);
		leave_backend(pool, shared);
	}
	held_end(&held);
	if (err)
		return error_add(err, "vpmm_mirror_register");
	*mirror = made;
	return 0;
}

void vpmm_mirror_unregister(struct vpmm_mirror *mirror)
{
	struct held held;

	held_begin(&held);
	if (mirror && !api_refuse_fork())
		mirror_remove(mirror);
	held_end(&held);
}

void *vpmm_host_view(const void *addr)
{
	const struct range *range;
	uint64_t view = 0;

	if (api_refuse_fork())
		return NULL;
	lock_acquire(&shared_lock);
	range = shared_find((uintptr_t)addr);
	if (range)
		view = range->va + ((uintptr_t)addr - range->at);
	lock_release(&shared_lock);
	if (!view)
		no_range(addr);
	return (void *)(uintptr_t)view;
}
