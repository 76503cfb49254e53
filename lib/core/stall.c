// SPDX-License-Identifier: LGPL-2.1-or-later
/* Samples of how long streams stand because of the pool. */
#include "backend/backend.h"
#include "core/stall.h"
#include "core/stream.h"
#include "util/error.h"

/*
 * A sample takes 6 us of the host: 1.2 for each record, 3 for the time between them. A request that waits takes 2 us or
 * more, so that one sample in 256 waits costs 1 %. The first waits are measured more often, or a short run would have
 * nothing to show: the gap grows by one with each sample.
 */
#define GAP_MOST 256

static void stall_drop(struct stall *stall, struct backend *be)
{
	be->ops->event_destroy(be, stall->start);
	if (stall->end)
		be->ops->event_destroy(be, stall->end);
}

/* Record a new event that keeps time. */
static struct backend_event *stall_mark(struct stream_map *map, struct CUstream_st *handle)
{
	struct backend *be = map->backend;
	struct backend_event *event;

	if (be->ops->event_create_timed(be, &event))
		return NULL;
	if (!be->ops->event_record(be, event, handle))
		return event;
	be->ops->event_destroy(be, event);
	return NULL;
}

/*
 * How many waits pass before the next sample: drawn at random, or a program that has the same waits in each of its
 * steps might have one of them measured each time. All pools draw the same numbers, so that a run can be repeated.
 */
static guint next_skip(struct stalls *stalls)
{
	stalls->gap = MIN(stalls->gap + 1, GAP_MOST);
	stalls->drawn = stalls->drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (guint)(stalls->drawn >> 33) % (2 * stalls->gap - 1);
}

struct stall stall_begin(struct stream_map *map, struct CUstream_st *handle)
{
	struct stalls *stalls = &map->stalls;
	struct stall stall = { .start = NULL };
	struct error_kept kept;

	if (stalls->skip) {
		stalls->skip--;
		return stall;
	}
	stalls->skip = next_skip(stalls);
	stall_collect(map);
	if (stalls->count == STALLS_PENDING)
		return stall;
	error_keep(&kept);
	stall.start = stall_mark(map, handle);
	error_restore(&kept);
	return stall;
}

void stall_end(struct stream_map *map, struct CUstream_st *handle, struct stall *stall, guint waits)
{
	struct stalls *stalls = &map->stalls;
	struct error_kept kept;

	if (!stall->start)
		return;
	error_keep(&kept);
	stall->waits = waits;
	stall->end = waits ? stall_mark(map, handle) : NULL;
	if (stall->end)
		stalls->pending[stalls->count++] = *stall;
	else
		stall_drop(stall, map->backend);
	error_restore(&kept);
}

/* Whether a sample is pending no more: it was read, or never can be. */
static bool stall_read(struct stream_map *map, const struct stall *stall)
{
	struct backend *be = map->backend;
	int complete;
	int64_t ns;

	if (be->ops->event_query(be, stall->end, &complete))
		return true;
	if (!complete)
		return false;
	if (!be->ops->event_elapsed(be, stall->start, stall->end, &ns)) {
		map->stalls.sampled += stall->waits;
		map->stalls.ns += (uint64_t)MAX(ns, 0);
	}
	return true;
}

void stall_collect(struct stream_map *map)
{
	struct stalls *stalls = &map->stalls;
	struct error_kept kept;
	guint left = 0;

	error_keep(&kept);
	for (guint i = 0; i < stalls->count; i++) {
		struct stall *stall = &stalls->pending[i];

		if (stall_read(map, stall))
			stall_drop(stall, map->backend);
		else
			stalls->pending[left++] = *stall;
	}
	stalls->count = left;
	error_restore(&kept);
}

void stall_clear(struct stream_map *map)
{
	for (guint i = 0; i < map->stalls.count; i++)
		stall_drop(&map->stalls.pending[i], map->backend);
	map->stalls.count = 0;
}
