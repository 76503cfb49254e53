// SPDX-License-Identifier: LGPL-2.1-or-later
#include "calls/pool.h"
#include "calls/query.h"
#include "policy/packed.h"
#include "policy/paged.h"
#include "policy/span.h"
#include "policy/trim.h"

/* Whether a request of so many units could be served; of two next to each other the smaller, where not both can. */
typedef bool (*could_fn)(struct vpmm_pool *pool, struct stream *stream, uint64_t size, uint64_t room);

static bool could_large(struct vpmm_pool *pool, struct stream *stream, uint64_t size, uint64_t room)
{
	return packed_could(pool, size, stream, room);
}

static bool could_small(struct vpmm_pool *pool, struct stream *stream, uint64_t size, uint64_t room)
{
	uint64_t addr;

	(void)room;
	return span_can_borrow(pool, stream, size) || region_find_run(&pool->spans, size, &addr);
}

/* The largest multiple of a piece that could be served, below one that could not. A good guess saves most steps. */
static uint64_t search(struct vpmm_pool *pool, struct stream *stream, uint64_t guess, uint64_t below, uint64_t room,
		       could_fn could)
{
	uint64_t low = 0, high = below / POOL_PIECE, step = pool->settings.page_size / POOL_PIECE;

	guess /= POOL_PIECE;
	if (guess && guess < high && could(pool, stream, guess * POOL_PIECE, room))
		low = guess;
	else if (guess)
		high = MIN(high, guess);
	for (; low && low + step < high; step *= 2) {
		if (could(pool, stream, (low + step) * POOL_PIECE, room))
			low += step;
		else
			high = low + step;
	}
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (could(pool, stream, middle * POOL_PIECE, room))
			low = middle;
		else
			high = middle;
	}
	return low * POOL_PIECE;
}

static uint64_t largest_packed(struct vpmm_pool *pool, struct stream *stream, uint64_t room)
{
	uint64_t more = span_unused(pool) + room;
	uint64_t most = pool->regions.bytes[REGION_FREE] + more + POOL_PIECE;
	uint64_t guess = pool->extents.whole_bytes + more, largest;

	/* What is whole, and what can be created in pages, can be had but for odd cases. */
	guess -= guess % pool->settings.page_size;
	largest = search(pool, stream, guess, MIN(most, SIZE_MAX / 4), room, could_large);
	if (largest >= pool_small_size(pool))
		return largest;
	return MAX(largest, search(pool, stream, 0, pool_small_size(pool), room, could_small));
}

uint64_t query_largest(struct vpmm_pool *pool, struct stream *stream, uint64_t room)
{
	uint64_t page = pool->settings.page_size, largest;

	if (page == SIZE_MAX)
		return room;
	if (pool->settings.paged)
		largest = (pool->regions.bytes[REGION_FREE] + room) / page * page;
	else
		largest = largest_packed(pool, stream, room);
	/* What is below a page the driver's allocator can have of the rest. */
	if (pool->settings.small == VPMM_SMALL_DRIVER && largest < page)
		return MIN(room, page - 1);
	return largest;
}

static void forecast_small(size_t size, uint64_t room, struct vpmm_forecast *forecast)
{
	if (size > room)
		return;
	forecast->way = VPMM_WAY_GROW;
	forecast->calls = 1;
}

static int foretell(struct vpmm_pool *pool, size_t size, struct stream *stream, struct CUstream_st *handle,
		    uint64_t *room, struct vpmm_forecast *forecast)
{
	size_t bytes = pool_round(pool, size);
	struct backend_info info;
	int err;

	err = pool->backend->ops->info(pool->backend, &info);
	if (err)
		return err;
	*room = MIN(info.memory_free, extent_room(&pool->extents));
	if (!size)
		forecast->way = VPMM_WAY_REUSE;
	else if (bytes && pool->settings.paged)
		err = paged_forecast(pool, bytes, stream, *room, forecast);
	else if (bytes)
		err = packed_forecast(pool, bytes, stream, handle, *room, forecast);
	else
		forecast_small(size, *room, forecast);
	return err;
}

int query_pool(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle, struct vpmm_forecast *forecast)
{
	struct stream *stream;
	uint64_t room;
	int err;

	*forecast = (struct vpmm_forecast){ .size = forecast->size };
	err = stream_get(&pool->streams, handle, &stream);
	if (err)
		return err;
	pool_begin_central(pool, stream, handle);
	err = foretell(pool, size, stream, handle, &room, forecast);
	/* Before it fails, the request takes back what the driver's allocator keeps; nobody can tell how much that is. */
	if (!err && forecast->way == VPMM_WAY_NONE && pool->settings.small == VPMM_SMALL_DRIVER) {
		err = trim_small(pool, 0, NULL);
		if (!err)
			err = foretell(pool, size, stream, handle, &room, forecast);
	}
	if (!err)
		forecast->largest = query_largest(pool, stream, room);
	return err;
}
