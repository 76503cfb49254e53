// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that create and destroy pools; default pools; which pool a call means; and what a fork does. */
#include <errno.h>
#include <glib.h>
#include <pthread.h>

#include "api/api.h"
#include "budget/budget.h"
#include "calls/arena.h"
#include "calls/free.h"
#include "calls/note.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "calls/shared.h"
#include "settings/settings.h"
#include "shared/shared.h"
#include "trace/recorder.h"
#include "util/address-index.h"
#include "util/cancel.h"
#include "util/error.h"
#include "util/lock.h"
#include "util/sized.h"
#include "util/tag.h"

struct api_defaults api_defaults = { .lock = LOCK_INIT(LOCK_DEFAULTS) };

/* Pools that exist, and calls that are creating one. */
static gint pools;

/* If no pool was ever created, the child can use the library from the start. */
static void begin_child(void)
{
	if (g_atomic_int_get(&pools))
		api_defaults.generation++;
	if (!api_tagged())
		atomic_store_explicit(&api_defaults.plain_generation, api_defaults.generation, memory_order_relaxed);
	budget_forked();
	control_forked();
	top_forked();
	shared_forked();
	tag_forked();
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, begin_child);
}

/* Before a lock is taken that no child gets anew; see api_refuse_fork(). */
static void begin_making(void)
{
	g_atomic_int_inc(&pools);
}

/* Creating the pool has failed, and no lock is held any more. */
static void end_making(void)
{
	g_atomic_int_add(&pools, -1);
}

/* Begins to record and to publish the pool, which is gone if that fails. */
static int begin_to_tell(struct vpmm_pool *pool, const struct settings *settings)
{
	struct error_kept kept;
	int err;

	err = settings->top ? top_join(pool) : 0;
	if (err)
		goto err_delete;
	err = note_begin(pool, settings->trace);
	if (!err)
		return 0;
	top_leave(pool);
err_delete:
	error_keep(&kept);
	pool_delete(pool, POOL_END_WAIT);
	error_restore(&kept);
	return err;
}

/* The log callback may use the pool once more, and even destroy it, so it is called before anything is freed. */
static void announce_end(struct vpmm_pool *pool)
{
	GList *messages;

	g_atomic_int_set(&pool->end, POOL_GOING);
	lock_acquire(&pool->core.lock);
	pool_announce_end(pool);
	messages = log_take(&pool->core.log);
	lock_release(&pool->core.lock);
	log_deliver(&pool->core.log, messages);
}

/* Frees all of the pool but its backend, and, as @delete does it, the structure. */
static void take_down_pool(struct vpmm_pool *pool, enum pool_end end,
			   void (*delete)(struct vpmm_pool *pool, enum pool_end end))
{
	struct backend *be = pool->core.backend;
	int err;

	control_leave(pool);
	api_budget_end(pool);
	address_end(&pool->core.owner);
	top_leave(pool);
	announce_end(pool);
	note_end(pool);
	/* A lost device cannot be entered; host memory is freed all the same. */
	err = be->ops->enter(be);
	if (err == -ESTALE) {
		end = POOL_END_GONE;
		err = be->ops->abandon(be);
	}
	delete(pool, end);
	if (!err)
		be->ops->leave(be);
}

int api_refuse_fork(void)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;

	/* Before any lock of the process is taken: a fork could leave it locked in the child. */
	pthread_once(&watched, watch_forks);
	return api_is_forked() ? error_set(-EBUSY, "the process was forked from one that had used the library") : 0;
}

/* @call: the name of the failing call, for the log. */
static int create(struct vpmm_pool **pool, const struct vpmm_opts *opts, const char *call)
{
	struct settings settings;
	struct error_kept kept;
	struct backend *be;
	struct log log;
	int err;

	/* The driver and the host backend work in the parent only. */
	err = api_refuse_fork();
	if (!err)
		err = settings_from_opts(&settings, opts);
	if (err)
		return err;
	if (tag_has_default())
		atomic_store(&api_defaults.plain_generation, API_PLAIN_NEVER);
	begin_making();
	err = backend_open(settings.backend, settings.device, &be);
	if (err)
		goto err_log;
	err = be->ops->enter(be);
	if (err)
		goto err_close;
	err = pool_new(pool, be, &settings);
	if (!err)
		err = begin_to_tell(*pool, &settings);
	be->ops->leave(be);
	if (err)
		goto err_close;
	(*pool)->core.generation = api_defaults.generation;
	address_open(&(*pool)->core.owner, *pool);
	api_budget_begin(*pool);
	log_deliver(&(*pool)->core.log, log_take(&(*pool)->core.log));
	err = control_join(*pool);
	if (!err)
		return 0;
	error_keep(&kept);
	take_down_pool(*pool, POOL_END_WAIT, pool_delete);
	error_restore(&kept);

err_close:
	error_keep(&kept);
	be->ops->close(be);
	error_restore(&kept);
err_log:
	log_init(&log, settings.log_level, settings.log, settings.log_data);
	log_add(&log, VPMM_LOG_ERROR, "%s: %s", call, error_get());
	log_finish(&log);
	end_making();
	return err;
}

int vpmm_pool_create(struct vpmm_pool **pool, const struct vpmm_opts *opts)
{
	struct vpmm_pool *made;
	int err, cancel;

	if (!pool)
		return error_set(-EINVAL, "vpmm_pool_create: pool is NULL");
	cancel = cancel_hold();
	err = create(&made, opts, "vpmm_pool_create");
	cancel_release(cancel);
	if (err)
		return error_add(err, "vpmm_pool_create");
	*pool = made;
	return 0;
}

static void take_down_and_close(struct vpmm_pool *pool, enum pool_end end)
{
	struct backend *be = pool->core.backend;

	take_down_pool(pool, end, pool_delete);
	be->ops->close(be);
}

/* Of a pool that is gone. */
static const struct api_here nowhere;

/* Of struct api_here: all there ever were, as a thread may come back to one after any time. Under api_defaults.lock. */
static GSList *places;

static bool is_default(const struct vpmm_pool *pool)
{
	for (unsigned int i = 0; i < API_DEFAULT_POOLS; i++) {
		if (g_atomic_pointer_get(&api_defaults.pools[i]) == pool)
			return true;
	}
	return false;
}

REQUIRES(api_defaults.lock)
static void forget_default(const struct vpmm_pool *pool)
{
	for (unsigned int i = 0; i < API_DEFAULT_POOLS; i++) {
		if (api_defaults.pools[i] == pool)
			g_atomic_pointer_set(&api_defaults.pools[i], NULL);
	}
	for (unsigned int i = 0; api_defaults.here[i]; i++) {
		if (api_defaults.here[i]->pool == pool)
			g_atomic_pointer_set(&api_defaults.here[i], &nowhere);
	}
}

static bool claim_end(struct vpmm_pool *pool)
{
	return g_atomic_int_compare_and_exchange(&pool->end, POOL_USABLE, POOL_GOING);
}

/*
 * Returns whether this thread ends the pool. The pool is no default pool afterwards, so a thread that came second finds
 * or creates the next one. The claim comes first, as vpmm_pool_destroy() would end a pool that is no default pool.
 */
static bool claim_default_end(struct vpmm_pool *pool)
{
	bool claimed;

	lock_acquire(&api_defaults.lock);
	claimed = claim_end(pool);
	if (claimed)
		forget_default(pool);
	lock_release(&api_defaults.lock);
	return claimed;
}

void vpmm_pool_destroy(struct vpmm_pool *pool)
{
	int cancel;

	/* In a forked child there is nothing to free, and the driver does not work. */
	if (!pool || pool->core.generation != api_defaults.generation || is_default(pool) || !claim_end(pool))
		return;
	cancel = cancel_hold();
	take_down_and_close(pool, POOL_END_WAIT);
	cancel_release(cancel);
}

/* Of struct vpmm_pool: default pools that have ended. Under api_defaults.lock. */
static GSList *ended;

/* Other threads may still come from where they found the pool, so its structure and its backend's stay. */
static void end_default(struct vpmm_pool *pool) __attribute__((cold));
static void end_default(struct vpmm_pool *pool)
{
	int cancel = cancel_hold();

	if (claim_default_end(pool)) {
		take_down_pool(pool, POOL_END_GONE, pool_empty);
		lock_acquire(&api_defaults.lock);
		ended = g_slist_prepend(ended, pool);
		lock_release(&api_defaults.lock);
	}
	cancel_release(cancel);
}

/* That of the current device; NULL: there is none. */
static int find_default(struct vpmm_pool **pool)
{
	const struct backend_ops *ops = g_atomic_pointer_get(&api_defaults.ops);
	int device, err;

	if (!ops)
		return 0;
	err = ops->current_device(&device);
	if (!err && device < API_DEFAULT_POOLS)
		*pool = g_atomic_pointer_get(&api_defaults.pools[device]);
	return err;
}

int vpmm_pool_abandon(struct vpmm_pool *pool)
{
	int err, cancel;
	bool claimed;

	err = api_refuse_fork();
	if (!err && !pool)
		err = find_default(&pool);
	if (err || !pool)
		return err ? error_add(err, "vpmm_pool_abandon") : 0;
	cancel = cancel_hold();
	claimed = claim_default_end(pool);
	if (claimed)
		take_down_and_close(pool, POOL_END_NOW);
	cancel_release(cancel);
	/* A default pool that has ended has nothing left. */
	if (claimed || g_atomic_int_get(&pool->end) == POOL_GONE)
		return 0;
	return error_set(-EBUSY, "vpmm_pool_abandon: the pool is being destroyed");
}

/* Whether a block starts at @addr. Return: 0; -EINVAL: @addr is inside of one, which the error names. */
static int look_for_block(struct vpmm_pool *pool, uint64_t addr, bool *has)
{
	struct vpmm_allocation around = { .size = sizeof(around) };
	int err;

	lock_acquire(&pool->core.lock);
	*has = pool_knows(pool, addr);
	err = *has || lookup_pool(pool, addr, &around) ? 0 : lookup_refuse(pool, addr);
	lock_release(&pool->core.lock);
	return err;
}

/* The pool that has an address, which stays until address_leave(); NULL: none. */
static struct vpmm_pool *visit_owner(uint64_t addr, struct address_owner **owner)
{
	/* Without pools a fork may have left the lock to the child. */
	return g_atomic_int_get(&pools) ? address_visit(addr, owner) : NULL;
}

int api_owner(uint64_t addr, struct vpmm_pool **pool)
{
	struct address_owner *owner;
	int cancel = cancel_hold(), err = 0;
	struct vpmm_pool *found = visit_owner(addr, &owner);
	bool has = false;

	if (found) {
		if (found != *pool)
			err = look_for_block(found, addr, &has);
		address_leave(owner);
	}
	cancel_release(cancel);
	*pool = has ? found : *pool;
	return err;
}

/* As lookup_pool(). */
static int find_allocation(uint64_t addr, struct vpmm_allocation *allocation)
{
	struct address_owner *owner;
	struct vpmm_pool *pool = visit_owner(addr, &owner);
	int err;

	if (!pool)
		return pool_shared_lookup(addr, allocation) ? 0 : -EINVAL;
	lock_acquire(&pool->core.lock);
	err = lookup_pool(pool, addr, allocation);
	lock_release(&pool->core.lock);
	if (!err)
		allocation->pool = arena_root(pool);
	address_leave(owner);
	return err;
}

int vpmm_lookup(const void *addr, struct vpmm_allocation *allocation)
{
	struct vpmm_allocation known = { .size = sizeof(known) };
	int err, cancel;

	err = sized_check(&sized_allocation, "allocation", allocation);
	if (!err)
		err = api_refuse_fork();
	if (err)
		return error_add(err, "vpmm_lookup");
	cancel = cancel_hold();
	err = find_allocation((uintptr_t)addr, &known);
	cancel_release(cancel);
	if (err == -EALREADY)
		return error_set(err, "vpmm_lookup: the allocation at %p was freed, and work still uses it", addr);
	if (err)
		return error_set(err, "vpmm_lookup: no pool has an allocation at %p", addr);
	sized_export(&sized_allocation, allocation, &known);
	return 0;
}

/* With api_defaults.lock held. A reader that has found a place finds its pool, whatever comes into the entry then. */
static void add_place(struct vpmm_pool *pool)
{
	struct api_here *here;
	unsigned int i = 0;

	if (!pool->core.place)
		return;
	here = g_new(struct api_here, 1);
	*here = (struct api_here){ pool->core.place, pool };
	places = g_slist_prepend(places, here);
	while (api_defaults.here[i] && api_defaults.here[i] != &nowhere)
		i++;
	g_atomic_pointer_set(&api_defaults.here[i], here);
}

/* Creates the default pool of the current device, unless another thread has. @call: the call that needs it. */
static int create_default(struct vpmm_pool **pool, const char *call)
{
	struct error_kept kept;
	int err = 0, cancel = cancel_hold();
	struct vpmm_pool *made;

	begin_making();
	lock_acquire(&api_defaults.lock);
	/* Another thread may have been here first; its device need not be this thread's. */
	if (api_defaults.ops) {
		int device;

		err = api_defaults.ops->current_device(&device);
		if (err)
			goto out;
		*pool = device < API_DEFAULT_POOLS ? api_defaults.pools[device] : NULL;
		if (*pool)
			goto out;
	}
	err = create(&made, NULL, call);
	if (err)
		goto out;
	if (made->core.device >= API_DEFAULT_POOLS) {
		err = error_set(-ENODEV, "device %d has no default pool: only the first %d have", made->core.device,
				API_DEFAULT_POOLS);
		goto err_destroy;
	}
	/* With "auto", one device may be a GPU and another not. Ordinals of two backends do not mix. */
	if (api_defaults.ops && api_defaults.ops != made->core.backend->ops) {
		err = error_set(-ENODEV, "device %d is of the %s backend, and the default pools are of the %s backend",
				made->core.device, made->core.backend->ops->name, api_defaults.ops->name);
		goto err_destroy;
	}
	g_atomic_pointer_set(&api_defaults.pools[made->core.device], made);
	add_place(made);
	g_atomic_pointer_set(&api_defaults.ops, made->core.backend->ops);
	*pool = made;
	goto out;

err_destroy:
	error_keep(&kept);
	take_down_and_close(made, POOL_END_WAIT);
	error_restore(&kept);
out:
	lock_release(&api_defaults.lock);
	/* One that was made counts by itself. */
	end_making();
	cancel_release(cancel);
	return err;
}

int api_find_default(struct vpmm_pool **pool)
{
	struct vpmm_pool *found = NULL;
	int err;

	err = find_default(&found);
	if (err || !found)
		return err;
	if (G_UNLIKELY(found->core.backend->ops->gone(found->core.backend))) {
		end_default(found);
		/* Another thread may have made the next one already. */
		found = NULL;
		err = find_default(&found);
	}
	if (!err && found)
		*pool = found;
	return err;
}

int api_resolve(struct vpmm_pool **pool, const char *call)
{
	int err;

	if (G_LIKELY(*pool))
		return 0;
	err = api_find_default(pool);
	if (!err && !*pool)
		err = api_refuse_fork();
	return err || *pool ? err : create_default(pool, call);
}

int api_resolve_for(struct vpmm_pool **pool, const char *call)
{
	int err = api_resolve(pool, call);

	return err ? error_add(err, "%s", call) : 0;
}

int api_find_owner(struct vpmm_pool **pool, const void *ptr)
{
	int err = api_refuse_fork();

	if (err)
		return err;
	err = api_owner((uintptr_t)ptr, pool);
	if (err)
		return error_add(err, "%p", ptr);
	return *pool ? 0 : error_set(-EINVAL, "%p: no pool has an allocation that starts there", ptr);
}

int api_resolve_owner(struct vpmm_pool **pool, const void *ptr, const char *call)
{
	int err;

	if (*pool)
		return 0;
	err = api_find_default(pool);
	if (!err)
		err = api_find_owner(pool, ptr);
	return err ? error_add(err, "%s", call) : 0;
}

int api_check_stream(const struct CUstream_st *stream, const char *call)
{
	if (stream == VPMM_STREAM_ANY)
		return error_set(-EINVAL, "%s: VPMM_STREAM_ANY is for vpmm_free(), vpmm_malloc_aligned(), "
				 "vpmm_shared_free() and vpmm_resume() alone", call);
	return 0;
}
