// SPDX-License-Identifier: LGPL-2.1-or-later
#include <pthread.h>
#include <string.h>

#include "torch/books.h"
#include "torch/device.h"
#include "torch/ordinary.h"
#include "torch/pools.h"
#include "torch/reserved.h"
#include "torch/torch.h"

/* Counts of the library when the sums were reset. */
struct since {
	uint64_t grown;
	uint64_t given_back;
	uint64_t creates;
	uint64_t releases;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct since since[DEVICES];
static int64_t peaks[DEVICES][TORCH_KINDS];	/* the most that was noted since the peak was reset */

static struct since since_reset(int ordinal)
{
	struct since found;

	pthread_mutex_lock(&lock);
	found = since[ordinal];
	pthread_mutex_unlock(&lock);
	return found;
}

static int64_t larger(int64_t one, int64_t other)
{
	return one > other ? one : other;
}

static int64_t raise_peak(int ordinal, enum torch_kind kind, int64_t bytes)
{
	pthread_mutex_lock(&lock);
	peaks[ordinal][kind] = larger(peaks[ordinal][kind], bytes);
	bytes = peaks[ordinal][kind];
	pthread_mutex_unlock(&lock);
	return bytes;
}

static int64_t library_bytes(const struct vpmm_stats *held)
{
	return (int64_t)(held->mapped + held->small_mapped + held->shareable + held->shared);
}

/* The peak of the library's own memory is exact; the sum is, too, unless both change between two notes. */
static int64_t peak_of(int ordinal, const struct vpmm_stats *held, uint64_t foreign)
{
	int64_t sum = library_bytes(held) + (int64_t)foreign;

	return raise_peak(ordinal, TORCH_ALL, larger(sum, (int64_t)held->peak_taken));
}

/* Each query divides the library's memory into kinds. Between two a kind has at least the peak of its blocks. */
static void stats_add(int ordinal, struct torch_stats *stats, enum torch_kind kind, int64_t bytes)
{
	struct torch_stat *stat = &stats->reserved_bytes[kind];

	stat->current += bytes;
	stat->peak = larger(stat->peak, larger(stat->current, stats->allocated_bytes[kind].peak));
	stat->peak = raise_peak(ordinal, kind, stat->peak);
}

/* Fills the counts of the library itself, without the segments of pools. All segments of its own are expandable. */
static void stats_add_library(int ordinal, const struct vpmm_stats *held, const struct pools_held *pools,
			      struct torch_stats *stats)
{
	const struct since begin = since_reset(ordinal);
	int64_t taken = library_bytes(held) - (int64_t)pools->own;
	int64_t small = ordinary_small(ordinal, taken);
	struct torch_stat *all = &stats->reserved_bytes[TORCH_ALL];

	all->current += taken;
	all->peak = peak_of(ordinal, held, pools->foreign);
	all->allocated += (int64_t)(held->grown - begin.grown);
	all->freed += (int64_t)(held->given_back - begin.given_back);
	/* Paused segments have no memory: the rest can be less than the small segments. */
	if (small > all->current - stats->reserved_bytes[TORCH_SMALL].current)
		small = all->current - stats->reserved_bytes[TORCH_SMALL].current;
	stats_add(ordinal, stats, TORCH_SMALL, small);
	stats_add(ordinal, stats, TORCH_LARGE, taken - small);
	stats->created = (int64_t)(held->creates - begin.creates);
	stats->released = (int64_t)(held->releases - begin.releases);
}

int reserved_stats(int ordinal, struct torch_stats *stats)
{
	struct vpmm_stats held = { .size = sizeof(held) };
	struct pools_held pools;
	int err;

	err = vpmm_torch_stats(ordinal, &held);
	if (err)
		return err;
	pools_held(ordinal, &pools);
	books_stats(ordinal, stats);
	stats_add_library(ordinal, &held, &pools, stats);
	return 0;
}

void reserved_note(int ordinal, uint64_t more)
{
	struct vpmm_stats held = { .size = sizeof(held) };
	struct pools_held pools;

	if (vpmm_torch_stats(ordinal, &held))
		return;
	pools_held(ordinal, &pools);
	peak_of(ordinal, &held, pools.foreign + more);
}

void reserved_reset_sums(int ordinal)
{
	struct vpmm_stats held = { .size = sizeof(held) };

	if (vpmm_torch_stats(ordinal, &held))
		return;
	pthread_mutex_lock(&lock);
	since[ordinal] = (struct since){ held.grown, held.given_back, held.creates, held.releases };
	pthread_mutex_unlock(&lock);
}

void reserved_reset_peak(int ordinal)
{
	pthread_mutex_lock(&lock);
	memset(peaks[ordinal], 0, sizeof(peaks[ordinal]));
	pthread_mutex_unlock(&lock);
}
