// SPDX-License-Identifier: LGPL-2.1-or-later
#include "allocator.h"

#include <glib.h>
#include <stdint.h>

#include "fail.h"

struct allocator_vpmm {
	struct allocator base;
	struct vpmm_pool *pool;
};

static struct vpmm_pool *pool_of(struct allocator *a)
{
	return ((struct allocator_vpmm *)a)->pool;
}

static int vpmm_alloc(struct allocator *a, void **ptr, size_t size, struct CUstream_st *stream)
{
	return vpmm_malloc(pool_of(a), ptr, size, stream);
}

static int vpmm_give_back(struct allocator *a, void *ptr, struct CUstream_st *stream)
{
	return vpmm_free(pool_of(a), ptr, stream);
}

static int vpmm_resize(struct allocator *a, void **ptr, size_t size, struct CUstream_st *stream)
{
	return vpmm_realloc(pool_of(a), ptr, size, stream);
}

static int vpmm_stats_read(struct allocator *a, struct vpmm_stats *stats)
{
	stats->size = sizeof(*stats);
	return vpmm_pool_stats(pool_of(a), stats);
}

static int vpmm_dump(struct allocator *a, FILE *out)
{
	return vpmm_pool_dump(pool_of(a), out);
}

static void vpmm_destroy(struct allocator *a)
{
	vpmm_pool_destroy(pool_of(a));
	g_free(a);
}

static const struct allocator_ops vpmm_ops = {
	.alloc = vpmm_alloc,
	.free = vpmm_give_back,
	.resize = vpmm_resize,
	.stats = vpmm_stats_read,
	.dump = vpmm_dump,
	.error = vpmm_last_error,
	.destroy = vpmm_destroy,
};

int allocator_vpmm_create(const struct vpmm_opts *opts, struct allocator **allocator)
{
	struct allocator_vpmm *a;
	struct vpmm_pool *pool;
	int err;

	err = vpmm_pool_create(&pool, opts);
	if (err)
		return fail_set(err, "%s", vpmm_last_error());
	a = g_new0(struct allocator_vpmm, 1);
	a->base.ops = &vpmm_ops;
	a->pool = pool;
	a->base.pool = opts->page_size == SIZE_MAX ? NULL : pool;
	*allocator = &a->base;
	return 0;
}
