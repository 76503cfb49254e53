// SPDX-License-Identifier: LGPL-2.1-or-later
/* Free ranges in two trees, by address and by size. */
#include <glib.h>

#include "host/ranges.h"

struct range {
	uint64_t start;
	uint64_t size;
};

struct host_ranges {
	GTree *by_start;	/* owns the ranges */
	GTree *by_size;
};

static gint compare_start(gconstpointer left, gconstpointer right, gpointer data)
{
	const struct range *a = left, *b = right;

	(void)data;
	return (a->start > b->start) - (a->start < b->start);
}

static gint compare_size(gconstpointer left, gconstpointer right, gpointer data)
{
	const struct range *a = left, *b = right;

	if (a->size != b->size)
		return a->size > b->size ? 1 : -1;
	return compare_start(left, right, data);
}

struct host_ranges *host_ranges_new(void)
{
	struct host_ranges *ranges = g_new(struct host_ranges, 1);

	ranges->by_start = g_tree_new_full(compare_start, NULL, NULL, g_free);
	ranges->by_size = g_tree_new_full(compare_size, NULL, NULL, NULL);
	return ranges;
}

void host_ranges_destroy(struct host_ranges *ranges)
{
	g_tree_unref(ranges->by_size);
	g_tree_unref(ranges->by_start);
	g_free(ranges);
}

static void insert_range(struct host_ranges *ranges, uint64_t start, uint64_t size)
{
	struct range *range = g_new(struct range, 1);

	range->start = start;
	range->size = size;
	g_tree_insert(ranges->by_start, range, range);
	g_tree_insert(ranges->by_size, range, range);
}

static void remove_range(struct host_ranges *ranges, struct range *range)
{
	g_tree_remove(ranges->by_size, range);
	g_tree_remove(ranges->by_start, range);
}

bool host_ranges_take(struct host_ranges *ranges, uint64_t size, uint64_t *start)
{
	const struct range least = { .start = 0, .size = size };
	GTreeNode *node = g_tree_lower_bound(ranges->by_size, &least);
	struct range *range;
	uint64_t left;

	if (!node)
		return false;
	range = g_tree_node_value(node);
	*start = range->start;
	left = range->size - size;
	remove_range(ranges, range);
	if (left)
		insert_range(ranges, *start + size, left);
	return true;
}

void host_ranges_give(struct host_ranges *ranges, uint64_t start, uint64_t size)
{
	const struct range key = { .start = start };
	GTreeNode *node = g_tree_lower_bound(ranges->by_start, &key);
	GTreeNode *before = node ? g_tree_node_previous(node) : g_tree_node_last(ranges->by_start);
	struct range *next = node ? g_tree_node_value(node) : NULL;
	struct range *prev = before ? g_tree_node_value(before) : NULL;

	if (next && next->start == start + size) {
		size += next->size;
		remove_range(ranges, next);
	}
	if (prev && prev->start + prev->size == start) {
		start = prev->start;
		size += prev->size;
		remove_range(ranges, prev);
	}
	insert_range(ranges, start, size);
}
