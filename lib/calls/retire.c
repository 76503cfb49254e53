// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_stream_retire(): covers all that a stream has done by an event, and forgets the stream if it can. */
#include "calls/enter.h"
#include "calls/pool.h"
#include "calls/retire.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "pending/idle.h"
#include "pending/users.h"
#include "util/error.h"

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
	pool->core.streams.sole = NULL;
	enter_stream(pool, stream, handle);
	cache = stream->cache;
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
