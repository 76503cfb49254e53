// SPDX-License-Identifier: LGPL-2.1-or-later
/* Whose an address is: the ranges of all owners in a tree by address. */
#include "util/address-index.h"

#include "util/lock.h"

static struct lock lock = LOCK_INIT(LOCK_ADDRESSES);
/* Disjoint, each its own key. */
static GTree *ranges GUARDED_BY(lock);
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;

static gint compare_ranges(gconstpointer a, gconstpointer b)
{
	const struct address_range *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* The last that starts below an address. */
REQUIRES(lock)
static struct address_range *last_below(uint64_t addr)
{
	const struct address_range key = { .addr = addr };
	GTreeNode *node;

	if (!ranges)
		return NULL;
	node = g_tree_lower_bound(ranges, &key);
	node = node ? g_tree_node_previous(node) : g_tree_node_last(ranges);
	return node ? g_tree_node_value(node) : NULL;
}

REQUIRES(lock)
static struct address_range *find_range(uint64_t addr)
{
	struct address_range *range = addr < UINT64_MAX ? last_below(addr + 1) : NULL;

	return range && addr - range->addr < range->size ? range : NULL;
}

/* The tree goes with the last range, so that a program that is done with the library has nothing of it left. */
REQUIRES(lock)
static void remove_index_range(struct address_range *range)
{
	g_tree_remove(ranges, range);
	g_queue_unlink(&range->owner->ranges, &range->link);
	range->owner = NULL;
	if (!g_tree_nnodes(ranges)) {
		g_tree_destroy(ranges);
		ranges = NULL;
	}
}

void address_add(struct address_owner *owner, struct address_range *range, uint64_t addr, uint64_t size)
{
	struct address_range *stale;

	lock_acquire(&lock);
	if (owner->ended)
		goto out;
	while ((stale = last_below(addr + size)) && stale->addr + stale->size > addr)
		remove_index_range(stale);
	if (!ranges)
		ranges = g_tree_new(compare_ranges);
	*range = (struct address_range){ .addr = addr, .size = size, .owner = owner, .link.data = range };
	g_tree_insert(ranges, range, range);
	g_queue_push_tail_link(&owner->ranges, &range->link);
out:
	lock_release(&lock);
}

void address_remove(struct address_range *range)
{
	lock_acquire(&lock);
	if (range->owner)
		remove_index_range(range);
	lock_release(&lock);
}

uint64_t address_start(uint64_t addr)
{
	const struct address_range *range;
	uint64_t start;

	lock_acquire(&lock);
	range = find_range(addr);
	start = range ? range->addr : 0;
	lock_release(&lock);
	return start;
}

void address_open(struct address_owner *owner, void *who)
{
	lock_acquire(&lock);
	owner->who = who;
	lock_release(&lock);
}

void *address_visit(uint64_t addr, struct address_owner **owner)
{
	const struct address_range *range;
	void *who;

	lock_acquire(&lock);
	range = find_range(addr);
	who = range ? range->owner->who : NULL;
	if (who) {
		*owner = range->owner;
		range->owner->visitors++;
	}
	lock_release(&lock);
	return who;
}

void address_leave(struct address_owner *owner)
{
	lock_acquire(&lock);
	if (!--owner->visitors)
		pthread_cond_broadcast(&left);
	lock_release(&lock);
}

void address_end(struct address_owner *owner)
{
	lock_acquire(&lock);
	owner->ended = true;
	owner->who = NULL;
	while (owner->ranges.head)
		remove_index_range(owner->ranges.head->data);
	while (owner->visitors)
		lock_wait(&lock, &left);
	lock_release(&lock);
}
