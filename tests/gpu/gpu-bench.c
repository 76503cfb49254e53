// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu-bench.h"

struct vpmm_pool *bench_pool(struct vpmm_opts opts)
{
	struct vpmm_pool *pool;

	opts.size = sizeof(opts);
	opts.backend = "cuda";
	/* All but what is about pages or extents has to hold either way. */
	if (getenv("VPMM_TEST_PAGED") && !opts.extent_max && opts.page_size != SIZE_MAX) {
		opts.extent_max = opts.page_size ? opts.page_size : PAGE;
		opts.small = VPMM_SMALL_DRIVER;
	}
	assert_ok(vpmm_pool_create(&pool, &opts));
	return pool;
}

bool open_bench(struct bench *b, struct vpmm_opts opts)
{
	int i;

	if (!gpu_ready())
		return false;
	b->f.pool = bench_pool(opts);
	for (i = 0; i < STREAMS; i++)
		b->s[i] = gpu_stream();
	return true;
}

void close_bench(struct bench *b)
{
	int i;

	g_assert_cmpuint(gpu_wrong(), ==, 0);
	assert_ok(vpmm_pool_check(b->f.pool));
	vpmm_pool_destroy(b->f.pool);
	for (i = 0; i < STREAMS; i++)
		gpu_ok(cu.cuStreamDestroy(b->s[i]));
}

struct vpmm_stats stats_of(struct vpmm_pool *pool)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(pool, &stats));
	return stats;
}

struct slot take(struct vpmm_pool *pool, size_t size, drv_stream stream)
{
	static _Atomic uint64_t seeds = 1;
	struct slot slot = { .size = size, .stream = stream };

	slot.seed = atomic_fetch_add(&seeds, 1) * 0xd1342543de82ef95u;
	assert_ok(vpmm_malloc(pool, &slot.ptr, size, stream));
	g_assert_nonnull(slot.ptr);
	gpu_fill(slot.ptr, size, slot.seed, stream);
	return slot;
}

void give(struct vpmm_pool *pool, struct slot *slot)
{
	gpu_check(slot->ptr, slot->size, slot->seed, slot->stream);
	assert_ok(vpmm_free(pool, slot->ptr, slot->stream));
	slot->ptr = NULL;
}
