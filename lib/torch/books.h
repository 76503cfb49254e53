/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the program has of each device: its blocks by their address, and the statistics that PyTorch shows. */
#ifndef TORCH_BOOKS_H
#define TORCH_BOOKS_H

#include <stdbool.h>

#include "vpmm/torch_class.h"
#include "torch/torch.h"

struct part;

/**
 * struct entry - a block that the program has
 * @ptr: its address
 * @requested: bytes that were asked for
 * @size: bytes as PyTorch counts them
 * @stream: the stream of the allocation
 * @part: of a pool; NULL: ordinary memory
 * @device: ordinal
 * @captured: ordinary memory that a stream used while it was captured
 * @shared: by what number other processes know it; 0: they do not
 */
struct entry {
	void *ptr;
	uint64_t requested;
	uint64_t size;
	struct CUstream_st *stream;
	struct part *part;
	int device;
	bool captured;
	uint64_t shared;
};

static inline void stat_add(struct torch_stat *stat, int64_t by)
{
	stat->current += by;
	if (stat->current > stat->peak)
		stat->peak = stat->current;
	if (by > 0)
		stat->allocated += by;
	else
		stat->freed -= by;
}

/* Bytes that come, with @by of 1, or go, with -1. */
static inline int64_t stat_signed(int by, uint64_t bytes)
{
	return by < 0 ? -(int64_t)bytes : (int64_t)bytes;
}

/* In all, and in small or large. */
static inline void stat_count(struct torch_stat *stats, bool large, int64_t by)
{
	stat_add(&stats[TORCH_ALL], by);
	stat_add(&stats[large ? TORCH_LARGE : TORCH_SMALL], by);
}

void stat_reset_sums(struct torch_stat *stat);
void stat_reset_peak(struct torch_stat *stat);

/* As pools_enter_child(), which calls it. */
void books_enter_child(void);

/* Adds a block, and counts it; false: no memory on the host. */
bool books_add(const struct entry *entry);

/**
 * books_take() - take a block out, and count that
 * @ptr: its address
 * @of_pool: take it only if it is of a pool, under the lock of those; otherwise only if it is of none
 * @entry: receives it, taken or not; @part tells
 *
 * A block of a pool stays active until books_passed().
 *
 * Return: whether there is one.
 */
bool books_take(void *ptr, bool of_pool, struct entry *entry);

bool books_find(const void *ptr, struct entry *entry);

/* Sets what the entry of a block says of captures. */
void books_mark_captured(const void *ptr);

/* By what number other processes know a block from now on; false: there is no such block. */
bool books_share(const void *ptr, uint64_t *number);

/* A block of a pool is not active any more. */
void books_passed(int device, uint64_t size, bool large);

/* So many more parts of a pool's segments, and bytes, are free in a segment that is not; or less. */
void books_split(int device, bool large, int64_t parts, int64_t bytes);

/* A segment of a pool has come, with 1, or gone, with -1. @own: the sums of the library have its bytes already. */
void books_segment(int device, uint64_t size, bool large, bool own, int by);

void books_retry(int device);
void books_oom(int device);

/* Without what the library counts. */
void books_stats(int device, struct torch_stats *stats);
/* Bytes of small and of large blocks that are of no pool. */
void books_ordinary(int device, int64_t bytes[TORCH_KINDS]);
void books_reset_accumulated(int device);
void books_reset_peaks(int device);

/* What came and went since the beginning, whatever was reset. */
void books_counts(int device, struct vpmm_torch_counts *counts);

#endif /* TORCH_BOOKS_H */
