// SPDX-License-Identifier: LGPL-2.1-or-later
/* Finds, merges, splits and allocates what captures of a group have freed. */
#include "core/allocation.h"
#include "pending/deferred-free.h"
#include "pending/group-reuse.h"
#include "pending/group.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "util/error.h"

/* Without a named group, what was freed is not split, and serves if that wastes no more than this part of it. */
#define WASTE 8

/* Within a capture, other streams and other branches of the graph are not ordered before. */
static bool is_ordered_before(const struct hold *hold, const struct graph *graph, struct CUstream_st *handle)
{
	if (!tie_is_to(hold->graphs, &graph->blocker))
		return true;
	return hold->capture == graph->blocker.id && branch_is(&hold->branch, handle);
}

static bool is_complete(struct hold *hold)
{
	struct error_kept kept;

	if (event_pending(hold->region->event))
		return false;
	error_keep(&kept);
	if (order_poll(&hold->order))
		error_restore(&kept);
	return order_is_ready(&hold->order);
}

/* Whether a request of a capture can have it. */
static bool serves(struct hold *hold, const struct graph *graph, struct CUstream_st *handle)
{
	if (hold->silent->len || !hold->told || !is_ordered_before(hold, graph, handle))
		return false;
	for (guint i = 0; i < hold->graphs->len; i++) {
		if (graph_at(hold->graphs, i)->turn > graph->turn)
			return false;
	}
	return is_complete(hold);
}

static struct hold *find_fit(const struct graph *graph, const struct region_map *map, size_t size, size_t align,
			     struct CUstream_st *handle)
{
	bool named = group_is_named(graph);
	struct region wanted = { .size = size };
	struct hold key = { .region = &wanted };
	GTreeNode *node = g_tree_lower_bound(graph->group->freed, &key);

	for (; node; node = g_tree_node_next(node)) {
		struct hold *hold = g_tree_node_key(node);
		const struct region *region = hold->region;

		if (!named && region->size - size > region->size / WASTE)
			return NULL;
		if ((!named || region->chunk->map == map) && !(region->addr & (align - 1)) &&
		    serves(hold, graph, handle))
			return hold;
	}
	return NULL;
}

static int compare_addresses(gconstpointer a, gconstpointer b)
{
	const struct region *x = (*(const struct hold *const *)a)->region;
	const struct region *y = (*(const struct hold *const *)b)->region;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* All that a request can have, by address; nothing if it is less than the request. */
static GPtrArray *find_all(const struct graph *graph, const struct region_map *map, size_t size,
			   struct CUstream_st *handle)
{
	GPtrArray *holds = g_ptr_array_new();
	uint64_t bytes = 0;

	for (GTreeNode *node = g_tree_node_first(graph->group->freed); node; node = g_tree_node_next(node)) {
		struct hold *hold = g_tree_node_key(node);

		if (hold->region->chunk->map != map || !serves(hold, graph, handle))
			continue;
		g_ptr_array_add(holds, hold);
		bytes += hold->region->size;
	}
	if (bytes < size)
		g_ptr_array_set_size(holds, 0);
	g_ptr_array_sort(holds, compare_addresses);
	return holds;
}

/* Merges the upper one of two neighbours, which is dropped, into the lower, which is not linked. */
static void merge(struct pending *pending, struct hold *lower, struct hold *upper, const struct graph *graph)
{
	struct region *region = upper->region;

	hold_drop(pending, upper);
	live_join(pending->core, lower->region, region);
	hold_await_graphs(lower, upper->graphs);
	/* What the capture has had is its own stream's only. */
	if (upper->capture == graph->blocker.id) {
		lower->capture = upper->capture;
		lower->branch = upper->branch;
	}
	lower->ordered = lower->ordered && upper->ordered;
	lower->outside = lower->outside || upper->outside;
	hold_delete(upper);
}

/* Merges neighbours that a request can have. Returns whether there were any. */
static bool merge_all(struct pending *pending, const struct graph *graph, const struct region_map *map, size_t size,
		      struct CUstream_st *handle)
{
	GPtrArray *holds = find_all(graph, map, size, handle);
	bool any = false;
	guint next;

	for (guint i = 0; i < holds->len; i = next) {
		struct hold *lower = holds->pdata[i];

		for (next = i + 1; next < holds->len; next++) {
			struct hold *upper = holds->pdata[next];

			if (lower->region->next != upper->region)
				break;
			if (next == i + 1)
				hold_drop(pending, lower);
			merge(pending, lower, upper, graph);
		}
		if (next > i + 1)
			hold_keep(pending, lower);
		any = any || next > i + 1;
	}
	g_ptr_array_free(holds, TRUE);
	return any;
}

struct hold *group_reuse_find(struct pending *pending, const struct graph *graph, const struct region_map *map,
			      size_t size, size_t align, struct CUstream_st *handle)
{
	struct hold *hold = find_fit(graph, map, size, align, handle);

	lock_assert_held(&pending->core->lock);
	if (!hold && group_is_named(graph) && merge_all(pending, graph, map, size, handle))
		hold = find_fit(graph, map, size, align, handle);
	return hold;
}

/* The rest of what is taken stays with the graphs that have had all of it. */
static void keep_rest_held(struct pending *pending, const struct hold *hold, size_t size)
{
	struct region *region = live_split(pending->core, hold->region, size);
	struct hold *rest = hold_new_part(hold, region);

	hold_keep(pending, rest);
}

struct region *group_reuse_take(struct pending *pending, struct hold *hold, size_t size, struct stream *stream)
{
	struct region *region = hold->region;

	lock_assert_held(&pending->core->lock);
	hold_drop(pending, hold);
	if (region->size > size)
		keep_rest_held(pending, hold, size);
	live_hand(pending->core, region, stream);
	use_add_graphs(pending, region->addr, hold->graphs);
	use_find(pending, region->addr)->outside = hold->outside;
	hold_delete(hold);
	return region;
}
