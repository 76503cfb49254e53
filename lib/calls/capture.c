// SPDX-License-Identifier: LGPL-2.1-or-later
/* Allocations and frees of a stream under capture, the end of a graph, and groups of captures. */
#include <errno.h>
#include <inttypes.h>

#include "calls/capture.h"
#include "calls/clear.h"
#include "calls/enter.h"
#include "calls/idle.h"
#include "calls/pool.h"
#include "calls/request.h"
#include "calls/submission.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "pending/group-reuse.h"
#include "pending/group.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "pending/watch.h"
#include "policy/policy.h"
#include "util/assume.h"
#include "util/error.h"

int capture_id(struct vpmm_pool *pool, struct CUstream_st *handle, uint64_t *id)
{
	int err;

	err = pool->core.backend->ops->stream_capture(pool->core.backend, handle, id);
	if (err)
		return err;
	return *id ? 0 : error_set(-EBUSY, "the capture of the stream has just ended");
}

/* The map that the policy would serve a request from. */
static const struct region_map *map_of(const struct core *core, size_t bytes)
{
	return bytes < core_small_size(core) && core->regions.keeps ? &core->spans : &core->regions;
}

static int capture_scrub(struct vpmm_pool *pool, const struct hold *hold, uint64_t id, size_t bytes,
			 struct CUstream_st *handle)
{
	struct submission s = { .pool = pool, .handle = handle };
	enum vpmm_scrub scrub = pool->core.settings.scrub;

	/* Another graph's contents are as another stream's. */
	if (scrub == VPMM_SCRUB_NONE || (scrub == VPMM_SCRUB_STREAM && hold->capture == id && hold->graphs->len == 1))
		return 0;
	return submission_clear(&s, hold->region->addr, bytes);
}

/* Takes a block that the capture, or another of its group, has freed. */
static int capture_reuse(struct vpmm_pool *pool, struct hold *hold, uint64_t id, size_t bytes, size_t requested,
			 struct stream *stream, struct CUstream_st *handle, uint64_t *addr)
{
	struct region *region;
	int err;

	err = capture_scrub(pool, hold, id, bytes, handle);
	if (err)
		return err;
	region = group_reuse_take(&pool->pending, hold, bytes, stream);
	live_request(&pool->core, region, requested);
	cache_untake(region, true);
	*addr = region->addr;
	pool->core.counts.reuses++;
	return 0;
}

static int capture_take(struct vpmm_pool *pool, uint64_t *addr, size_t bytes, size_t requested, size_t align,
			struct stream *stream, struct CUstream_st *handle)
{
	struct request request = { .size = bytes, .requested = requested, .stream = stream, .handle = handle };
	int err;

	request_align(pool, &request, align);
	err = request_memory(pool, pool->core.policy, &request, addr);
	if (!err && pool->core.settings.scrub)
		err = scrub_malloc(pool, *addr, stream, handle);
	return err;
}

static int capture_malloc_in(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, uint64_t id,
			     struct stream *stream, struct CUstream_st *handle)
{
	struct graph *graph = graph_get(&pool->pending, id);
	size_t bytes = request_round(pool, size);
	struct hold *hold;

	if (!graph->group)
		group_join(&pool->pending, graph, 0);
	hold = group_reuse_find(&pool->pending, graph, map_of(&pool->core, bytes), bytes, MAX(align, 1), handle);
	if (hold)
		return capture_reuse(pool, hold, id, group_is_named(graph) ? bytes : hold->region->size, size, stream,
				     handle, addr);
	return capture_take(pool, addr, bytes, size, align, stream, handle);
}

int capture_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct CUstream_st *handle)
{
	struct error_kept kept;
	struct region *region;
	struct stream *stream;
	uint64_t id;
	int err;

	lock_assert_held(&pool->core.lock);
	error_keep(&kept);
	err = capture_id(pool, handle, &id);
	/*
	 * The default stream beside a capture; or a capture that no graph will come of. Nobody could wait and try
	 * again.
	 */
	if (err == -EBUSY) {
		error_restore(&kept);
		return idle_malloc(pool, addr, size, align, handle, 0);
	}
	if (err)
		return err;
	if (pool->core.settings.page_size == SIZE_MAX)
		return error_set(-ENOTSUP, "the stream is being captured, and the pool leaves every request to the "
				 "driver");
	if (size > SIZE_MAX / 4)
		return error_set(-ENOMEM, "more than a device can address");
	stream = stream_get_captured(&pool->core.streams, id);
	enter_stream(pool, stream, handle);
	watch_begin(&pool->pending, id, handle);
	err = capture_malloc_in(pool, addr, size, align, id, stream, handle);
	if (err)
		return err;
	use_add_graph(&pool->pending, *addr, id);
	use_set_branch(&pool->pending, *addr, handle, id);
	/* What a capture gets is whole pages of the pool's, so it is in the region maps. */
	region = live_find(&pool->core, *addr);
	assume(region);
	cache_share(region);
	pool->core.counts.mallocs++;
	return 0;
}

/* A free on the legacy default stream beside a capture. It takes effect once the stream can be recorded. */
static int free_later(struct vpmm_pool *pool, struct region *region, struct small *small, const struct use *use)
{
	struct hold *hold;
	int err;

	err = hold_new_later(&pool->pending, region, small, use, &hold);
	if (err)
		return err;
	hold_keep(&pool->pending, hold);
	pool->core.counts.frees++;
	return 0;
}

int capture_free(struct vpmm_pool *pool, struct region *region, struct small *small, struct CUstream_st *handle)
{
	const struct use *use = use_find(&pool->pending, region ? region->addr : small->addr);
	struct error_kept kept;
	struct stream *stream;
	struct hold *hold;
	uint64_t id;
	int err;

	lock_assert_held(&pool->core.lock);
	error_keep(&kept);
	err = capture_id(pool, handle, &id);
	if (err == -EBUSY && stream_is_legacy(handle)) {
		error_restore(&kept);
		return free_later(pool, region, small, use);
	}
	if (err)
		return err;
	stream = stream_get_captured(&pool->core.streams, id);
	enter_stream(pool, stream, handle);
	watch_begin(&pool->pending, id, handle);
	err = hold_new(&pool->pending, region, small, use, stream->id, id, &hold);
	if (err)
		return err;
	hold->capture = id;
	hold->outside = hold->outside || hold->maker != id;
	/* Reuse it only if no other stream and no other branch of the graph uses it: those are not ordered before. */
	if (region && region->stream == stream && use_is_branch(use, handle, id))
		hold->branch = use->branch;
	hold_keep(&pool->pending, hold);
	pool->core.counts.frees++;
	return 0;
}

/* A capture that has joined a group, and when. */
struct joined {
	uint64_t id;
	uint64_t group;
	uint64_t turn;
};

int capture_group(struct vpmm_pool *pool, uint64_t id, uint64_t group)
{
	struct graph *graph;

	lock_assert_held(&pool->core.lock);
	if (!id)
		return error_set(-EINVAL, "the capture is 0, which is the id of a stream that is under none");
	if (!group)
		return error_set(-EINVAL, "the group is 0");
	graph = graph_get(&pool->pending, id);
	if (group_is_named(graph) && graph->group->id != group)
		return error_set(-EINVAL, "capture %" PRIu64 " is in group %" PRIu64 ", and cannot join group %" PRIu64,
				 id, graph->group->id, group);
	if (!group_is_named(graph))
		group_join(&pool->pending, graph, group);
	return 0;
}

static gint compare_turns(gconstpointer a, gconstpointer b)
{
	const struct joined *x = a, *y = b;

	return (x->turn > y->turn) - (x->turn < y->turn);
}

/* In the order in which they joined. */
static GArray *list_joined(struct vpmm_pool *pool)
{
	GArray *joined = g_array_new(FALSE, FALSE, sizeof(struct joined));
	GHashTableIter iter;
	gpointer value;

	lock_acquire(&pool->core.lock);
	g_hash_table_iter_init(&iter, pool->pending.graphs);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct graph *graph = value;

		if (group_is_named(graph) && !graph->gone)
			g_array_append_vals(joined, &(struct joined){ graph->blocker.id, graph->group->id, graph->turn }, 1);
	}
	lock_release(&pool->core.lock);
	g_array_sort(joined, compare_turns);
	return joined;
}

void capture_copy_groups(struct vpmm_pool *to, struct vpmm_pool *from)
{
	GArray *joined = list_joined(from);

	lock_acquire(&to->core.lock);
	for (guint i = 0; i < joined->len; i++) {
		const struct joined *it = &g_array_index(joined, struct joined, i);

		group_join(&to->pending, graph_get(&to->pending, it->id), it->group);
	}
	lock_release(&to->core.lock);
	g_array_free(joined, TRUE);
}

int capture_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *handle)
{
	struct event *event = NULL;
	const struct graph *graph;
	struct stream *stream;
	uint64_t group;
	int err;

	lock_assert_held(&pool->core.lock);
	err = stream_get(&pool->core.streams, handle, &stream);
	if (err)
		return err;
	enter_stream(pool, stream, handle);
	graph = graph_find(&pool->pending, id);
	group = graph && graph->group ? graph->group->id : 0;
	if (use_has_graph(&pool->pending, id))
		err = stream_record(stream, handle, &event);
	if (!err)
		err = hold_retire_graph(&pool->pending, id, stream, handle);
	if (!err) {
		use_retire_graph(&pool->pending, id, stream, event);
		group_leave(&pool->pending, id);
		graph_forget(&pool->pending, id);
		watch_group_left(&pool->pending, group);
	}
	event_unref(event);
	return err;
}
