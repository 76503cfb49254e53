// SPDX-License-Identifier: LGPL-2.1-or-later
/* Submits clears and copies of the library's own, with an event behind them. */
#include <glib.h>

#include "calls/pool.h"
#include "calls/submission.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/owner.h"
#include "core/small.h"
#include "core/wait-set.h"
#include "pending/deferred-free.h"
#include "pending/users.h"
#include "util/error.h"

static const struct backend_ops *submission_ops(const struct submission *s)
{
	return s->pool->core.backend->ops;
}

int submission_begin(struct submission *s, struct vpmm_pool *pool, struct CUstream_st *handle, bool captured)
{
	*s = (struct submission){ .pool = pool, .handle = handle };
	return captured ? 0 : submission_ops(s)->event_create(pool->core.backend, &s->reserved);
}

int submission_clear(struct submission *s, uint64_t addr, size_t size)
{
	int err;

	err = size ? submission_ops(s)->clear(s->pool->core.backend, addr, size, s->handle) : 0;
	if (err)
		return error_add(err, "clearing %zu bytes", size);
	s->begun = s->begun || size;
	s->pool->core.scrubbed += size;
	return 0;
}

int submission_copy(struct submission *s, uint64_t to, uint64_t from, size_t size)
{
	int err;

	err = size ? submission_ops(s)->copy(s->pool->core.backend, to, from, size, s->handle) : 0;
	if (err)
		return error_add(err, "copying %zu bytes", size);
	s->begun = s->begun || size;
	return 0;
}

int submission_end(struct submission *s, struct stream *stream, struct event **event)
{
	int err = 0;

	if (!s->reserved)
		err = submission_ops(s)->event_create(s->pool->core.backend, &s->reserved);
	if (err)
		return err;
	err = stream_record_reserved(stream, s->handle, &s->reserved, event);
	s->begun = s->begun && err;
	return err;
}

int submission_cover(struct submission *s, struct region *region)
{
	struct event *event;
	int err;

	if (region->stream->captured)
		return 0;
	if (region->block) {
		err = cache_mark_work(region, s->handle, &s->reserved);
		s->begun = s->begun && err;
		return err;
	}
	err = submission_end(s, region->stream, &event);
	if (err)
		return err;
	region_set_begin(region, event);
	event_unref(event);
	return 0;
}

int submission_cover_small(struct submission *s, struct small *small, struct stream *stream)
{
	struct event *event;
	int err;

	err = submission_end(s, stream, &event);
	if (err)
		return err;
	small_set_event(small, event);
	event_unref(event);
	return 0;
}

int submission_follow(struct vpmm_pool *pool, struct region *region, const struct small *small, struct stream *stream,
		      struct CUstream_st *handle)
{
	struct core *core = &pool->core;
	struct order order;
	int err = 0;

	order_init(&order, stream);
	order_add_event(&order, region ? cache_work(region) : small->event);
	if (!order_is_ready(&order))
		err = order_wait(&order, handle, core->settings.reuse == VPMM_REUSE_BLOCK, &core->counts.waits);
	order_clear(&order);
	return err;
}

void submission_set_aside_block(struct vpmm_pool *pool, struct region *region)
{
	if (cache_take(region))
		hold_unheard(&pool->pending, region);
}

void submission_keep(struct submission *s, uint64_t addr, const struct stream *stream)
{
	struct region *region = live_find(&s->pool->core, addr);

	if (!s->begun)
		return;
	use_add_work(&s->pool->pending, addr, stream->id, s->handle);
	if (region)
		cache_share(region);
}

void submission_drop(struct submission *s)
{
	if (s->reserved)
		submission_ops(s)->event_destroy(s->pool->core.backend, s->reserved);
	s->reserved = NULL;
}
