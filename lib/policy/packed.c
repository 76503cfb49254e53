// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdatomic.h>

#include "calls/pool.h"
#include "core/alias.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/wait-set.h"
#include "core/zombie.h"
#include "policy/budget.h"
#include "policy/fit.h"
#include "policy/gather.h"
#include "policy/packed.h"
#include "policy/reclaim.h"
#include "policy/span.h"
#include "policy/tuning.h"

/* Allocates a range for a stream, which comes after whoever had it. */
static int packed_take(struct vpmm_pool *pool, struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
		       struct CUstream_st *handle)
{
	bool block = pool->settings.reuse == VPMM_REUSE_BLOCK;
	struct region *region;
	struct order order;
	int err = 0;

	order_init(&order, stream);
	for (region = region_at(map, addr); region && region->addr < addr + size; region = region->next)
		order_add(&order, region);
	if (!order_is_met(&order)) {
		pool->counts.steals++;
		err = order_meet(&order, handle, block, &pool->counts.waits);
	}
	if (!err)
		live_enter(pool, region_take(map, addr, size, stream, order.own));
	order_clear(&order);
	return err;
}

/* Whether several threads have allocated lately, and not from their caches alone, if this one does. */
static bool packed_is_crowded(const struct vpmm_pool *pool)
{
	return pool->counts.mallocs < pool->crowded || (pool->thread && !pthread_equal(pool->thread, pthread_self()));
}

static void packed_note_thread(struct vpmm_pool *pool)
{
	if (pthread_equal(pool->thread, pthread_self()))
		return;
	if (pool->thread)
		pool->crowded = pool->counts.mallocs + tuning_crowded;
	pool->thread = pthread_self();
}

/* What is small makes no difference to what is large. */
static size_t flush_least(const struct vpmm_pool *pool, size_t size)
{
	size_t small = pool_small_size(pool);

	return size < small ? 0 : small;
}

/*
 * What other streams have cached may be what is missing. Of several threads each needs some for itself; taking it from
 * one another, they would all be held up for ever.
 */
static void packed_flush_others(struct vpmm_pool *pool, size_t size)
{
	cache_flush_streams(pool, packed_is_crowded(pool), flush_least(pool, size));
}

/* The same for an allocation: the other streams are to let others have what they free for a while. */
static void packed_reclaim(struct vpmm_pool *pool, size_t size)
{
	packed_flush_others(pool, size);
	atomic_fetch_add_explicit(&pool->pressure, 1, memory_order_relaxed);
}

/* What is cached is free; the better it is known, the better is the choice of what to take. */
static void packed_look_around(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle, size_t size)
{
	bool crowded;

	packed_note_thread(pool);
	crowded = packed_is_crowded(pool);
	cache_flush(pool, stream, handle, flush_least(pool, size));
	if (!crowded && !pool->streams.sole && g_hash_table_size(pool->streams.by_id) <= (guint)tuning_few_streams)
		packed_reclaim(pool, size);
}

static int packed_malloc_span(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			      struct CUstream_st *handle)
{
	struct region_map *spans = &pool->spans;
	struct region *region;
	int err = 0;

	*addr = 0;
	if (spans->dead.head) {
		err = zombie_reap(pool);
		if (err)
			return err;
	}
	region = region_find_own(spans, stream, size);
	if (!region) {
		packed_look_around(pool, stream, handle, size);
		region = region_find_own(spans, stream, size);
	}
	if (!region && !pool->streams.sole) {
		packed_reclaim(pool, size);
		err = stream_poll_busy(&pool->streams, false);
		if (err)
			return err;
		region = region_find_own(spans, stream, size);
	}
	if (!region)
		region = span_borrow(pool, stream, size);
	if (region)
		*addr = region->addr;
	else if (!budget_room(pool, size))
		region_find_run(spans, size, addr);
	if (*addr)
		pool->counts.reuses++;
	else
		err = span_grow(pool, addr);
	if (!err)
		err = packed_take(pool, spans, *addr, size, stream, handle);
	/* What is cached passes for allocated, and is not to be made room for. */
	if (!err && span_is_short(pool)) {
		cache_flush(pool, stream, handle, 0);
		span_settle(pool);
	}
	return err;
}

/* What was decided here before, if it can be had: without waiting for others, or, if @wait, with it. */
static int packed_recall(struct vpmm_pool *pool, uint64_t known, size_t size, struct stream *stream, bool wait,
			 uint64_t *addr)
{
	struct order order;
	int err = 0;

	*addr = 0;
	if (!known)
		return 0;
	order_init(&order, stream);
	if (!alias_reaches(pool, known, size, &order))
		goto out;
	if (!wait && !order_is_met(&order))
		err = order_poll(&order);
	if (!err && (wait || order_is_met(&order))) {
		alias_claim(pool, known, size);
		*addr = known;
	}
out:
	order_clear(&order);
	return err;
}

/* A run of free regions of whatever streams. */
static void packed_choose_run(struct vpmm_pool *pool, size_t size, uint64_t *addr)
{
	uint64_t start = 0;
	size_t run = region_find_run(&pool->regions, size, &start);

	if (run)
		*addr = fit_within(pool, start, run, size);
}

/* Memory that is mapped already, and free, or will be. *@addr stays 0 where there is none. @asked: nobody allocates. */
static int packed_find(struct vpmm_pool *pool, uint64_t known, size_t size, struct stream *stream, bool asked,
		       uint64_t *addr)
{
	int err;

	/* What nobody has to wait for any more is one with its neighbours, and fits more. */
	err = pool->streams.sole ? 0 : stream_poll_some(&pool->streams);
	if (!err)
		err = packed_recall(pool, known, size, stream, false, addr);
	if (err || *addr)
		return err;
	if (fit_find(pool, stream, size, addr))
		return 0;
	if (pool->streams.sole)
		return 0;
	if (asked)
		packed_flush_others(pool, size);
	else
		packed_reclaim(pool, size);
	err = stream_poll_busy(&pool->streams, false);
	if (err || fit_find(pool, stream, size, addr) || stream->captured)
		return err;
	err = packed_recall(pool, known, size, stream, true, addr);
	if (!err && !*addr)
		packed_choose_run(pool, size, addr);
	return err;
}

static int packed_gather(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			 struct CUstream_st *handle, bool frugal)
{
	struct order order;
	int err;

	order_init(&order, stream);
	err = gather_block(pool, &order, handle, size, frugal, addr);
	if (!err) {
		memo_put(&pool->memo, size, *addr);
		live_enter(pool, region_take(&pool->regions, *addr, size, stream, order.own));
	}
	order_clear(&order);
	return err;
}

/* What was found, where the decision before was @known. */
static int packed_reuse(struct vpmm_pool *pool, uint64_t known, uint64_t addr, size_t size, struct stream *stream,
			struct CUstream_st *handle)
{
	int err;

	if (addr != known)
		memo_put(&pool->memo, size, addr);
	err = packed_take(pool, &pool->regions, addr, size, stream, handle);
	pool->counts.reuses += !err;
	return err;
}

/* What is mapped, or else what can be gathered. */
static int packed_try(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
		      struct CUstream_st *handle, bool frugal)
{
	uint64_t known = memo_find(&pool->memo, size);
	int err;

	*addr = 0;
	err = packed_find(pool, known, size, stream, false, addr);
	if (err)
		return err;
	if (!*addr)
		return packed_gather(pool, addr, size, stream, handle, frugal);
	return packed_reuse(pool, known, *addr, size, stream, handle);
}

static int packed_malloc_large(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
			       struct CUstream_st *handle)
{
	int err;

	packed_look_around(pool, stream, handle, size);
	if (pool->regions.dead.head) {
		err = zombie_reap(pool);
		if (err)
			return err;
	}
	err = packed_try(pool, addr, size, stream, handle, false);
	/* Memory, mappings or addresses have run out: with all that is not in use given back, and no more than needed. */
	for (int round = 0; err == -ENOMEM && round < PRESSURE_ROUNDS; round++) {
		err = pressure_relieve(pool, size, stream, handle, round);
		if (!err)
			err = packed_try(pool, addr, size, stream, handle, true);
	}
	return err;
}

int packed_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
		  struct CUstream_st *handle)
{
	int err = -ENOMEM;

	if (size < pool_small_size(pool))
		err = packed_malloc_span(pool, addr, size, stream, handle);
	/* When there is no page for small requests to be had, they get what others have free. */
	return err == -ENOMEM ? packed_malloc_large(pool, addr, size, stream, handle) : err;
}

/* A range that is mapped and free. */
static void forecast_reuse(struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
			   struct vpmm_forecast *forecast)
{
	struct order order;

	order_init(&order, stream);
	for (struct region *region = region_at(map, addr); region && region->addr < addr + size; region = region->next)
		order_add(&order, region);
	forecast->way = VPMM_WAY_REUSE;
	forecast->waits = order_waits(&order);
	order_clear(&order);
}

/* As packed_malloc_span(). */
static int forecast_span(struct vpmm_pool *pool, size_t size, struct stream *stream, uint64_t room,
			 struct vpmm_forecast *forecast)
{
	struct region_map *spans = &pool->spans;
	uint64_t addr = 0, bytes = span_growth(pool);
	int err;

	packed_flush_others(pool, size);
	err = stream_poll_busy(&pool->streams, false);
	if (err)
		return err;
	if (region_find_own(spans, stream, size) || span_can_borrow(pool, stream, size)) {
		forecast->way = VPMM_WAY_REUSE;
	} else if (!budget_room(pool, size) && region_find_run(spans, size, &addr)) {
		forecast_reuse(spans, addr, size, stream, forecast);
	} else if (room >= pool->settings.page_size) {
		forecast->way = VPMM_WAY_GROW;
		forecast->grown = bytes > room ? pool->settings.page_size : bytes;
		forecast->calls = 3;
	}
	return 0;
}

static void forecast_gather(struct vpmm_pool *pool, size_t size, struct stream *stream, uint64_t room,
			    struct vpmm_forecast *forecast)
{
	struct gather_cost cost;

	gather_forecast(pool, stream, size, false, &cost);
	if (cost.create > room) {
		gather_forecast(pool, stream, size, true, &cost);
		if (cost.create > room + span_unused(pool))
			return;
	}
	forecast->way = cost.create ? VPMM_WAY_GROW : VPMM_WAY_HARVEST;
	forecast->grown = cost.create;
	forecast->remapped = cost.remapped;
	forecast->waits = cost.waits;
	forecast->calls = cost.calls;
}

int packed_forecast(struct vpmm_pool *pool, size_t size, struct stream *stream, struct CUstream_st *handle,
		    uint64_t room, struct vpmm_forecast *forecast)
{
	uint64_t addr;
	int err;

	/* Where memory is short, spans give back what no small request is in; and that is not known before. */
	cache_flush(pool, stream, handle, 0);
	packed_flush_others(pool, 0);
	err = stream_poll_busy(&pool->streams, false);
	if (!err)
		err = zombie_reap(pool);
	if (!err && size < pool_small_size(pool))
		err = forecast_span(pool, size, stream, room, forecast);
	if (err || forecast->way != VPMM_WAY_NONE)
		return err;
	/* That what was decided before becomes free where it was makes no difference to anybody. */
	err = packed_find(pool, memo_find(&pool->memo, size), size, stream, true, &addr);
	if (err)
		return err;
	if (addr)
		forecast_reuse(&pool->regions, addr, size, stream, forecast);
	else
		forecast_gather(pool, size, stream, room, forecast);
	return 0;
}

bool packed_could(struct vpmm_pool *pool, size_t size, struct stream *stream, uint64_t room)
{
	struct gather_cost cost;
	uint64_t addr;

	if (fit_find(pool, stream, size, &addr) || region_find_run(&pool->regions, size, &addr))
		return true;
	gather_forecast(pool, stream, size, true, &cost);
	return cost.create <= room + span_unused(pool);
}
