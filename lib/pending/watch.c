// SPDX-License-Identifier: LGPL-2.1-or-later
/* Notes which graphs are gone, and ends what waits for them. */
#include <stdatomic.h>

#include "pending/deferred-free.h"
#include "pending/group.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "pending/watch.h"
#include "util/clock.h"
#include "util/error.h"

/*
 * A driver tells on a thread of its own, most often 0.3 ms after a graph's last launch. The waits double, and all of
 * them take 25 ms. After a wait in vain they take a tenth of the time since, at least 1.5 ms: a program may meet its
 * limit again and again while it keeps graphs, or destroy one and try again at once.
 */
#define AWAIT_US 100
#define AWAIT_LEAST_US (8 * AWAIT_US)
#define AWAIT_MOST_US (128 * AWAIT_US)
#define AWAIT_SHARE 20

struct watch {
	struct watch *next;
	struct watches *watches;
	uint64_t id;
};

/* Written by any thread, at any time: the pool's reference and that of each watch keep it. */
struct watches {
	atomic_uint refs;
	_Atomic(struct watch *) gone;
};

struct watches *watches_new(void)
{
	struct watches *watches = g_new0(struct watches, 1);

	atomic_init(&watches->refs, 1);
	return watches;
}

static struct watch *take_next(struct watch **list)
{
	struct watch *watch = *list;

	if (watch)
		*list = watch->next;
	return watch;
}

void watches_drop(struct watches *watches)
{
	struct watch *list, *watch;

	if (atomic_fetch_sub_explicit(&watches->refs, 1, memory_order_acq_rel) != 1)
		return;
	list = atomic_load_explicit(&watches->gone, memory_order_acquire);
	while ((watch = take_next(&list)))
		g_free(watch);
	g_free(watches);
}

/* The backend calls this. The pool may be gone by now, and any lock may be held. */
static void note_gone(void *data)
{
	struct watch *watch = data;
	struct watches *watches = watch->watches;

	watch->next = atomic_load_explicit(&watches->gone, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&watches->gone, &watch->next, watch, memory_order_release,
						      memory_order_relaxed))
		;
	watches_drop(watches);
}

void watch_begin(struct pending *pending, uint64_t id, struct CUstream_st *handle)
{
	const struct graph *graph = graph_find(pending, id);
	struct backend *be = pending->core->backend;
	struct error_kept kept;
	struct watch *watch;

	lock_assert_held(&pending->core->lock);
	if (graph && graph->watched)
		return;
	watch = g_new0(struct watch, 1);
	watch->watches = pending->watches;
	watch->id = id;
	atomic_fetch_add_explicit(&pending->watches->refs, 1, memory_order_relaxed);
	error_keep(&kept);
	if (!be->ops->graph_watch(be, handle, note_gone, watch)) {
		graph_get(pending, id)->watched = true;
		return;
	}
	error_restore(&kept);
	watches_drop(pending->watches);
	g_free(watch);
}

/* All of its launches are complete. */
static void end_graph(struct pending *pending, uint64_t id)
{
	hold_end_graph(pending, id);
	use_retire_graph(pending, id, NULL, NULL);
	group_leave(pending, id);
	graph_forget(pending, id);
}

static GArray *ids_of(const struct pending *pending, const struct group *group)
{
	GArray *ids = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, pending->graphs);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct graph *graph = value;

		if (graph->group == group)
			g_array_append_val(ids, graph->blocker.id);
	}
	return ids;
}

/* The group goes with its last graph. */
static void end_group(struct pending *pending, const struct group *group)
{
	GArray *ids = ids_of(pending, group);

	for (guint i = 0; i < ids->len; i++)
		end_graph(pending, g_array_index(ids, uint64_t, i));
	g_array_free(ids, TRUE);
}

static bool group_is_gone(const struct group *group)
{
	return group->gone == group->graphs;
}

/* A graph that was retired is not known any more. */
static void graph_gone(struct pending *pending, uint64_t id)
{
	struct graph *graph = graph_find(pending, id);

	if (!graph)
		return;
	graph->gone = true;
	if (graph->group)
		graph->group->gone++;
	if (!graph->group || !group_is_named(graph))
		end_graph(pending, id);
	else if (group_is_gone(graph->group))
		end_group(pending, graph->group);
}

bool watch_collect(struct pending *pending)
{
	struct watch *list, *watch;

	lock_assert_held(&pending->core->lock);
	if (!atomic_load_explicit(&pending->watches->gone, memory_order_relaxed))
		return false;
	list = atomic_exchange_explicit(&pending->watches->gone, NULL, memory_order_acquire);
	while ((watch = take_next(&list))) {
		graph_gone(pending, watch->id);
		g_free(watch);
	}
	return true;
}

void watch_await(struct pending *pending)
{
	uint64_t since = (clock_ns() - pending->awaited) / 1000;
	uint64_t most = CLAMP(since / AWAIT_SHARE, AWAIT_LEAST_US, AWAIT_MOST_US);
	uint64_t held = watch_held(pending);

	watch_collect(pending);
	for (uint64_t us = AWAIT_US; us <= most && watch_held(pending); us *= 2) {
		g_usleep(us);
		watch_collect(pending);
	}
	if (held && watch_held(pending) == held)
		pending->awaited = clock_ns();
}

void watch_group_left(struct pending *pending, uint64_t id)
{
	struct group *group = g_hash_table_lookup(pending->groups, &id);

	lock_assert_held(&pending->core->lock);
	if (group && group_is_gone(group))
		end_group(pending, group);
}

uint64_t watch_held(const struct pending *pending)
{
	GHashTableIter iter;
	uint64_t bytes = 0;
	gpointer value;

	lock_assert_held(&pending->core->lock);
	g_hash_table_iter_init(&iter, pending->graphs);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct graph *graph = value;

		for (const GList *link = graph->watched ? graph->blocker.holds.head : NULL; link; link = link->next) {
			const struct hold *hold = link->data;

			bytes += hold->graphs->len == 1 ? hold_size(hold) : 0;
		}
	}
	return bytes;
}
