// SPDX-License-Identifier: LGPL-2.1-or-later
/* The streams that a pool has met. */
#include <stdatomic.h>

#include "backend/backend.h"
#include "core/cache.h"
#include "core/stream.h"
#include "util/bound.h"

/*
 * What the streams of a pool may leave uncovered together is 2 * STREAMS_EVEN times the limit of one. Each gets at
 * most 1/STREAMS_EVEN of the rest of it, or nothing if that is below UNMARKED_LEAST.
 */
#define STREAMS_EVEN BOUND(16, 2)
#define UNMARKED_LEAST (64 * 1024)

/* The ids of captures get this bit, as they are numbered apart from those of streams. */
#define CAPTURED ((uint64_t)1 << 63)

void stream_map_init(struct stream_map *map, struct backend *backend, struct account *account, uint64_t unmarked,
		     void (*passed)(void *guarded), void (*shared)(struct stream_map *map))
{
	*map = (struct stream_map){ .backend = backend, .passed = passed, .shared = shared, .account = account,
				    .unmarked = unmarked };
	map->most_cached = UINT64_MAX;
	map->unmarked_left = 2 * STREAMS_EVEN * unmarked;
	map->caches = g_ptr_array_new();
	map->by_id = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
	g_queue_init(&map->busy);
	g_queue_init(&map->all);
	map->joined = g_new0(struct stream, 1);
	map->joined->map = map;
}

void stream_map_end(struct stream_map *map)
{
	map->ended = true;
	for_each_stream(stream, map)
		cache_end(stream->cache);
}

void stream_map_clear(struct stream_map *map)
{
	stall_clear(map);
	/* Caches first: they hold references to events. */
	for_each_stream(stream, map)
		g_ptr_array_add(map->caches, stream->cache);
	for (guint i = 0; i < map->caches->len; i++) {
		if (map->ended)
			cache_clear(map->caches->pdata[i], map->backend);
		else
			cache_delete(map->caches->pdata[i], map->backend);
	}
	if (!map->ended)
		g_ptr_array_free(map->caches, TRUE);
	event_drop_spares(map);
	g_hash_table_destroy(map->by_id);
	g_free(map->joined);
}

/* The limit of a new stream. It is taken out of the rest, so that the sum over all streams has a bound. */
static uint64_t take_unmarked(struct stream_map *map)
{
	uint64_t limit = MIN(map->unmarked, map->unmarked_left / STREAMS_EVEN);

	if (limit < UNMARKED_LEAST)
		limit = 0;
	map->unmarked_left -= limit;
	return limit;
}

void stream_share(struct stream_map *map)
{
	if (!map->sole)
		return;
	map->sole = NULL;
	map->shared(map);
}

static struct stream *stream_new(struct stream_map *map, uint64_t id, bool legacy, bool captured)
{
	struct stream *stream = g_new0(struct stream, 1);
	struct cache *spare = map->caches->len ? g_ptr_array_steal_index_fast(map->caches, map->caches->len - 1) : NULL;

	stream->id = id;
	stream->map = map;
	stream->captured = captured;
	stream->first = !map->met;
	g_queue_init(&stream->pending);
	stream->busy_link.data = stream;
	stream->link.data = stream;
	stream->cache = cache_new(stream, legacy, captured || legacy ? 0 : take_unmarked(map), spare);
	g_hash_table_insert(map->by_id, &stream->id, stream);
	g_queue_push_tail_link(&map->all, &stream->link);
	if (++map->met == 1 && !captured)
		map->sole = stream;
	else
		stream_share(map);
	return stream;
}

void stream_forget(struct stream_map *map, struct stream *stream)
{
	if (map->sole == stream)
		stream_share(map);
	g_ptr_array_add(map->caches, stream->cache);
	cache_retire(stream->cache);
	g_queue_unlink(&map->all, &stream->link);
	g_hash_table_remove(map->by_id, &stream->id);
}

struct stream *stream_find(struct stream_map *map, uint64_t id)
{
	struct stream *sole = atomic_load_explicit(&map->sole, memory_order_relaxed);

	return sole && sole->id == id ? sole : g_hash_table_lookup(map->by_id, &id);
}

struct stream *stream_find_or_add(struct stream_map *map, uint64_t id, const struct CUstream_st *handle)
{
	struct stream *stream = stream_find(map, id);

	return stream ? stream : stream_new(map, id, stream_is_legacy(handle), false);
}

int stream_get(struct stream_map *map, struct CUstream_st *handle, struct stream **stream)
{
	uint64_t id;
	int err;

	err = map->backend->ops->stream_id(map->backend, handle, &id);
	if (err)
		return err;
	*stream = stream_find_or_add(map, id, handle);
	return 0;
}

static struct stream *get_own(struct stream_map *map, uint64_t id)
{
	struct stream *stream = stream_find(map, id);

	return stream ? stream : stream_new(map, id, false, true);
}

struct stream *stream_get_any(struct stream_map *map)
{
	return get_own(map, STREAM_ANY_ID);
}

struct stream *stream_get_idle(struct stream_map *map)
{
	return get_own(map, STREAM_IDLE_ID);
}

struct stream *stream_get_captured(struct stream_map *map, uint64_t id)
{
	return get_own(map, id | CAPTURED);
}
