// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_free() if no cache takes it, and vpmm_use(). */
#include <errno.h>

#include "calls/capture.h"
#include "calls/enter.h"
#include "calls/free.h"
#include "calls/pool.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "pending/flush.h"
#include "pending/owner.h"
#include "pending/users.h"
#include "policy/trim.h"
#include "util/error.h"

static int pool_free_small(struct vpmm_pool *pool, struct small *small, struct CUstream_st *handle)
{
	int err;

	err = pool->core.backend->ops->small_free(pool->core.backend, small->addr, handle);
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
	if (pool->core.settings.cache)
		cache_flush_full(&pool->core, stream, handle);
	return 0;
}

/* A block with other users becomes free behind an event of each of them. */
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
	return 0;

err_delete:
	hold_delete(hold);
	return err;
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
		return error_set(-EINVAL, "no allocation of this pool starts there");
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
	if (use)
		err = pool_free_used(pool, region, small, use, stream, handle);
	else if (region)
		err = pool_free_pages(pool, region, stream, handle);
	else
		err = pool_free_small(pool, small, handle);
	if (err)
		goto err_untake;
	pool->core.counts.frees++;
	if (core_mapped(&pool->core) > pool->core.settings.keep)
		trim_some(&pool->core);
	return 0;

err_untake:
	if (region)
		cache_untake(region, use);
	return err;
}

int pool_use(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct region *region = live_find(&pool->core, addr);
	struct backend *be = pool->core.backend;
	uint64_t id, graph = 0;
	int err;

	lock_assert_held(&pool->core.lock);
	if ((!region && !small_find(&pool->core, addr)) || (region && cache_holds(region)))
		return error_set(-EINVAL, "no allocation of this pool starts there");
	err = be->ops->stream_id(be, handle, &id);
	if (err == -EBUSY)
		err = capture_id(pool, handle, &graph);
	if (err)
		return err;
	/* Its stream may have freed it into its cache meanwhile. */
	if (region && !cache_share(region, true))
		return error_set(-EINVAL, "no allocation of this pool starts there");
	if (graph && !use_is_home(use_find(&pool->pending, addr), handle))
		use_set_home(&pool->pending, addr, NULL);
	if (graph) {
		use_add_graph(&pool->pending, addr, graph);
		return 0;
	}
	/* Meet it before the free: memory that is free for all differs from one stream's once there are two. */
	stream_meet(&pool->core.streams, id, handle);
	use_add_stream(&pool->pending, addr, id, handle);
	return 0;
}
