/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a monitored program asked of the driver, by its trace. */
#ifndef RUN_USE_H
#define RUN_USE_H

#include <stddef.h>
#include <stdint.h>

#include "trace.h"

/* The calls that allocate: cudaMalloc() and cudaMallocAsync(), each with its kin. */
enum use_kind { USE_PLAIN, USE_ORDERED, USE_KINDS };

/**
 * struct use - what was asked of one device
 * @kinds: by kind, how many allocations, their bytes, and those of the largest
 * @frees: how many
 * @moves: of those, how many of blocks that the program had copied whole to the start of a larger one
 * @moves_used: of those, how many with other work between the copy and the free
 * @moved: bytes copied in that way
 * @live: bytes that were not freed
 * @peak: the most bytes that were allocated at once
 * @pages: bytes of the pages of the driver that blocks were in, the most at once
 */
struct use {
	struct {
		uint64_t allocs;
		uint64_t bytes;
		size_t largest;
	} kinds[USE_KINDS];
	uint64_t frees;
	uint64_t moves;
	uint64_t moves_used;
	uint64_t moved;
	uint64_t live;
	uint64_t peak;
	uint64_t pages;
};

/**
 * use_count() - look at a trace
 * @trace: by the preload object: its ids are addresses, and idle blocks are those of cudaMalloc()
 */
struct use use_count(const struct trace *trace);

#endif /* RUN_USE_H */
