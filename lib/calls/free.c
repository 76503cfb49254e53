// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_free() if no cache takes it, and vpmm_use(). */
#include <errno.h>

#include "calls/capture.h"
#include "calls/enter.h"
#include "calls/free.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "calls/submission.h"
#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "core/owner.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "pending/users.h"
#include "pending/watch.h"
#include "policy/trim.h"
#include "util/error.h"

static int pool_free_small(struct vpmm_pool *pool, struct small *small, struct stream *stream,
			   struct CUstream_st *handle)
{
	int err;

	err = submission_follow(pool, NULL, small, stream, handle);
	if (err)
		return err;
	err = small_release(&pool->core, small, handle);
	if (err)
		return err;
	small_forget(&pool->core, small);
	return 0;
}

static int pool_free_pages(struct vpmm_pool *pool, struct region *region, struct stream *stream,
			   struct CUstream_st *handle)
{
	struct event *event;
	bool told;
	int err;

	err = hold_free_behind(&pool->pending, region, stream, handle, &told);
	if (err)
		return err;
	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	if (told)
		owner_note(&pool->core, region, stream);
	live_end(&pool->core, region, stream, event, told);
	event_unref(event);
	cache_flush_full(&pool->core, stream, handle);
	return 0;
}

/* A block with other users becomes free behind an event of each of them; a shareable one, behind those of all. */
static int pool_free_used(struct vpmm_pool *pool, struct region *region, struct small *small, const struct use *use,
			  struct stream *stream, struct CUstream_st *handle)
{
	struct hold *hold;
	int err;

	err = hold_new(&pool->pending, region, small, use, stream->id, 0, &hold);
	if (err)
		return err;
	if (region)
		err = hold_free_behind(&pool->pending, region, stream, handle, &hold->told);
	if (!err)
		err = hold_record(hold, stream, handle);
	if (err)
		goto err_delete;
	hold->ordered = true;
	hold_keep(&pool->pending, hold);
	if (small && small->shareable)
		hold_poll(&pool->pending, handle, false);
	return 0;

err_delete:
	hold_delete(hold);
	return err;
}

static void count_free(struct vpmm_pool *pool, struct stream *stream)
{
	pool->core.counts.frees++;
	trim_some(&pool->core, stream);
}

bool pool_knows(struct vpmm_pool *pool, uint64_t addr)
{
	const struct region *region = live_find(&pool->core, addr);

	lock_assert_held(&pool->core.lock);
	return region ? !cache_holds(region) : small_find(&pool->core, addr) != NULL;
}

int pool_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct region *region = live_find(&pool->core, addr);
	struct small *small = region ? NULL : small_find(&pool->core, addr);
	const struct use *use = use_find(&pool->pending, addr);
	struct stream *stream;
	int err;

	lock_assert_held(&pool->core.lock);
	if ((!region && !small) || (region && !cache_take(region)))
		return lookup_refuse(pool, addr);
	err = stream_get(&pool->core.streams, handle, &stream);
	if (err == -EBUSY) {
		err = capture_free(pool, region, small, handle);
		if (err)
			goto err_untake;
		return 0;
	}
	if (err)
		goto err_untake;
	enter_stream(pool, stream, handle);
	if (use || (small && small->shareable))
		err = pool_free_used(pool, region, small, use, stream, handle);
	else if (region)
		err = pool_free_pages(pool, region, stream, handle);
	else
		err = pool_free_small(pool, small, stream, handle);
	if (err)
		goto err_untake;
	count_free(pool, stream);
	return 0;

err_untake:
	if (region)
		cache_untake(region, use);
	return err;
}

int pool_free_any(struct vpmm_pool *pool, uint64_t addr)
{
	struct region *region = live_find(&pool->core, addr);
	struct small *small = region ? NULL : small_find(&pool->core, addr);
	struct hold *hold;
	int err;

	lock_assert_held(&pool->core.lock);
	if ((!region && !small) || (region && !cache_take(region)))
		return lookup_refuse(pool, addr);
	enter_stream(pool, stream_get_any(&pool->core.streams), STREAM_NULL);
	err = hold_new_any(&pool->pending, region, small, use_find(&pool->pending, addr), &hold);
	if (err) {
		if (region)
			cache_untake(region, use_find(&pool->pending, addr));
		return err;
	}
	hold_keep(&pool->pending, hold);
	if (small && small->shareable)
		hold_poll(&pool->pending, STREAM_NULL, true);
	count_free(pool, NULL);
	return 0;
}

int pool_use(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct region *region = live_find(&pool->core, addr);
	struct backend *be = pool->core.backend;
	struct error_kept kept;
	uint64_t id, graph = 0;
	bool later;
	int err;

	lock_assert_held(&pool->core.lock);
	if ((!region && !small_find(&pool->core, addr)) || (region && cache_holds(region)))
		return lookup_refuse(pool, addr);
	error_keep(&kept);
	err = be->ops->stream_id(be, handle, &id);
	if (err == -EBUSY)
		err = capture_id(pool, handle, &graph);
	/* The free will record the default stream, or wait until it can be. */
	later = err == -EBUSY && stream_is_legacy(handle);
	if (err && !later)
		return err;
	if (later)
		error_restore(&kept);
	/* Its stream may have freed it into its cache meanwhile. */
	if (region && !cache_share(region))
		return lookup_refuse(pool, addr);
	if (graph && !use_is_branch(use_find(&pool->pending, addr), handle, graph))
		use_set_branch(&pool->pending, addr, NULL, 0);
	if (graph) {
		watch_begin(&pool->pending, graph, handle);
		use_add_graph(&pool->pending, addr, graph);
		return 0;
	}
	if (later) {
		use_add_stream(&pool->pending, addr, STREAM_LATER_ID, handle);
		return 0;
	}
	/* Add it before the free: memory that is free for all differs from one stream's once there are two. */
	stream_find_or_add(&pool->core.streams, id, handle);
	use_add_stream(&pool->pending, addr, id, handle);
	return 0;
}
