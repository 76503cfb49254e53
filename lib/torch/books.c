// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A hash table with open addressing, and counters, under one lock that is held for some tens of instructions. The
 * library knows its own blocks, but not what PyTorch needs to know of each: the stream that it belongs to, and how much
 * of what was asked for.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "torch/arena.h"
#include "torch/books.h"
#include "torch/device.h"

#define FIRST_ROOM 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *table;
static size_t room, used;		/* room is a power of two, and at least twice what is used */
static struct torch_stats books[DEVICES];
static struct torch_stats before[DEVICES];	/* sums that were reset */
static int64_t ordinary[DEVICES][TORCH_KINDS];	/* bytes of blocks that are of no pool */

void books_enter_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

static size_t place_of(const void *ptr)
{
	return (size_t)(((uintptr_t)ptr >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (room - 1);
}

/* Where a block is, or where it would go. */
static size_t entry_place(const void *ptr)
{
	size_t at = place_of(ptr);

	while (table[at].ptr && table[at].ptr != ptr)
		at = (at + 1) & (room - 1);
	return at;
}

static struct entry *entry_of(const void *ptr)
{
	size_t at = room ? entry_place(ptr) : 0;

	return room && table[at].ptr ? &table[at] : NULL;
}

static bool make_room(void)
{
	struct entry *old = table, *after;
	size_t count = room, i;

	if (used < room / 2)
		return true;
	after = calloc(room ? 2 * room : FIRST_ROOM, sizeof(*after));
	if (!after)
		return false;
	table = after;
	room = room ? 2 * room : FIRST_ROOM;
	for (i = 0; i < count; i++)
		if (old[i].ptr)
			table[entry_place(old[i].ptr)] = old[i];
	free(old);
	return true;
}

/* Closes the gap, so that a search need not pass over what was removed. */
static void close_gap(size_t gap)
{
	size_t at = gap, home;

	for (;;) {
		at = (at + 1) & (room - 1);
		if (!table[at].ptr)
			break;
		home = place_of(table[at].ptr);
		if (((at - home) & (room - 1)) < ((at - gap) & (room - 1)))
			continue;
		table[gap] = table[at];
		gap = at;
	}
	table[gap].ptr = NULL;
}

static bool is_large(const struct entry *entry)
{
	return entry->part ? entry->part->segment->large : arena_is_large(entry->size);
}

/* Counts a block that comes, with 1, or goes, with -1. A block of a pool may stay active after it was freed. */
static void count_block(const struct entry *entry, int by)
{
	struct torch_stats *stats = &books[entry->device];
	int64_t size = stat_signed(by, entry->size);
	bool large = is_large(entry);

	stat_count(stats->allocation, large, by);
	stat_count(stats->allocated_bytes, large, size);
	stat_count(stats->requested_bytes, large, stat_signed(by, entry->requested));
	if (!entry->part)
		ordinary[entry->device][large ? TORCH_LARGE : TORCH_SMALL] += size;
	if (entry->part && by < 0)
		return;
	stat_count(stats->active, large, by);
	stat_count(stats->active_bytes, large, size);
}

bool books_add(const struct entry *entry)
{
	bool added;

	pthread_mutex_lock(&lock);
	added = make_room();
	if (added) {
		table[entry_place(entry->ptr)] = *entry;
		used++;
		count_block(entry, 1);
	}
	pthread_mutex_unlock(&lock);
	return added;
}

bool books_take(void *ptr, bool of_pool, struct entry *entry)
{
	struct entry *found;

	pthread_mutex_lock(&lock);
	found = entry_of(ptr);
	if (found)
		*entry = *found;
	if (found && of_pool == !!found->part) {
		close_gap((size_t)(found - table));
		used--;
		count_block(entry, -1);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

bool books_find(const void *ptr, struct entry *entry)
{
	const struct entry *found;

	pthread_mutex_lock(&lock);
	found = entry_of(ptr);
	if (found)
		*entry = *found;
	pthread_mutex_unlock(&lock);
	return found;
}

void books_mark_captured(const void *ptr)
{
	struct entry *found;

	pthread_mutex_lock(&lock);
	found = entry_of(ptr);
	if (found)
		found->captured = true;
	pthread_mutex_unlock(&lock);
}

bool books_share(const void *ptr, uint64_t *number)
{
	static uint64_t last;
	struct entry *found;

	pthread_mutex_lock(&lock);
	found = entry_of(ptr);
	if (found && !found->shared)
		found->shared = ++last;
	if (found)
		*number = found->shared;
	pthread_mutex_unlock(&lock);
	return found;
}

void books_passed(int device, uint64_t size, bool large)
{
	pthread_mutex_lock(&lock);
	stat_count(books[device].active, large, -1);
	stat_count(books[device].active_bytes, large, -(int64_t)size);
	pthread_mutex_unlock(&lock);
}

void books_split(int device, bool large, int64_t parts, int64_t bytes)
{
	pthread_mutex_lock(&lock);
	stat_count(books[device].inactive_split, large, parts);
	stat_count(books[device].inactive_split_bytes, large, bytes);
	pthread_mutex_unlock(&lock);
}

void books_segment(int device, uint64_t size, bool large, bool own, int by)
{
	struct torch_stat *all = &books[device].reserved_bytes[TORCH_ALL];

	pthread_mutex_lock(&lock);
	stat_count(books[device].segment, large, by);
	stat_count(books[device].reserved_bytes, large, stat_signed(by, size));
	if (own)
		*(by > 0 ? &all->allocated : &all->freed) -= (int64_t)size;
	pthread_mutex_unlock(&lock);
}

void books_retry(int device)
{
	pthread_mutex_lock(&lock);
	books[device].retries++;
	pthread_mutex_unlock(&lock);
}

void books_oom(int device)
{
	pthread_mutex_lock(&lock);
	books[device].ooms++;
	pthread_mutex_unlock(&lock);
}

void books_stats(int device, struct torch_stats *stats)
{
	pthread_mutex_lock(&lock);
	*stats = books[device];
	pthread_mutex_unlock(&lock);
}

void books_ordinary(int device, int64_t bytes[TORCH_KINDS])
{
	pthread_mutex_lock(&lock);
	memcpy(bytes, ordinary[device], sizeof(ordinary[device]));
	pthread_mutex_unlock(&lock);
}

/* Calls a function for every one of the statistics that have a peak and sums. */
static void for_each(struct torch_stats *stats, void (*fn)(struct torch_stat *stat))
{
	struct torch_stat *all[] = {
		stats->allocation, stats->segment, stats->active, stats->inactive_split, stats->allocated_bytes,
		stats->reserved_bytes, stats->active_bytes, stats->inactive_split_bytes, stats->requested_bytes,
	};
	size_t i, kind;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (kind = 0; kind < TORCH_KINDS; kind++)
			fn(&all[i][kind]);
}

void stat_reset_sums(struct torch_stat *stat)
{
	stat->allocated = stat->freed = 0;
}

void stat_reset_peak(struct torch_stat *stat)
{
	stat->peak = stat->current;
}

static void keep_sums(struct torch_stat *kept, const struct torch_stat *stat)
{
	kept->allocated += stat->allocated;
	kept->freed += stat->freed;
}

void books_reset_accumulated(int device)
{
	struct torch_stats *kept = &before[device], *stats = &books[device];

	pthread_mutex_lock(&lock);
	keep_sums(kept->allocation, stats->allocation);
	keep_sums(kept->requested_bytes, stats->requested_bytes);
	kept->retries += stats->retries;
	kept->ooms += stats->ooms;
	for_each(&books[device], stat_reset_sums);
	books[device].retries = books[device].ooms = 0;
	pthread_mutex_unlock(&lock);
}

void books_reset_peaks(int device)
{
	pthread_mutex_lock(&lock);
	for_each(&books[device], stat_reset_peak);
	pthread_mutex_unlock(&lock);
}

void books_counts(int device, struct vpmm_torch_counts *counts)
{
	const struct torch_stats *kept = &before[device], *stats = &books[device];

	pthread_mutex_lock(&lock);
	counts->allocs += (uint64_t)(kept->allocation->allocated + stats->allocation->allocated);
	counts->frees += (uint64_t)(kept->allocation->freed + stats->allocation->freed);
	counts->alloc_bytes += (uint64_t)(kept->requested_bytes->allocated + stats->requested_bytes->allocated);
	counts->free_bytes += (uint64_t)(kept->requested_bytes->freed + stats->requested_bytes->freed);
	counts->peak_blocks += (uint64_t)stats->allocation->peak;
	counts->retries += (uint64_t)(kept->retries + stats->retries);
	counts->ooms += (uint64_t)(kept->ooms + stats->ooms);
	pthread_mutex_unlock(&lock);
}
