// SPDX-License-Identifier: LGPL-2.1-or-later
/* The beginning and the end of a call: the process, the backend, the lock, the log. */
#include <errno.h>

#include "api/api.h"
#include "calls/budget.h"
#include "core/account.h"
#include "util/cancel.h"
#include "util/error.h"

static int refuse_generation(void) __attribute__((cold));
static int refuse_generation(void)
{
	return error_set(-EBUSY, "the pool belongs to the process that this one was forked from");
}

int api_enter_pool(struct vpmm_pool *pool)
{
	if (G_UNLIKELY(pool->core.generation != api_defaults.generation))
		return refuse_generation();
	return pool->core.backend->ops->enter(pool->core.backend);
}

void api_lock(struct vpmm_pool *pool)
{
	int cancel = cancel_hold();

	lock_acquire(&pool->core.lock);
	pool->cancel = cancel;
}

int api_leave(struct vpmm_pool *pool, int err)
{
	int cancel = pool->cancel;
	uint64_t asked = 0;
	GList *messages;

	if (G_UNLIKELY(pool->core.extents.budget))
		asked = pool_budget_end_call(pool);
	messages = log_take(&pool->core.log);
	lock_release(&pool->core.lock);
	if (G_UNLIKELY(asked))
		api_budget_give(pool, asked);
	pool->core.backend->ops->leave(pool->core.backend);
	if (G_UNLIKELY(messages))
		log_deliver(&pool->core.log, messages);
	cancel_release(cancel);
	if (err)
		errno = -err;
	return err;
}

/* Ends a call that has failed, and logs that. */
static int pool_leave(struct vpmm_pool *pool, int err) RELEASE(pool->core.lock);
static int pool_leave(struct vpmm_pool *pool, int err)
{
	if (err)
		log_add(&pool->core.log, VPMM_LOG_ERROR, "%s", error_get());
	return api_leave(pool, err);
}

/*
 * Logs the failure of a call that has left the pool already. What it undid may have given memory back. In a forked
 * child the pool has no log, as another thread may have had its lock when the process was forked.
 */
int api_fail(struct vpmm_pool *pool, int err)
{
	GList *messages;
	int cancel;

	if (G_UNLIKELY(pool->core.generation != api_defaults.generation))
		goto out;
	cancel = cancel_hold();
	lock_acquire(&pool->core.lock);
	log_add(&pool->core.log, VPMM_LOG_ERROR, "%s", error_get());
	messages = log_take(&pool->core.log);
	account_tell(&pool->core);
	lock_release(&pool->core.lock);
	log_deliver(&pool->core.log, messages);
	cancel_release(cancel);
out:
	errno = -err;
	return err;
}

int api_enter(struct vpmm_pool **pool, const char *call)
{
	int err;

	err = api_resolve(pool, call);
	if (!err)
		err = api_enter_pool(*pool);
	return G_UNLIKELY(err) ? error_add(err, "%s", call) : 0;
}

/* Every other call on a pool stands between these two. */
int api_begin(struct vpmm_pool **pool, const char *call)
{
	int err;

	err = api_enter(pool, call);
	if (!err)
		api_lock(*pool);
	return err;
}

int api_part(struct vpmm_pool *pool, const char *call, int err)
{
	if (err)
		error_add(err, "%s", call);
	return api_leave(pool, err);
}

int api_end(struct vpmm_pool *pool, const char *call, int err)
{
	if (err)
		error_add(err, "%s", call);
	return pool_leave(pool, err);
}
