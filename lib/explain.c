// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cache.h"
#include "error.h"
#include "explain.h"
#include "pool.h"
#include "query.h"

/* So many streams are named, those with most. */
#define STREAMS_NAMED 3

/* What is free after work that a stream has not done yet, as far as it is known. */
struct pending {
	uint64_t id;
	uint64_t bytes;
};

static uint64_t pending_of(struct vpmm_pool *pool, const struct stream *stream)
{
	const struct region_map *const maps[] = { &pool->regions, &pool->spans };
	uint64_t bytes = cache_withheld(stream->cache);

	for (size_t i = 0; i < G_N_ELEMENTS(maps); i++) {
		const struct free_set *set = stream->free[maps[i]->set];

		for (const GList *link = set ? set->by_age.head : NULL; link; link = link->next) {
			const struct region *region = link->data;

			bytes += event_pending(region->event) ? region->size : 0;
		}
	}
	return bytes;
}

static int compare_pending(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void say_pending(struct vpmm_pool *pool, GString *text)
{
	GArray *all = g_array_new(FALSE, FALSE, sizeof(struct pending));
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct stream *stream = value;
		struct pending pending = { .id = stream->id, .bytes = pending_of(pool, stream) };

		if (pending.bytes)
			g_array_append_val(all, pending);
	}
	g_array_sort(all, compare_pending);
	for (guint i = 0; i < MIN(all->len, STREAMS_NAMED); i++) {
		const struct pending *pending = &g_array_index(all, struct pending, i);

		g_string_append_printf(text, "%s%" PRIu64 " bytes on stream %" PRIu64, i ? ", " : "; pending: ",
				       pending->bytes, pending->id);
	}
	if (all->len > STREAMS_NAMED)
		g_string_append_printf(text, " and some on %u others", all->len - STREAMS_NAMED);
	g_array_free(all, TRUE);
}

/* What could be had, and what others have. */
static void say_room(struct vpmm_pool *pool, GString *text, struct CUstream_st *handle)
{
	uint64_t small, peak, ours, used, id;
	struct backend *be = pool->backend;
	struct backend_info info;
	struct stream *stream;

	if (be->ops->info(be, &info) || be->ops->small_held(be, &small, &peak))
		return;
	stream = be->ops->stream_id(be, handle, &id) ? NULL : stream_find(&pool->streams, id);
	/* Where it is not memory that is missing, nobody knows how much could be mapped. */
	if (stream && (strstr(text->str, "device memory: ") || strstr(text->str, "limit: ")))
		g_string_append_printf(text, "; the largest block to be had is %" PRIu64 " bytes",
				       query_largest(pool, stream, MIN(info.memory_free,
								       extent_room(&pool->extents))));
	say_pending(pool, text);
	if (small)
		g_string_append_printf(text, "; the driver's allocator holds %" PRIu64 " bytes for requests below a "
				       "page, of which %" PRIu64 " are live", small, pool->small_live);
	ours = pool->extents.held + small;
	used = info.memory_total - info.memory_free;
	g_string_append_printf(text, "; others hold %" PRIu64 " bytes of the device", used > ours ? used - ours : 0);
}

int explain_exhausted(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle)
{
	GString *text = g_string_new(error_get());
	struct cache_sums cached;

	cache_sum(pool, &cached);
	say_room(pool, text, handle);
	if (pool->held_bytes)
		g_string_append_printf(text, "; %" PRIu64 " bytes of what is live are freed, and held for graphs or "
				       "for streams that use them", pool->held_bytes);
	if (pool->extents.stuck_bytes)
		g_string_append_printf(text, "; %" PRIu64 " bytes of what is free are in pieces of which something is "
				       "live", pool->extents.stuck_bytes);
	error_set(-ENOMEM, "%s", text->str);
	g_string_free(text, TRUE);
	return error_add(-ENOMEM, "%zu bytes, while the pool has %" PRIu64 " bytes live and %" PRIu64 " free", size,
			 pool_live(pool) - cached.bytes, pool_mapped(pool) - pool_live(pool) + cached.bytes);
}
