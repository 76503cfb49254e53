// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that tell a pool of streams, captures and graphs; and how much memory it keeps and may hold. */
#include <errno.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/budget.h"
#include "calls/capture.h"
#include "calls/enter.h"
#include "calls/free.h"
#include "calls/note.h"
#include "calls/pool.h"
#include "calls/shared.h"
#include "core/alias.h"
#include "pending/pending.h"
#include "policy/trim.h"
#include "util/cancel.h"
#include "util/error.h"

int vpmm_use(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	int err;

	if (!ptr)
		return 0;
	err = api_check_stream(stream, "vpmm_use");
	if (!err && !api_is_forked() && pool_shared_use(pool, ptr, stream, &err))
		return err ? error_add(err, "vpmm_use: %p", ptr) : 0;
	if (!err)
		err = api_resolve_owner(&pool, ptr, "vpmm_use");
	if (err)
		return err;
	api_find_arena(&pool, ptr);
	err = api_begin(&pool, "vpmm_use");
	if (err)
		return err;
	err = arena_judge(pool);
	if (!err)
		err = pool_use(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, stream, .op = RECORD_USE, .addr = (uintptr_t)ptr);
	return api_end(pool, "vpmm_use", err);
}

/* For api_each(): @data is the stream. */
static int retire_each(struct vpmm_pool *pool, void *data)
{
	int err = retire_stream(pool, data);

	if (!err && !pool->arena)
		note(pool, data, .op = RECORD_STREAM_RETIRE);
	return err;
}

int vpmm_stream_retire(struct vpmm_pool *pool, struct CUstream_st *stream)
{
	int err;

	err = api_check_stream(stream, "vpmm_stream_retire");
	if (err)
		return err;
	err = api_resolve_for(&pool, "vpmm_stream_retire");
	if (err)
		return err;
	err = api_each(pool, "vpmm_stream_retire", retire_each, stream);
	if (err)
		return err;
	err = pool_shared_retire(pool, stream);
	return err ? api_fail(pool, error_add(err, "vpmm_stream_retire")) : 0;
}

int vpmm_capture_id(struct vpmm_pool *pool, struct CUstream_st *stream, uint64_t *id)
{
	uint64_t found;
	int err;

	if (!id)
		return error_set(-EINVAL, "vpmm_capture_id: id is NULL");
	err = api_check_stream(stream, "vpmm_capture_id");
	if (err)
		return err;
	err = api_begin(&pool, "vpmm_capture_id");
	if (err)
		return err;
	err = pool->core.backend->ops->stream_capture(pool->core.backend, stream, &found);
	if (!err)
		*id = found;
	return api_end(pool, "vpmm_capture_id", err);
}

/* What a call on a capture is about. */
struct of_capture {
	uint64_t capture;
	uint64_t group;
	struct CUstream_st *stream;
};

static int group_each(struct vpmm_pool *pool, void *data)
{
	const struct of_capture *it = data;
	int err = capture_group(pool, it->capture, it->group);

	if (!err && !pool->arena)
		note(pool, NULL, .op = RECORD_CAPTURE_GROUP, .capture = it->capture, .addr = it->group);
	return err;
}

int vpmm_capture_group(struct vpmm_pool *pool, uint64_t capture, uint64_t group)
{
	struct of_capture it = { .capture = capture, .group = group };

	return api_each(pool, "vpmm_capture_group", group_each, &it);
}

static int graph_retire_each(struct vpmm_pool *pool, void *data)
{
	const struct of_capture *it = data;
	int err = capture_retire(pool, it->capture, it->stream);

	if (!err && !pool->arena)
		note(pool, it->stream, .op = RECORD_GRAPH_RETIRE, .capture = it->capture);
	return err;
}

int vpmm_graph_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *stream)
{
	struct of_capture it = { .capture = id, .stream = stream };
	int err;

	err = api_check_stream(stream, "vpmm_graph_retire");
	if (err)
		return err;
	return api_each(pool, "vpmm_graph_retire", graph_retire_each, &it);
}

/**
 * struct trimming - a trim under way
 * @keep: bytes that the pool and its arenas keep together
 * @count: the caller wants to know @released
 * @held: bytes that they hold, if there are arenas
 * @released: bytes that they have given back
 */
struct trimming {
	size_t keep;
	bool count;
	uint64_t held;
	uint64_t released;
};

static int add_held(struct vpmm_pool *pool, void *data)
{
	struct trimming *it = data;

	it->held += core_resident(&pool->core);
	return 0;
}

/* A pool keeps the bytes that the others do not hold. */
static int trim_each(struct vpmm_pool *pool, void *data)
{
	struct trimming *it = data;
	uint64_t bytes = 0, before = pool->core.extents.given_back, held = core_resident(&pool->core);
	uint64_t others = it->held - MIN(it->held, held), keep = it->keep - MIN(it->keep, others);
	int err;

	if (pool->core.resting)
		return 0;
	pending_collect(&pool->pending);
	it->released += pool->core.extents.given_back - before;
	err = trim_pool(&pool->core, keep, it->count ? &bytes : NULL);
	/* Who keeps nothing is to be as small as can be, for a checkpoint perhaps. */
	if (!err && !it->keep && pool->core.regions.keeps)
		err = alias_trim(&pool->core);
	if (!err && !pool->arena)
		note(pool, NULL, .op = RECORD_TRIM, .bytes = it->keep);
	it->released += bytes;
	it->held -= MIN(it->held, held - core_resident(&pool->core));
	return err;
}

/* Host memory for contents goes with the last of the device's. */
static void trim_store(struct vpmm_pool *pool)
{
	struct backend *be = pool->core.backend;
	struct error_kept kept;
	int cancel = cancel_hold();

	error_keep(&kept);
	if (!be->ops->enter(be)) {
		store_trim(&pool_tags(pool)->store, 0);
		be->ops->leave(be);
	}
	error_restore(&kept);
	cancel_release(cancel);
}

int vpmm_pool_trim(struct vpmm_pool *pool, size_t keep, size_t *released)
{
	struct trimming it = { .keep = keep, .count = released };
	int err;

	err = api_resolve_for(&pool, "vpmm_pool_trim");
	if (err)
		return err;
	err = pool_tags(pool) ? api_each(pool, "vpmm_pool_trim", add_held, &it) : 0;
	if (!err)
		err = api_each(pool, "vpmm_pool_trim", trim_each, &it);
	if (err)
		return err;
	it.released += pool_shared_trim(pool, !keep);
	if (!keep && pool_tags(pool))
		trim_store(pool);
	if (released)
		*released = it.released;
	return 0;
}

static int limit_each(struct vpmm_pool *pool, void *data)
{
	return limit_set(pool, *(const size_t *)data);
}

int vpmm_pool_set_limit(struct vpmm_pool *pool, size_t bytes)
{
	int err;

	err = api_resolve_for(&pool, "vpmm_pool_set_limit");
	if (err)
		return err;
	err = api_each(pool, "vpmm_pool_set_limit", limit_each, &bytes);
	if (!err && limit_is_exceeded(pool))
		pool_shared_trim(pool, false);
	return err;
}
