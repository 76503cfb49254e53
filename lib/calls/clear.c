// SPDX-License-Identifier: LGPL-2.1-or-later
/* Clears memory before it is handed out, and records that. */
#include "calls/clear.h"
#include "calls/pool.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "pending/owner.h"
#include "util/error.h"

/* Frees it with the event that it came with. That needs no driver call. */
static void give_back(struct vpmm_pool *pool, struct region *region)
{
	struct event *event = event_pending(region->event) ? event_ref(region->event) : NULL;

	cache_take(region);
	live_end(&pool->core, region, event ? event->stream : NULL, event, true);
	event_unref(event);
}

int scrub_clear(struct vpmm_pool *pool, uint64_t addr, size_t size, struct CUstream_st *handle)
{
	int err;

	err = pool->core.backend->ops->clear(pool->core.backend, addr, size, handle);
	if (err)
		return error_add(err, "clearing %zu bytes", size);
	pool->core.scrubbed += size;
	return 0;
}

static int scrub_small(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct small *small = g_hash_table_lookup(pool->core.small, &addr);
	struct error_kept kept;
	int err;

	err = scrub_clear(pool, addr, small->size, handle);
	if (!err) {
		pool->core.small_cleared = true;
		return 0;
	}
	/* What the driver fails to free stays until the pool is destroyed. */
	error_keep(&kept);
	if (!small_release(&pool->core, small, handle))
		small_forget(&pool->core, small);
	error_restore(&kept);
	return err;
}

int scrub_mark(struct region *region, struct CUstream_st *handle)
{
	struct stream *stream = region->stream;
	struct event *event;
	int err;

	/* Under capture the clear is part of the graph, and the memory belongs to that until it is retired. */
	if (stream->captured)
		return 0;
	if (region->block)
		return cache_mark_work(region, handle);
	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	region_set_begin(region, event);
	event_unref(event);
	return 0;
}

void scrub_set_aside(struct vpmm_pool *pool, struct region *region)
{
	if (cache_take(region))
		hold_unheard(&pool->pending, region);
}

int scrub_malloc(struct vpmm_pool *pool, uint64_t addr, struct stream *stream, struct CUstream_st *handle)
{
	struct region *region = live_find(&pool->core, addr);
	int err;

	lock_assert_held(&pool->core.lock);
	if (!region)
		return scrub_small(pool, addr, handle);
	if (pool->core.settings.scrub == VPMM_SCRUB_STREAM && owner_take(&pool->core, region, stream))
		return 0;
	err = scrub_clear(pool, addr, region->size, handle);
	if (err) {
		give_back(pool, region);
		return err;
	}
	err = scrub_mark(region, handle);
	if (err)
		scrub_set_aside(pool, region);
	return err;
}
