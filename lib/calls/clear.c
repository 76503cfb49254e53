// SPDX-License-Identifier: LGPL-2.1-or-later
/* Clears memory before it is handed out, and records that. */
#include "calls/clear.h"
#include "calls/pool.h"
#include "calls/submission.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/owner.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "util/error.h"

/* Frees it with the event that it came with. That needs no driver call. */
static void free_unwritten(struct vpmm_pool *pool, struct region *region)
{
	struct event *event = event_pending(region->event) ? event_ref(region->event) : NULL;

	cache_take(region);
	live_end(&pool->core, region, event ? event->stream : NULL, event, true);
	event_unref(event);
}

/* What cannot be freed now is, once the device has completed its work. */
static void free_or_hold(struct vpmm_pool *pool, struct small *small, bool begun, struct CUstream_st *handle)
{
	struct backend *be = pool->core.backend;
	struct error_kept kept;

	error_keep(&kept);
	/*
	 * What is shareable is unmapped at once, and not in the order of the stream. Without an event, only the whole
	 * device can tell when the clear is done.
	 */
	if ((begun && small->shareable && be->ops->sync(be)) || small_release(&pool->core, small, handle))
		hold_aside(&pool->pending, small);
	else
		small_forget(&pool->core, small);
	error_restore(&kept);
}

void scrub_drop_shareable(struct vpmm_pool *pool, struct small *small)
{
	free_or_hold(pool, small, true, STREAM_NULL);
}

static void undo_malloc(struct submission *s, struct region *region, struct small *small)
{
	if (!region)
		free_or_hold(s->pool, small, s->begun, s->handle);
	else if (s->begun)
		submission_set_aside_block(s->pool, region);
	else
		free_unwritten(s->pool, region);
}

int scrub_malloc(struct vpmm_pool *pool, uint64_t addr, struct stream *stream, struct CUstream_st *handle)
{
	struct region *region = live_find(&pool->core, addr);
	struct small *small = region ? NULL : small_find(&pool->core, addr);
	struct submission s;
	int err;

	lock_assert_held(&pool->core.lock);
	if (region && pool->core.settings.scrub == VPMM_SCRUB_STREAM && owner_take(&pool->core, region, stream))
		return 0;
	err = submission_begin(&s, pool, handle, stream->captured);
	if (!err)
		err = submission_clear(&s, addr, region ? region->size : small->size);
	if (!err)
		err = region ? submission_cover(&s, region) : submission_cover_small(&s, small, stream);
	if (err)
		undo_malloc(&s, region, small);
	submission_drop(&s);
	return err;
}
