// SPDX-License-Identifier: LGPL-2.1-or-later
/* Pauses and resumes the arenas of one or of all tags of a pool, for the program and for vpmm-pause. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/pause.h"
#include "util/cancel.h"
#include "util/error.h"
#include "util/tag.h"

/**
 * struct order - a call on the arenas of one or of all tags
 * @request: what was asked for
 * @pool: the pool
 * @tags: its tags
 * @left: the backend was left, and cannot be entered any more
 * @pieces: host memory that was prepared, until all is
 */
struct order {
	const struct pause_request *request;
	struct vpmm_pool *pool;
	struct tags *tags;
	bool left;
	GPtrArray *pieces;
};

typedef int (*order_fn)(struct order *order, struct vpmm_pool *arena);

/*
 * With the backend entered and no lock held. Captures of other streams go on: the backend's calls leave them alone, and
 * no graph runs before its capture has ended.
 */
static int judge_capture(const struct vpmm_pool *pool, struct CUstream_st *stream)
{
	struct backend *be = pool->core.backend;
	uint64_t capture = 0;
	int err = 0;

	if (stream != VPMM_STREAM_ANY)
		err = be->ops->stream_capture(be, stream, &capture);
	if (!err && capture)
		err = error_set(-EBUSY, "the stream is under capture");
	return err;
}

static int begin_order(struct order *order)
{
	struct backend *be = order->pool->core.backend;
	int err;

	err = tags_make(order->pool, &order->tags);
	if (!err)
		err = be->ops->enter(be);
	if (err)
		return err;
	err = judge_capture(order->pool, order->request->stream);
	if (err)
		be->ops->leave(be);
	else
		order->pieces = g_ptr_array_new();
	return err;
}

static void end_order(const struct order *order)
{
	GList *messages;

	store_put_back(&order->tags->store, order->pieces);
	g_ptr_array_free(order->pieces, TRUE);
	if (!order->left)
		order->pool->core.backend->ops->leave(order->pool->core.backend);
	for_each_arena(arena, order->tags) {
		lock_acquire(&arena->core.lock);
		messages = log_take(&arena->core.log);
		lock_release(&arena->core.lock);
		log_deliver(&arena->core.log, messages);
	}
}

static int pause_one(struct order *order, struct vpmm_pool *arena)
{
	return pause_arena(order->tags, arena, order->request->flags);
}

/* Bytes of all that an arena has. */
static uint64_t arena_size(struct vpmm_pool *arena)
{
	uint64_t bytes;

	lock_acquire(&arena->core.lock);
	bytes = core_mapped(&arena->core);
	lock_release(&arena->core.lock);
	return bytes;
}

/* Asks others for memory with the backend left, as an allocation does. Undoing needs it, so it is entered once more. */
static int ask_for_it(struct order *order, struct vpmm_pool *arena, uint64_t *until, bool *given)
{
	struct backend *be = order->pool->core.backend;
	int err;

	be->ops->leave(be);
	*given = api_ask_for_memory(arena, arena_size(arena), until);
	err = be->ops->enter(be);
	if (err)
		err = be->ops->enter(be);
	order->left = err;
	return err;
}

static int resume_one(struct order *order, struct vpmm_pool *arena)
{
	struct error_kept kept;
	uint64_t until = 0;
	bool given = true;
	int err, failed;

	do {
		err = resume_arena(order->tags, arena);
		if (err != -ENOMEM)
			return err;
		error_keep(&kept);
		failed = ask_for_it(order, arena, &until, &given);
		if (failed)
			return failed;
		error_restore(&kept);
	} while (given);
	return err;
}

/* Arenas have no piece in common, so each takes its own, and all are put back at the end. */
static int prepare_one(struct order *order, struct vpmm_pool *arena)
{
	if (!arena_is_awake(arena))
		return 0;
	return store_take(&order->tags->store, pause_measure(order->tags, arena), order->pieces);
}

/* A tag without an arena has no memory to resume or to prepare. A pause makes one, so that allocations fail. */
static int find_or_make(const struct order *order, vpmm_tag tag, struct vpmm_pool **arena)
{
	*arena = arena_of(order->tags, tag);
	if (*arena || order->request->what != PAUSE_PAUSE || !tag_pausable(tag))
		return 0;
	return arena_make(order->tags, tag, arena);
}

/* A tag that was paused before this call stays paused if the call fails. */
static int do_each(struct order *order, order_fn fn, order_fn undo)
{
	/* An arena that is made below is awake. */
	bool resting[TAGS_MOST + 1] = { false };
	struct error_kept kept;
	int err = 0;

	for_each_arena(arena, order->tags)
		resting[arena->arena->tag] = !arena_is_awake(arena);
	for (vpmm_tag tag = 1; tag <= tag_count() && !err; tag++) {
		struct vpmm_pool *arena;

		err = find_or_make(order, tag, &arena);
		if (!err && arena)
			err = fn(order, arena);
		if (err)
			error_add(err, "tag \"%s\"", tag_name(tag));
	}
	if (!err || !undo || order->left)
		return err;
	error_keep(&kept);
	for_each_arena(arena, order->tags) {
		if (arena_is_awake(arena) == resting[arena->arena->tag])
			undo(order, arena);
	}
	error_restore(&kept);
	return err;
}

static int do_tag(struct order *order, vpmm_tag tag, order_fn fn, order_fn undo)
{
	struct vpmm_pool *arena;
	int err;

	if (tag == VPMM_TAG_ALL)
		return do_each(order, fn, undo);
	err = arena_make(order->tags, tag, &arena);
	if (!err)
		err = fn(order, arena);
	return err ? error_add(err, "tag \"%s\"", tag_name(tag)) : 0;
}

int pause_tags(struct vpmm_pool *pool, const struct pause_request *request)
{
	static const struct {
		order_fn fn;
		order_fn undo;
	} does[] = {
		[PAUSE_PAUSE] = { pause_one, resume_one },
		[PAUSE_RESUME] = { resume_one, pause_one },
		[PAUSE_PREPARE] = { prepare_one, NULL },
	};
	struct order order = { .request = request, .pool = pool };
	int err, cancel = cancel_hold();

	err = begin_order(&order);
	if (!err) {
		err = do_tag(&order, request->tag, does[request->what].fn, does[request->what].undo);
		end_order(&order);
	}
	cancel_release(cancel);
	return err;
}
