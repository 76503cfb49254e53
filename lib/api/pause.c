// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that pause and resume tags. */
#include <errno.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/pause.h"
#include "calls/tag.h"
#include "util/cancel.h"
#include "util/error.h"

/**
 * struct order - a call on the arenas of one or of all tags
 * @pool: the pool
 * @tags: its tags
 * @call: the name of the call
 * @flags: of vpmm_pause()
 */
struct order {
	struct vpmm_pool *pool;
	struct tags *tags;
	const char *call;
	unsigned int flags;
};

typedef int (*order_fn)(const struct order *order, struct vpmm_pool *arena);

static int judge_tag(vpmm_tag tag)
{
	int err;

	if (tag == VPMM_TAG_ALL)
		return 0;
	err = tag_check(tag);
	if (!err && !tag_pausable(tag))
		err = error_set(-EINVAL, "tag \"%s\" was opened without VPMM_TAG_PAUSABLE", tag_name(tag));
	return err;
}

/* With the backend entered and no lock held. A capture of another thread could not be told of the default stream. */
static int judge_capture(const struct vpmm_pool *pool, struct CUstream_st *stream)
{
	struct backend *be = pool->core.backend;
	uint64_t capture;
	int err;

	err = be->ops->stream_capture(be, STREAM_NULL, &capture);
	if (!err && !capture && stream != VPMM_STREAM_ANY)
		err = be->ops->stream_capture(be, stream, &capture);
	if (!err && capture)
		err = error_set(-EBUSY, "the stream is under capture");
	return err;
}

static int begin(struct order *order, struct vpmm_pool *pool, vpmm_tag tag, struct CUstream_st *stream)
{
	struct backend *be;
	int err;

	err = judge_tag(tag);
	if (!err && api_defaults.generation)
		err = error_set(-EBUSY, "the process was forked from one that had used the library");
	if (!err)
		err = api_resolve(&pool, order->call);
	if (!err)
		err = tags_make(pool, &order->tags);
	if (err)
		return error_add(err, "%s", order->call);
	order->pool = pool;
	be = pool->core.backend;
	err = be->ops->enter(be);
	if (err)
		return api_fail(pool, error_add(err, "%s", order->call));
	err = judge_capture(pool, stream);
	if (err) {
		be->ops->leave(be);
		return api_fail(pool, error_add(err, "%s", order->call));
	}
	return 0;
}

static void end(const struct order *order)
{
	GList *messages;

	order->pool->core.backend->ops->leave(order->pool->core.backend);
	for_each_arena(arena, order->tags) {
		lock_acquire(&arena->core.lock);
		messages = log_take(&arena->core.log);
		lock_release(&arena->core.lock);
		log_deliver(&arena->core.log, messages);
	}
}

static int pause_one(const struct order *order, struct vpmm_pool *arena)
{
	return pause_arena(order->tags, arena, order->flags);
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

/* Asks others for memory with the backend left, as an allocation does. */
static int resume_one(const struct order *order, struct vpmm_pool *arena)
{
	struct backend *be = order->pool->core.backend;
	uint64_t until = 0;
	bool given = true;
	int err;

	do {
		err = resume_arena(order->tags, arena);
		if (err == -ENOMEM) {
			be->ops->leave(be);
			given = api_ask_for_memory(arena, arena_size(arena), &until);
			if (be->ops->enter(be))
				return err;
		}
	} while (err == -ENOMEM && given);
	return err;
}

static int prepare_one(const struct order *order, struct vpmm_pool *arena)
{
	return arena_judge(arena) ? 0 : store_prepare(&order->tags->store, pause_measure(order->tags, arena));
}

/* What was paused before this call stays so if it fails. */
static int do_each(const struct order *order, order_fn fn, order_fn undo)
{
	bool before[TAGS_MOST + 1] = { false };
	struct error_kept kept;
	int err = 0;

	for (vpmm_tag tag = 1; tag <= tag_count() && !err; tag++) {
		struct vpmm_pool *arena = NULL;

		if (tag_pausable(tag))
			err = api_arena_make(order->tags, tag, &arena);
		before[tag] = arena && arena_is_awake(arena);
		if (!err && arena)
			err = fn(order, arena);
		if (err)
			error_add(err, "tag \"%s\"", tag_name(tag));
	}
	if (!err || !undo)
		return err;
	error_keep(&kept);
	for_each_arena(arena, order->tags) {
		if (arena_is_awake(arena) != before[arena->arena->tag])
			undo(order, arena);
	}
	error_restore(&kept);
	return err;
}

static int do_tag(const struct order *order, vpmm_tag tag, order_fn fn, order_fn undo)
{
	struct vpmm_pool *arena;
	int err;

	if (tag == VPMM_TAG_ALL)
		return do_each(order, fn, undo);
	err = api_arena_make(order->tags, tag, &arena);
	if (!err)
		err = fn(order, arena);
	return err ? error_add(err, "tag \"%s\"", tag_name(tag)) : 0;
}

static int do_call(const char *call, struct vpmm_pool *pool, vpmm_tag word, unsigned int flags,
		   struct CUstream_st *stream, order_fn fn, order_fn undo)
{
	struct order order = { .call = call, .flags = flags };
	int err, cancel = cancel_hold();

	err = begin(&order, pool, tag_of(word), stream);
	if (!err) {
		err = do_tag(&order, tag_of(word), fn, undo);
		end(&order);
		if (err)
			err = api_fail(order.pool, error_add(err, "%s", call));
	}
	cancel_release(cancel);
	return err;
}

int vpmm_pause(struct vpmm_pool *pool, vpmm_tag tag, unsigned int flags)
{
	if (flags & ~VPMM_PAUSE_DROP)
		return error_set(-EINVAL, "vpmm_pause: flags are %#x: expected 0 or VPMM_PAUSE_DROP", flags);
	return do_call("vpmm_pause", pool, tag, flags, VPMM_STREAM_ANY, pause_one, resume_one);
}

int vpmm_resume(struct vpmm_pool *pool, vpmm_tag tag, struct CUstream_st *stream)
{
	return do_call("vpmm_resume", pool, tag, 0, stream, resume_one, pause_one);
}

int vpmm_pause_prepare(struct vpmm_pool *pool, vpmm_tag tag)
{
	return do_call("vpmm_pause_prepare", pool, tag, 0, VPMM_STREAM_ANY, prepare_one, NULL);
}
