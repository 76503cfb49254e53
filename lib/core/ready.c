// SPDX-License-Identifier: LGPL-2.1-or-later
/* Whole extents by the streams that can have them without a wait. */
#include "core/extent.h"
#include "core/ready.h"
#include "core/region.h"
#include "util/links.h"

static gint compare_ready(const struct extent *x, const struct extent *y)
{
	return (x->size < y->size) - (x->size > y->size);
}

static gint compare_numbers(const struct extent *x, const struct extent *y)
{
	return (x->ready.number > y->ready.number) - (x->ready.number < y->ready.number);
}

static gint compare_complete(gconstpointer a, gconstpointer b)
{
	return compare_ready(a, b) ?: compare_numbers(a, b);
}

/* What was freed earlier is left to other streams, which find it complete before long. */
static gint compare_own(gconstpointer a, gconstpointer b)
{
	return compare_ready(a, b) ?: compare_numbers(b, a);
}

static void set_delete(gpointer data)
{
	struct ready_set *set = data;

	g_tree_destroy(set->by_size);
	g_free(set);
}

void ready_init(struct ready *ready)
{
	*ready = (struct ready){ .complete.by_size = g_tree_new(compare_complete) };
	ready->sets = g_ptr_array_new_with_free_func(set_delete);
	g_queue_init(&ready->unknown);
	g_queue_init(&ready->pending);
}

void ready_clear(struct ready *ready)
{
	g_tree_destroy(ready->complete.by_size);
	g_ptr_array_free(ready->sets, TRUE);
}

void ready_forget(struct ready *ready, struct stream *stream)
{
	if (stream->ready)
		g_ptr_array_remove_fast(ready->sets, stream->ready);
	stream->ready = NULL;
}

static struct ready_set *set_of(struct ready *ready, struct stream *stream)
{
	if (!stream->ready) {
		stream->ready = g_new0(struct ready_set, 1);
		stream->ready->by_size = g_tree_new(compare_own);
		g_ptr_array_add(ready->sets, stream->ready);
	}
	return stream->ready;
}

static void list(GQueue *queue, GList *link, struct extent *extent)
{
	if (link->data)
		return;
	link->data = extent;
	links_append(queue, link);
}

static void delist(GQueue *queue, GList *link)
{
	if (!link->data)
		return;
	links_remove(queue, link);
	link->data = NULL;
}

static void set_add(struct ready_set *set, struct extent *extent)
{
	extent->ready.set = set;
	g_tree_insert(set->by_size, extent, extent);
	set->bytes += extent->size;
}

static void set_remove(struct extent *extent)
{
	struct ready_set *set = extent->ready.set;

	if (!set)
		return;
	g_tree_remove(set->by_size, extent);
	set->bytes -= extent->size;
	extent->ready.set = NULL;
}

void ready_enter(struct ready *ready, struct extent *extent)
{
	extent->ready.number = ++ready->entered;
	list(&ready->unknown, &extent->ready.unknown, extent);
}

void ready_leave(struct ready *ready, struct extent *extent)
{
	set_remove(extent);
	delist(&ready->unknown, &extent->ready.unknown);
	delist(&ready->pending, &extent->ready.pending);
}

void ready_doubt(struct ready *ready, struct extent *extent)
{
	set_remove(extent);
	list(&ready->unknown, &extent->ready.unknown, extent);
}

/*
 * Whether a single stream's work is pending on an extent, or none: *@stream is NULL then. Several streams that used the
 * same memory have one of their own, which no request is for.
 */
static bool find_sole_stream(struct region_map *regions, const struct extent *extent, struct stream **stream)
{
	const uint64_t end = extent->home->addr + extent->size;
	const struct region *region = region_at(regions, extent->home->addr);

	*stream = NULL;
	for (; region && region->addr < end; region = region->next) {
		const struct event *event = event_pending(region->event) ? event_left(region->event) : NULL;

		if (event && *stream && event->stream != *stream)
			return false;
		if (event)
			*stream = event->stream;
	}
	return true;
}

/* The unknown come in the order in which they became whole, as does what is pending. */
static void learn(struct ready *ready, struct region_map *regions, struct extent *extent)
{
	struct stream *stream;
	bool one = find_sole_stream(regions, extent, &stream);

	ready->looks++;
	if (one && !stream) {
		set_add(&ready->complete, extent);
		delist(&ready->pending, &extent->ready.pending);
		return;
	}
	if (one)
		set_add(set_of(ready, stream), extent);
	list(&ready->pending, &extent->ready.pending, extent);
}

uint64_t ready_update(struct ready *ready, struct region_map *regions, const struct stream *stream)
{
	while (ready->unknown.head) {
		struct extent *extent = ready->unknown.head->data;

		delist(&ready->unknown, &extent->ready.unknown);
		learn(ready, regions, extent);
	}
	return ready->complete.bytes + (stream->ready ? stream->ready->bytes : 0);
}

bool ready_is_right(struct ready *ready, struct region_map *regions, struct extent *extent)
{
	struct stream *stream;
	bool one;

	if (extent->ready.unknown.data)
		return !extent->ready.set;
	one = find_sole_stream(regions, extent, &stream);
	if (one && !stream)
		return extent->ready.set == &ready->complete && !extent->ready.pending.data;
	return extent->ready.set == (one ? stream->ready : NULL) && extent->ready.pending.data;
}

/* The first of a set with no more bytes than @most. */
static GTreeNode *first_upto(const struct ready_set *set, size_t most, uint64_t number)
{
	const struct extent key = { .size = most, .ready.number = number };

	return set ? g_tree_lower_bound(set->by_size, &key) : NULL;
}

static GTreeNode *own_upto(const struct ready_walk *walk, size_t most)
{
	return first_upto(walk->own, most, UINT64_MAX);
}

static GTreeNode *complete_upto(const struct ready_walk *walk, size_t most)
{
	return first_upto(&walk->ready->complete, most, 0);
}

struct ready_walk ready_walk(struct ready *ready, const struct stream *stream, size_t most)
{
	struct ready_walk walk = { .ready = ready, .own = stream->ready, .next_pending = ready->pending.head };

	walk.next_own = own_upto(&walk, most);
	walk.next_complete = complete_upto(&walk, most);
	return walk;
}

static struct extent *extent_of(GTreeNode *node)
{
	return node ? g_tree_node_key(node) : NULL;
}

static struct extent *next_pending(struct ready_walk *walk, size_t most)
{
	while (walk->next_pending) {
		struct extent *extent = walk->next_pending->data;

		walk->ready->looks++;
		walk->next_pending = walk->next_pending->next;
		if (extent->size <= most && !(walk->own && extent->ready.set == walk->own))
			return extent;
	}
	return NULL;
}

struct extent *ready_next(struct ready_walk *walk, size_t most)
{
	struct extent *own = extent_of(walk->next_own), *complete = extent_of(walk->next_complete);

	if (own && own->size > most) {
		walk->next_own = own_upto(walk, most);
		own = extent_of(walk->next_own);
	}
	if (complete && complete->size > most) {
		walk->next_complete = complete_upto(walk, most);
		complete = extent_of(walk->next_complete);
	}
	if (!own && !complete)
		return next_pending(walk, most);
	walk->ready->looks++;
	if (own && (!complete || own->size >= complete->size)) {
		walk->next_own = g_tree_node_next(walk->next_own);
		return own;
	}
	walk->next_complete = g_tree_node_next(walk->next_complete);
	return complete;
}
