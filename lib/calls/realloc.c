// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * vpmm_realloc(): where the block is, if that can be done, otherwise in another place.
 *
 * Either way the effect is that of an allocation on the stream, a copy, and a free on the stream, so that all that
 * holds for blocks which are freed on another stream, under capture, or with users, holds here.
 */
#include <errno.h>

#include "calls/capture.h"
#include "calls/clear.h"
#include "calls/enter.h"
#include "calls/free.h"
#include "calls/growable.h"
#include "calls/malloc.h"
#include "calls/note.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "calls/submission.h"
#include "calls/zero.h"
#include "core/allocation.h"
#include "core/owner.h"
#include "core/small.h"
#include "core/wait-set.h"
#include "pending/deferred-free.h"
#include "pending/users.h"
#include "policy/policy.h"
#include "policy/reclaim.h"
#include "policy/resize.h"
#include "policy/trim.h"
#include "util/error.h"

/**
 * struct resizing - one under way
 * @pool: the pool
 * @addr: the address of the block
 * @region: the block; NULL: it is @small
 * @small: the allocation of the driver's allocator
 * @had: bytes of it
 * @asked: the same, as requested: so many have contents
 * @size: the new size, as requested
 * @bytes: the same, rounded; 0: the driver's allocator is to have it
 * @stream: the stream
 * @handle: a handle of it
 * @copied: receives whether the contents were copied to a new block
 */
struct resizing {
	struct vpmm_pool *pool;
	uint64_t addr;
	struct region *region;
	struct small *small;
	size_t had;
	size_t asked;
	size_t size;
	size_t bytes;
	struct stream *stream;
	struct CUstream_st *handle;
	bool *copied;
};

static int find_resized(struct resizing *r)
{
	struct core *core = &r->pool->core;

	r->region = live_find(core, r->addr);
	r->small = r->region ? NULL : small_find(core, r->addr);
	if (!pool_knows(r->pool, r->addr))
		return lookup_refuse(r->pool, r->addr);
	r->had = r->region ? r->region->size : r->small->size;
	r->asked = r->region ? live_requested(r->region) : r->small->size;
	return 0;
}

/* Whether it has the size, belongs to the stream, and is used by nobody else, so that there is nothing to do. */
static bool is_unchanged(const struct resizing *r, const struct use *use)
{
	if (use)
		return false;
	if (r->region)
		return r->bytes == r->had && r->region->stream == r->stream;
	return !r->bytes && r->size == r->had;
}

/*
 * What is behind the contents, up to the end of the block, is of an earlier block. The stream that frees the block owns
 * all of it, so one that gets it from another stream must not find that there, even if it asks for no more.
 */
static bool needs_scrub(const struct resizing *r)
{
	enum vpmm_scrub scrub = r->pool->core.settings.scrub;

	return (scrub && r->size > r->asked) || (scrub == VPMM_SCRUB_STREAM && r->region->stream != r->stream);
}

/*
 * Clears what the block gains, if the settings say so. What it had before it became smaller, or before another stream
 * got it, is still behind its contents, and not as a malloc gives it.
 */
static int scrub_gain(const struct resizing *r, struct submission *s)
{
	struct core *core = &r->pool->core;
	const struct region gain = { .addr = r->addr + r->had, .size = r->bytes - r->had };
	size_t to = r->bytes;

	if (!needs_scrub(r))
		return 0;
	if (core->settings.scrub == VPMM_SCRUB_STREAM && r->bytes > r->had && owner_take(core, &gain, r->stream))
		to = r->had;
	return submission_clear(s, r->addr + r->asked, to - MIN(to, r->asked));
}

static int scrub_kept(const struct resizing *r)
{
	struct submission s;
	int err;

	/* Most reallocs that keep a block have nothing to clear, and need no event. */
	if (!needs_scrub(r))
		return 0;
	err = submission_begin(&s, r->pool, r->handle, false);
	if (!err)
		err = scrub_gain(r, &s);
	if (!err && s.begun)
		err = submission_cover(&s, r->region);
	submission_keep(&s, r->addr, r->stream);
	submission_drop(&s);
	return err;
}

/* The block stays as it is, and has another size as requested. */
static int keep_in_place(const struct resizing *r)
{
	int err;

	if (!r->region)
		return 0;
	if (!cache_take(r->region))
		return error_set(-EINVAL, "it is being freed");
	err = scrub_kept(r);
	if (!err)
		live_request(&r->pool->core, r->region, r->size);
	cache_untake(r->region, use_find(&r->pool->pending, r->addr));
	return err;
}

/* The point up to which a user has used the block: where it was retired, or now. */
static int order_user(const struct resizing *r, const struct user *user, struct order *order)
{
	struct backend *be = r->pool->core.backend;
	struct stream *stream;
	struct event *event;
	uint64_t id = 0;
	int err;

	if (user->id == r->stream->id)
		return 0;
	if (user->event) {
		order_add_event(order, user->event);
		return 0;
	}
	/*
	 * The program never named the stream, so it may have destroyed it. Its handle must not be asked then; a wait
	 * for the device covers the work.
	 */
	if (user->work)
		return be->ops->sync(be);
	err = be->ops->stream_id(be, user->handle, &id);
	if (err == -EBUSY || (!err && id != user->id && user->id != STREAM_LATER_ID))
		return error_set(-EBUSY, "a stream that uses the block cannot be waited for: it is under capture, or "
				 "another thread's default stream");
	if (err)
		return error_add(err, "a stream that uses the block");
	stream = stream_find_or_add(&r->pool->core.streams, id, user->handle);
	err = stream_record(stream, user->handle, &event);
	if (err)
		return err;
	order_add_event(order, event);
	event_unref(event);
	return 0;
}

/* The stream is to be behind all uses, as the contents are read and the memory changes hands in its order. */
static int wait_for_users(const struct resizing *r, const struct use *use)
{
	struct core *core = &r->pool->core;
	struct order order;
	int err = 0;

	order_init(&order, r->stream);
	for (guint i = 0; i < use->users->len && !err; i++)
		err = order_user(r, &g_array_index(use->users, struct user, i), &order);
	if (!err && !order_is_ready(&order))
		err = order_wait(&order, r->handle, false, &core->counts.waits);
	order_clear(&order);
	return err;
}

/* All that can fail of a change of size where the block is. @event receives a point in the stream behind it. */
static int prepare_here(const struct resizing *r, bool frugal, struct submission *s, bool *fits, struct event **event)
{
	const struct request request = { .size = r->bytes, .stream = r->stream, .handle = r->handle,
					 .frugal = frugal };
	int err;

	/* If no event covers an earlier use, the block cannot change hands. */
	err = hold_free_behind(&r->pool->pending, r->region, r->stream, r->handle, fits);
	if (!err && *fits && r->bytes > r->had)
		err = resize_extend(&r->pool->core, r->region, &request, fits);
	if (!err && *fits)
		err = submission_begin(s, r->pool, r->handle, false);
	if (!err && *fits)
		err = scrub_gain(r, s);
	return err || !*fits ? err : submission_end(s, r->stream, event);
}

/* Lets nobody have free memory before the work that was submitted is done, of which there is no event. */
static void submission_set_aside(struct submission *s, struct stream *stream, struct region_map *map, uint64_t addr,
				 size_t size)
{
	struct region *region;

	if (!s->begun || !size)
		return;
	region = region_take(map, addr, size, stream, NULL);
	live_enter(&s->pool->core, region, 0);
	/* A copy may have overwritten the last owner's data, so nobody owns the range. */
	owner_lose(&s->pool->core, addr, size);
	submission_set_aside_block(s->pool, region);
}

/* It stays as it was. What it would have gained is free, and so may be cleared later. */
static void undo_here(const struct resizing *r, struct submission *s)
{
	submission_keep(s, r->addr, r->stream);
	submission_set_aside(s, r->stream, r->region->chunk->map, r->addr + r->had,
			     r->bytes - MIN(r->bytes, r->had));
}

/* Changes the size where the block is. @done receives whether that could be done. */
static int resize_here(const struct resizing *r, bool frugal, bool *done)
{
	struct submission s = { .pool = r->pool };
	struct core *core = &r->pool->core;
	struct event *event;
	int err;

	*done = false;
	if (!cache_take(r->region))
		return error_set(-EINVAL, "it is being freed");
	err = prepare_here(r, frugal, &s, done, &event);
	submission_drop(&s);
	if (err || !*done) {
		*done = false;
		undo_here(r, &s);
		cache_untake(r->region, use_find(&r->pool->pending, r->addr));
		return err;
	}
	if (r->bytes < r->had) {
		const struct region lost = { .addr = r->addr + r->bytes, .size = r->had - r->bytes,
					     .stream = r->region->stream };

		owner_note(core, &lost, r->stream);
	}
	use_remove(&r->pool->pending, r->addr);
	resize_commit(core, r->region, r->bytes, r->size, r->stream, event);
	event_unref(event);
	return 0;
}

/*
 * Clears what is behind the contents. The block's own extents have that at the old address as well, and are cleared
 * there: unlike the new one, that stays mapped as long as the block stays.
 */
static int scrub_remap(const struct resizing *r, struct submission *s, const struct remap *remap)
{
	size_t behind = remap->head + remap->moved, from = r->asked, to = MIN(from, remap->head);
	int err;

	if (!r->pool->core.settings.scrub)
		return 0;
	err = submission_clear(s, remap->to + to, remap->head - to);
	to = MAX(from, remap->head);
	if (!err && to < behind)
		err = submission_clear(s, r->addr + to, behind - to);
	to = MAX(from, behind);
	return err ? err : submission_clear(s, remap->to + to, r->bytes - to);
}

/* The parts that the block shares with others are copied. What it gains is cleared, if the settings say so. */
static int fill_remap(const struct resizing *r, struct submission *s, const struct remap *remap)
{
	size_t behind = remap->head + remap->moved;
	int err;

	err = submission_copy(s, remap->to, r->addr, remap->head);
	if (!err)
		err = submission_copy(s, remap->to + behind, r->addr + behind, remap->tail);
	return err ? err : scrub_remap(r, s, remap);
}

/* All that can fail of a move by mapping. */
static int prepare_remap(const struct resizing *r, bool frugal, struct submission *s, struct remap *remap, bool *fits,
			 struct event **event)
{
	const struct request request = { .size = r->bytes, .stream = r->stream, .handle = r->handle,
					 .frugal = frugal };
	int err;

	err = hold_free_behind(&r->pool->pending, r->region, r->stream, r->handle, fits);
	if (!err && *fits)
		err = remap_map(&r->pool->core, r->region, &request, remap, fits);
	if (!err && *fits)
		err = submission_begin(s, r->pool, r->handle, false);
	if (!err && *fits)
		err = fill_remap(r, s, remap);
	return err || !*fits ? err : submission_end(s, r->stream, event);
}

/* It stays where it was. What was mapped in front of its own extents, and behind them, is free. */
static void undo_remap(const struct resizing *r, struct submission *s, const struct remap *remap)
{
	struct region_map *map = &r->pool->core.regions;
	size_t behind = remap->head + remap->moved;

	submission_keep(s, r->addr, r->stream);
	submission_set_aside(s, r->stream, map, remap->to, remap->head);
	submission_set_aside(s, r->stream, map, remap->to + behind, r->bytes - behind);
}

/* Maps a large block at another address, so that nothing is copied but what it shares with others. */
static int remap(const struct resizing *r, bool frugal, uint64_t *addr, bool *done)
{
	struct submission s = { .pool = r->pool };
	struct core *core = &r->pool->core;
	struct remap remap = { 0 };
	struct region *region;
	struct event *event;
	int err;

	*done = false;
	if (!cache_take(r->region))
		return error_set(-EINVAL, "it is being freed");
	err = prepare_remap(r, frugal, &s, &remap, done, &event);
	submission_drop(&s);
	if (err || !*done) {
		*done = false;
		undo_remap(r, &s, &remap);
		cache_untake(r->region, use_find(&r->pool->pending, r->addr));
		return err;
	}
	owner_note(core, r->region, r->stream);
	use_remove(&r->pool->pending, r->addr);
	region = remap_commit(core, r->region, &remap, r->bytes, r->size, r->stream, event);
	if (core->settings.scrub == VPMM_SCRUB_STREAM)
		owner_take(core, region, r->stream);
	event_unref(event);
	*addr = remap.to;
	return 0;
}

/* All that can fail of a copy, but the free of the old block. */
static int copy_to(const struct resizing *r, struct submission *s, struct stream *stream, uint64_t to)
{
	struct region *region = live_find(&r->pool->core, to);
	int err;

	err = submission_follow(r->pool, r->region, r->small, stream, r->handle);
	if (!err)
		err = submission_begin(s, r->pool, r->handle, stream->captured);
	if (!err)
		err = submission_copy(s, to, r->addr, MIN(r->asked, r->size));
	if (err)
		return err;
	return region ? submission_cover(s, region) : submission_cover_small(s, small_find(&r->pool->core, to), stream);
}

/* The old block stays, and the copy may still be to read it. */
static void keep_source(const struct resizing *r, struct submission *s, const struct stream *stream, uint64_t graph)
{
	s->begun = true;
	if (!graph)
		submission_keep(s, r->addr, stream);
	else
		use_add_graph(&r->pool->pending, r->addr, graph);
	if (graph && r->region)
		cache_share(r->region);
}

/*
 * Copies the contents into a block that was just allocated for a stream, or for a graph, and frees the old one; or else
 * frees the new one.
 */
static int copy_over(const struct resizing *r, struct stream *stream, uint64_t graph, uint64_t to)
{
	struct submission s = { .pool = r->pool };
	bool copied;
	int err;

	err = copy_to(r, &s, stream, to);
	copied = !err || s.begun;
	if (!err)
		err = pool_free(r->pool, r->addr, r->handle);
	*r->copied = !err;
	if (err && copied)
		keep_source(r, &s, stream, graph);
	if (err)
		zero_undo(r->pool, to, r->handle);
	submission_drop(&s);
	return err;
}

static int move_block(const struct resizing *r, uint64_t *addr)
{
	uint64_t to;
	int err;

	err = malloc_on_stream(r->pool, &to, r->size, 0, r->stream, r->handle);
	if (!err)
		err = copy_over(r, r->stream, 0, to);
	if (!err)
		*addr = to;
	return err;
}

/* Memory is out: with all that can be reclaimed, the block may be able to grow where it is, or without a copy. */
static int resize_last(const struct resizing *r, uint64_t *addr)
{
	struct request request = { .size = r->bytes > r->had ? r->bytes - r->had : 0, .stream = r->stream,
				   .handle = r->handle, .frugal = true };
	struct error_kept kept;
	bool done = false;
	int err;

	error_keep(&kept);
	err = resize_here(r, true, &done);
	for (int round = 0; !done && (!err || err == -ENOMEM) && request.size && round < RECLAIM_ROUNDS; round++) {
		err = reclaim(&r->pool->pending, &request, round);
		if (!err)
			err = resize_here(r, true, &done);
	}
	if (!done && (!err || err == -ENOMEM) && request.size)
		err = remap(r, true, addr, &done);
	if (err && err != -ENOMEM)
		return err;
	error_restore(&kept);
	return done ? 0 : -ENOMEM;
}

/* Whether the new size belongs where the block is: among the small ones, or among the others. */
static bool belongs_here(const struct resizing *r)
{
	const struct core *core = &r->pool->core;
	bool small = r->bytes < core_small_size(core) && core->regions.keeps;

	return small == (r->region->chunk->map == &core->spans);
}

static int resize(const struct resizing *r, uint64_t *addr)
{
	const struct use *use = use_find(&r->pool->pending, r->addr);
	bool stays = r->region && r->bytes && !(use && use->graphs->len), done = false;
	struct error_kept kept;
	int err = 0;

	error_keep(&kept);
	if (stays && belongs_here(r))
		err = resize_here(r, false, &done);
	if (err || done)
		return err;
	/* Without memory for that, there may be free memory to copy the block to. */
	if (stays && r->bytes > r->had)
		err = remap(r, false, addr, &done);
	if ((err && err != -ENOMEM) || done)
		return err;
	err = move_block(r, addr);
	if (err == -ENOMEM && stays)
		err = resize_last(r, addr);
	if (!err)
		error_restore(&kept);
	return err;
}

static bool use_has_work(const struct use *use)
{
	for (guint i = 0; i < use->users->len; i++) {
		if (g_array_index(use->users, struct user, i).work)
			return true;
	}
	return false;
}

/* A growable block stays where it is, and the streams that use it with it. */
static int resize_growable(const struct resizing *r, const struct use *use)
{
	bool graphs = use && use->graphs->len;
	int err = 0;

	if (r->size > r->region->max)
		return error_set(-EINVAL, "it was allocated to grow to %zu bytes at most", r->region->max);
	if (use && (use_has_work(use) || r->size < r->asked))
		err = wait_for_users(r, use);
	return err ? err : growable_resize(r->pool, r->region, r->size, graphs, r->stream, r->handle);
}

/* The host waits for users that were retired, such as graphs that had the block before. */
static int await_retired(const struct resizing *r, const struct use *use)
{
	struct core *core = &r->pool->core;
	struct order order;
	int err = 0;

	order_init(&order, NULL);
	for (guint i = 0; use && i < use->users->len; i++)
		order_add_event(&order, g_array_index(use->users, struct user, i).event);
	if (!order_is_ready(&order))
		err = order_wait(&order, r->handle, true, &core->counts.waits);
	order_clear(&order);
	return err;
}

/* A graph gets a copy of its own, as it would of an allocation and a free. It cannot wait for the work of others. */
static int realloc_captured(const struct resizing *r, uint64_t *addr)
{
	const struct use *use = use_find(&r->pool->pending, r->addr);
	uint64_t id, to;
	int err;

	err = capture_id(r->pool, r->handle, &id);
	if (err)
		return err;
	if (r->region && r->region->max)
		return error_set(-EBUSY, "a growable block cannot change its size in a capture");
	if (use_is_named(use))
		return error_set(-EBUSY, "other streams use the block, and a graph cannot wait for them");
	err = await_retired(r, use);
	if (!err)
		err = capture_malloc(r->pool, &to, r->size, 0, r->handle);
	if (!err)
		err = copy_over(r, stream_get_captured(&r->pool->core.streams, id), id, to);
	if (!err)
		*addr = to;
	return err;
}

static int reallocate_packed(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle,
			     bool *copied)
{
	struct resizing r = { .pool = pool, .addr = *addr, .size = size, .bytes = core_round(&pool->core, size),
			      .handle = handle, .copied = copied };
	const struct use *use;
	int err;

	err = find_resized(&r);
	if (!err && r.small && r.small->shareable)
		return size == r.small->size ? 0 : error_set(-ENOTSUP, "the size of a shareable block cannot change");
	if (err)
		return err;
	err = stream_get(&pool->core.streams, handle, &r.stream);
	if (err == -EBUSY)
		return realloc_captured(&r, addr);
	if (err)
		return err;
	enter_stream(pool, r.stream, handle);
	use = use_find(&pool->pending, r.addr);
	if (r.region && r.region->max) {
		err = resize_growable(&r, use);
	} else {
		if (is_unchanged(&r, use))
			return keep_in_place(&r);
		err = use ? wait_for_users(&r, use) : 0;
		if (!err)
			err = resize(&r, addr);
	}
	if (!err)
		trim_some(&pool->core, r.stream);
	return err;
}

int pool_realloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle)
{
	uint64_t before = *addr;
	bool copied = false;
	int err;

	lock_assert_held(&pool->core.lock);
	err = reallocate_packed(pool, addr, size, handle, &copied);
	if (!err)
		note(pool, handle, .op = RECORD_REALLOC, .addr = before, .to = *addr, .bytes = size,
		     .flags = copied ? RECORD_COPIED : 0);
	return err;
}
