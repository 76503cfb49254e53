// SPDX-License-Identifier: LGPL-2.1-or-later
#include "calls/pool.h"
#include "calls/retire.h"
#include "core/cache.h"
#include "pending/users.h"
#include "util/error.h"

/* So many streams are not worth a look. */
#define STREAMS_LEAST 64

static bool is_idle(struct stream *stream)
{
	uint64_t own = stream->cache->adopted ? 1 : 0;

	return stream->refs == own && g_queue_is_empty(&stream->pending) && cache_is_empty(stream->cache);
}

static void forget(struct vpmm_pool *pool, struct stream *stream)
{
	region_forget(&pool->regions, stream);
	region_forget(&pool->spans, stream);
	stream_forget(&pool->streams, stream);
}

int retire_stream(struct vpmm_pool *pool, struct CUstream_st *handle)
{
	struct cache *cache;
	struct stream *stream;
	int err;

	err = stream_get(&pool->streams, handle, &stream);
	if (err)
		return err;
	/* What is free has to be told apart from what is free for this stream, even if there is no other yet. */
	pool->streams.sole = NULL;
	pool_begin_central(pool, stream, handle);
	cache = stream->cache;
	err = use_retire_stream(pool, stream, handle);
	if (err)
		return err;
	pthread_mutex_lock(&cache->lock);
	if (cache->unmarked)
		err = cache_mark(cache, handle);
	pthread_mutex_unlock(&cache->lock);
	if (err)
		return err;
	cache_flush(pool, stream, handle, 0);
	err = stream_poll(stream);
	if (!err && is_idle(stream))
		forget(pool, stream);
	return err;
}

void retire_idle(struct vpmm_pool *pool, const struct stream *stream)
{
	struct error_kept kept;
	GList *streams, *link;

	if (g_hash_table_size(pool->streams.by_id) <= MAX(pool->idle_looked, STREAMS_LEAST))
		return;
	error_keep(&kept);
	cache_flush_all(pool);
	if (stream_poll_busy(&pool->streams, false))
		error_restore(&kept);
	streams = g_hash_table_get_values(pool->streams.by_id);
	for (link = streams; link; link = link->next) {
		if (link->data != stream && is_idle(link->data))
			forget(pool, link->data);
	}
	g_list_free(streams);
	pool->idle_looked = 2 * g_hash_table_size(pool->streams.by_id);
}
