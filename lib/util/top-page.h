/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a process with VPMM_TOP=1 publishes for vpmm-top: a file in memory (memfd) with the name TOP_NAME, which others
 * find among the open files of the process. So nothing is left when the process is gone, however it ended.
 *
 * The page is read as a copy: it is whole if @sequence, read by itself, was even and the same before and after.
 */
#ifndef TOP_PAGE_H
#define TOP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define TOP_NAME "vpmm-top"
#define TOP_MAGIC UINT64_C(0x31706f746d6d7076)	/* "vpmmtop1" */

/* Of one process; others are left out. */
#define TOP_POOLS 64

/* Of one pool, those with the lowest numbers that something was allocated under. */
#define TOP_TAGS 16

/* Numbers of each tag, as struct vpmm_tag_stats has them. */
#define TOP_TAG_NUMBERS(X) X(live) X(requested) X(blocks) X(peak_live)

/**
 * struct top_tag - what a pool has under a tag
 * @name: of the tag
 */
struct top_tag {
	char name[64];
#define X(name) uint64_t name;
	TOP_TAG_NUMBERS(X)
#undef X
};

/* Numbers of each pool: its name here, in struct top_pool and in the output. */
#define TOP_NUMBERS(X) \
	X(taken) X(live) X(requested) X(stranded) X(limit) X(peak_taken) X(peak_requested) \
	X(mallocs) X(frees) X(waits) X(waits_sampled) X(wait_ns) X(driver_ns)

/**
 * struct top_pool - a pool
 * @number: that tells it from others of the process, from 1
 * @device: ordinal of its device
 * @backend: its name
 * @tag_count: of @tags
 * @tags: of the pool
 *
 * The rest is as vpmm_pool_stats(3) has it, in bytes, calls and nanoseconds, but:
 *
 * @taken: device memory that it holds
 * @stranded: the statistic "stuck"
 * @limit: UINT64_MAX: none
 */
struct top_pool {
	uint64_t number;
	int32_t device;
	char backend[16];
	uint32_t tag_count;
#define X(name) uint64_t name;
	TOP_NUMBERS(X)
#undef X
	struct top_tag tags[TOP_TAGS];
};

/**
 * struct top_page - the file
 * @magic: TOP_MAGIC
 * @pid: as the process has it
 * @count: of pools
 * @sequence: is odd while the page is being written
 * @updated_ns: by CLOCK_MONOTONIC
 * @pools: the pools
 */
struct top_page {
	uint64_t magic;
	uint32_t pid;
	uint32_t count;
	_Atomic uint64_t sequence;
	uint64_t updated_ns;
	struct top_pool pools[TOP_POOLS];
};

#endif /* TOP_PAGE_H */
