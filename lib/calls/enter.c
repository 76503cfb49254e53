// SPDX-License-Identifier: LGPL-2.1-or-later
/* The first steps of every slow-path call of a stream, and vpmm_stream_retire(). */
#include <stdatomic.h>

#include "calls/enter.h"
#include "calls/pool.h"
#include "core/cache-flush.h"
#include "core/cache-hot.h"
#include "core/cache.h"
#include "pending/deferred-free.h"
#include "pending/pending.h"
#include "pending/users.h"
#include "pending/watch.h"
#include "util/error.h"

/* Deferred frees wait for an event on silent streams, which can be recorded now that a call has a handle. */
static void hear_silent(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle)
	__attribute__((cold, noinline));
static void hear_silent(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle)
{
	struct error_kept kept;

	hold_hear_legacy(&pool->pending);
	if (stream->captured)
		return;
	error_keep(&kept);
	if (hold_hear(&pool->pending, stream, handle))
		error_restore(&kept);
}

void enter_stream(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle)
{
	lock_assert_held(&pool->core.lock);
	counts_begin(&pool->core.counts);
	idle_forget_streams(&pool->pending, stream);
	if (g_hash_table_size(pool->pending.silent))
		hear_silent(pool, stream, handle);
	watch_collect(&pool->pending);
	if (pool->pending.holds.head)
		hold_poll(&pool->pending, handle, stream->captured);
	if (!pool->core.settings.cache)
		return;
	/* All hits that caches have noted are older than this call, see cache_last(). */
	core_count_central(&pool->core);
	/* Calls under capture never use a cache. */
	if (!stream->captured)
		cache_remember(&pool->core, stream);
}

/* Covers all that the stream has done by an event, and forgets the stream if it can. */
int retire_stream(struct vpmm_pool *pool, struct CUstream_st *handle)
{
	struct cache *cache;
	struct stream *stream;
	int err;

	lock_assert_held(&pool->core.lock);
	err = stream_get(&pool->core.streams, handle, &stream);
	if (err)
		return err;
	/* Free memory of this stream must differ from memory that is free for all, even without a second stream. */
	stream_share(&pool->core.streams);
	enter_stream(pool, stream, handle);
	cache = stream->cache;
	/* A deferred free that has no event by now gets none later: the stream may be gone. */
	err = hold_hear(&pool->pending, stream, handle);
	if (!err)
		err = use_retire_stream(&pool->pending, stream, handle);
	if (err)
		return err;
	brief_acquire(&cache->lock);
	if (cache->unmarked)
		err = cache_mark(cache, handle);
	brief_release(&cache->lock);
	if (err)
		return err;
	cache_flush(&pool->core, stream, handle, 0);
	err = stream_poll(stream);
	if (!err)
		idle_forget(&pool->pending, stream);
	return err;
}
