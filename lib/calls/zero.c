// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_ZERO: clears what was just allocated, or frees it again. */
#include "calls/arena.h"
#include "calls/free.h"
#include "calls/note.h"
#include "calls/pool.h"
#include "calls/submission.h"
#include "calls/zero.h"
#include "core/allocation.h"
#include "core/owner.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "util/error.h"

/* Sets an allocation aside, and counts the free: each allocation has one. */
static void set_aside_counted(struct vpmm_pool *pool, uint64_t addr)
{
	struct region *region = live_find(&pool->core, addr);
	struct small *small = region ? NULL : small_find(&pool->core, addr);

	if (!region && !small)
		return;
	if (region)
		submission_set_aside_block(pool, region);
	else
		hold_aside(&pool->pending, small);
	pool->core.counts.frees++;
}

/* The program has not had it, so no stream owns what is there: a resize may have copied another's contents. */
void zero_undo(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	const struct region *region = live_find(&pool->core, addr);
	size_t size = region ? region->size : 0;
	struct error_kept kept;

	error_keep(&kept);
	if (pool_free(pool, addr, handle))
		set_aside_counted(pool, addr);
	else
		owner_lose(&pool->core, addr, size);
	pool->core.counts.undone++;
	error_restore(&kept);
}

static int cover_cleared(struct submission *s, uint64_t addr)
{
	struct core *core = &s->pool->core;
	struct region *region = live_find(core, addr);
	struct stream *stream;
	int err;

	if (region)
		return submission_cover(s, region);
	err = stream_get(&core->streams, s->handle, &stream);
	return err ? err : submission_cover_small(s, small_find(core, addr), stream);
}

int zero_block(struct vpmm_pool *pool, uint64_t addr, size_t size, struct CUstream_st *handle)
{
	struct backend *be = pool->core.backend;
	struct submission s = { .pool = pool };
	uint64_t capture = 0;
	int err;

	/* Another thread may have paused the arena since: the block has no memory then. */
	lock_acquire(&pool->core.lock);
	err = arena_judge(pool);
	/* On the default stream beside a capture the driver would fail, and invalidate that. */
	if (!err)
		err = be->ops->stream_capture(be, handle, &capture);
	if (!err)
		err = submission_begin(&s, pool, handle, capture);
	if (!err)
		err = submission_clear(&s, addr, size);
	if (!err)
		err = cover_cleared(&s, addr);
	if (err) {
		note(pool, handle, .op = RECORD_FREE, .addr = addr);
		zero_undo(pool, addr, handle);
	}
	submission_drop(&s);
	lock_release(&pool->core.lock);
	return err;
}

int zero_wait(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct backend *be = pool->core.backend;
	struct backend_event *event;
	int err;

	err = be->ops->event_create(be, &event);
	if (err)
		goto err_undo;
	err = be->ops->event_record(be, event, handle);
	if (!err)
		err = be->ops->event_sync(be, event);
	be->ops->event_destroy(be, event);
	if (!err)
		return 0;
err_undo:
	lock_acquire(&pool->core.lock);
	note(pool, handle, .op = RECORD_FREE, .addr = addr);
	zero_undo(pool, addr, handle);
	lock_release(&pool->core.lock);
	return err;
}

void zero_drop(struct vpmm_pool *pool, uint64_t addr)
{
	lock_acquire(&pool->core.lock);
	note(pool, NULL, .op = RECORD_FREE, .addr = addr);
	set_aside_counted(pool, addr);
	pool->core.counts.undone++;
	lock_release(&pool->core.lock);
}
