// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_pool_query(): what a request would take, and the largest that could be served. */
#include "calls/enter.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "policy/policy.h"
#include "policy/reclaim.h"

uint64_t query_largest(struct vpmm_pool *pool, struct stream *stream, uint64_t room)
{
	uint64_t page = pool->core.settings.page_size;
	uint64_t largest = pool->core.policy->largest(&pool->core, stream, room);

	lock_assert_held(&pool->core.lock);
	/* Requests below a page may still be served by the driver's allocator. */
	if (pool->core.settings.small == VPMM_SMALL_DRIVER && largest < page)
		return MIN(room, page - 1);
	return largest;
}

static int foretell(struct vpmm_pool *pool, const struct policy *policy, const struct request *request,
		    uint64_t *room, struct vpmm_forecast *forecast)
{
	const struct policy *own = pool->core.policy;
	struct backend_info info;
	int err;

	/* The largest request is the pool's own policy's, whatever the size asked for. */
	err = own->settle ? own->settle(&pool->core, request) : 0;
	if (!err)
		err = pool->core.backend->ops->info(pool->core.backend, &info);
	if (err)
		return err;
	*room = MIN(info.memory_free, extent_room(&pool->core.extents));
	if (!request->size) {
		forecast->way = VPMM_WAY_REUSE;
		return 0;
	}
	policy->forecast(&pool->core, request, *room, forecast);
	return 0;
}

/* The driver's allocator does not say how much it would give back. */
static bool reclaim_may_help(const struct core *core, size_t size, uint64_t room)
{
	return core->settings.small == VPMM_SMALL_DRIVER || core_mapped(core) - core_live(core) + room >= size;
}

/*
 * Does the same as request_memory(), up to where that would wait. A query carries out a reclaim, as only that shows how
 * much is free after it. The malloc after that begins with a plan that is not frugal, and so does this.
 */
static int foretell_reclaim(struct vpmm_pool *pool, const struct policy *policy, struct request *request,
			    uint64_t *room, struct vpmm_forecast *forecast)
{
	int err;

	err = foretell(pool, policy, request, room, forecast);
	if (err || forecast->way != VPMM_WAY_NONE || !reclaim_may_help(&pool->core, request->size, *room))
		return err;
	err = reclaim_unused(&pool->core);
	if (!err)
		err = foretell(pool, policy, request, room, forecast);
	if (err || forecast->way != VPMM_WAY_NONE)
		return err;
	request->frugal = true;
	return foretell(pool, policy, request, room, forecast);
}

int query_pool(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle, struct vpmm_forecast *forecast)
{
	size_t bytes = core_round(&pool->core, size);
	struct request request = { .size = bytes ? bytes : size, .handle = handle };
	uint64_t room = 0;
	int err;

	lock_assert_held(&pool->core.lock);
	*forecast = (struct vpmm_forecast){ .size = forecast->size };
	err = stream_get(&pool->core.streams, handle, &request.stream);
	if (err)
		return err;
	enter_stream(pool, request.stream, handle);
	err = foretell_reclaim(pool, policy_of(&pool->core, bytes), &request, &room, forecast);
	if (!err)
		forecast->largest = query_largest(pool, request.stream, room);
	return err;
}
