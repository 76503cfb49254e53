// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that tell a pool of streams, captures and graphs; and how much memory it keeps and may hold. */
#include <errno.h>

#include "api/api.h"
#include "calls/capture.h"
#include "calls/free.h"
#include "calls/limit.h"
#include "calls/note.h"
#include "calls/pool.h"
#include "calls/retire.h"
#include "calls/shared.h"
#include "pending/deferred-free.h"
#include "pending/watch.h"
#include "policy/trim.h"
#include "util/error.h"

int vpmm_use(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	int err;

	if (!ptr)
		return 0;
	err = api_check_stream(stream, "vpmm_use");
	if (!err && !api_defaults.generation && pool_shared_use(pool, ptr, stream, &err))
		return err ? error_add(err, "vpmm_use: %p", ptr) : 0;
	if (!err)
		err = api_resolve_owner(&pool, ptr, "vpmm_use");
	if (err)
		return err;
	err = api_begin(&pool, "vpmm_use");
	if (err)
		return err;
	err = pool_use(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, stream, .op = RECORD_USE, .addr = (uintptr_t)ptr);
	return api_end(pool, "vpmm_use", err);
}

int vpmm_stream_retire(struct vpmm_pool *pool, struct CUstream_st *stream)
{
	int err;

	err = api_check_stream(stream, "vpmm_stream_retire");
	if (err)
		return err;
	err = api_begin(&pool, "vpmm_stream_retire");
	if (err)
		return err;
	err = retire_stream(pool, stream);
	if (!err)
		note(pool, stream, .op = RECORD_STREAM_RETIRE);
	err = api_end(pool, "vpmm_stream_retire", err);
	if (!err)
		pool_shared_retire(pool, stream);
	return err;
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

int vpmm_capture_group(struct vpmm_pool *pool, uint64_t capture, uint64_t group)
{
	int err;

	err = api_begin(&pool, "vpmm_capture_group");
	if (err)
		return err;
	err = capture_group(pool, capture, group);
	if (!err)
		note(pool, NULL, .op = RECORD_CAPTURE_GROUP, .capture = capture, .addr = group);
	return api_end(pool, "vpmm_capture_group", err);
}

int vpmm_graph_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *stream)
{
	int err;

	err = api_check_stream(stream, "vpmm_graph_retire");
	if (err)
		return err;
	err = api_begin(&pool, "vpmm_graph_retire");
	if (err)
		return err;
	err = capture_retire(pool, id, stream);
	if (!err)
		note(pool, stream, .op = RECORD_GRAPH_RETIRE, .capture = id);
	return api_end(pool, "vpmm_graph_retire", err);
}

int vpmm_pool_trim(struct vpmm_pool *pool, size_t keep, size_t *released)
{
	uint64_t bytes, before, shareable;
	int err;

	err = api_begin(&pool, "vpmm_pool_trim");
	if (err)
		return err;
	before = pool->core.extents.given_back;
	watch_collect(&pool->pending);
	hold_poll_shareable(&pool->pending);
	shareable = pool->core.extents.given_back - before;
	err = trim_pool(&pool->core, keep, released ? &bytes : NULL);
	if (!err)
		note(pool, NULL, .op = RECORD_TRIM, .bytes = keep);
	err = api_end(pool, "vpmm_pool_trim", err);
	if (err)
		return err;
	shareable += pool_shared_trim(pool, !keep);
	if (released)
		*released = bytes + shareable;
	return 0;
}

int vpmm_pool_set_limit(struct vpmm_pool *pool, size_t bytes)
{
	int err;

	err = api_begin(&pool, "vpmm_pool_set_limit");
	if (err)
		return err;
	return api_end(pool, "vpmm_pool_set_limit", limit_set(pool, bytes));
}
