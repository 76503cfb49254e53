/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tables of actions share. */
#ifndef SWEEP_SCENES_H
#define SWEEP_SCENES_H

#include "calls/pool.h"
#include "core/cache.h"
#include "support/fault.h"
#include "sweep/sweep.h"

#define PACKED (SWEEP_PACKED | SWEEP_PACKED_UNCACHED)
#define PAGED (SWEEP_PAGED | SWEEP_PAGED_CACHED)
#define CACHED (SWEEP_PACKED | SWEEP_PAGED_CACHED)
#define UNCACHED (SWEEP_PACKED_UNCACHED | SWEEP_PAGED)
#define ALL (PACKED | PAGED)

#define OP(name) BACKEND_OP_##name

/* Actions: what they are about was left by the situation. */

static inline int act_malloc(struct sweep *s)
{
	return sweep_malloc(s, s->number, 0);
}

static inline int act_free(struct sweep *s)
{
	return sweep_free(s, s->ptr, 0);
}

static inline int act_free_any(struct sweep *s)
{
	return sweep_free(s, s->ptr, SWEEP_ANY);
}

static inline int act_trim(struct sweep *s)
{
	return vpmm_pool_trim(s->pool, 0, NULL);
}

static inline int act_query(struct sweep *s)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };

	return vpmm_pool_query(s->pool, s->number, s->streams[0], &forecast);
}

/* Somebody was short of memory; streams free without an event again after this. */
static inline void calm(struct sweep *s, int stream)
{
	for (int i = 0; i <= CACHE_NERVOUS; i++)
		sweep_drop(s, sweep_have(s, PAGE, stream), stream);
}

/* A page that the first stream has freed at work and got back, with no event between. */
static inline void *sweep_reuse(struct sweep *s)
{
	void *ptr;

	calm(s, 0);
	s->pool->packed.crowded = UINT64_MAX;
	ptr = sweep_have(s, PAGE, 0);
	sweep_busy(s, 0);
	sweep_drop(s, ptr, 0);
	g_assert_true(sweep_have(s, PAGE, 0) == ptr);
	return ptr;
}

/* Situations that several tables start from. */

static inline void use(struct sweep *s, void *ptr, int stream)
{
	assert_ok(vpmm_use(s->pool, ptr, s->streams[stream]));
}

static inline void stage_used(struct sweep *s)
{
	sweep_have(s, PAGE, 1);
	s->ptr = sweep_have(s, 2 * PAGE, 0);
	use(s, s->ptr, 1);
	s->number = 2 * PAGE;
}

static inline void stage_used_busy(struct sweep *s)
{
	stage_used(s);
	use(s, s->ptr, 2);
	sweep_busy(s, 1);
}

static inline void stage_capture_own(struct sweep *s)
{
	sweep_capture(s, 0);
	s->ptr = sweep_have(s, 2 * PAGE, 0);
	sweep_have(s, PAGE, 0);
}

static inline void stage_captured(struct sweep *s)
{
	stage_capture_own(s);
	sweep_end(s, 0);
}

#endif /* SWEEP_SCENES_H */
