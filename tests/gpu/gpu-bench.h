/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool on a real GPU with a few streams, and allocations with patterns in them. */
#ifndef GPU_BENCH_H
#define GPU_BENCH_H

#include "gpu/gpu-fixture.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* A pool and its streams. */
struct bench {
	struct fixture f;
	drv_stream s[STREAMS];
};

/* An allocation with a pattern in it. */
struct slot {
	void *ptr;
	size_t size;
	uint64_t seed;
	drv_stream stream;
};

/* A pool on the cuda backend. */
struct vpmm_pool *bench_pool(struct vpmm_opts opts);

/* A pool and its streams; false, and the test is skipped, where there is no GPU. */
bool open_bench(struct bench *b, struct vpmm_opts opts);

/* Fails the test if a pattern was not intact. */
void close_bench(struct bench *b);

struct vpmm_stats stats_of(struct vpmm_pool *pool);

/* Allocates, and writes a pattern that no other allocation has. */
struct slot take(struct vpmm_pool *pool, size_t size, drv_stream stream);

/* Has its pattern checked, and frees it. */
void give(struct vpmm_pool *pool, struct slot *slot);

#endif /* GPU_BENCH_H */
