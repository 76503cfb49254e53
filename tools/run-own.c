// SPDX-License-Identifier: LGPL-2.1-or-later
#include "run-own.h"

#include <glib.h>

#include "fail.h"

struct own {
	struct allocator base;
	const struct trace *trace;
	struct allocator *plain;
	struct allocator *ordered;
	GHashTable *plain_ptrs;
	size_t next;			/* operation */
	uint64_t peak;
};

static uint64_t taken_by(struct allocator *a)
{
	struct vpmm_stats stats;

	return a->ops->stats(a, &stats) ? 0 : stats.mapped + stats.small_mapped;
}

/* The replay asks in the order of the trace. */
static bool is_plain(struct own *own)
{
	const struct trace *trace = own->trace;

	while (own->next < trace->n_ops && trace->ops[own->next].kind != TRACE_ALLOC)
		own->next++;
	return own->next < trace->n_ops && trace->ops[own->next++].flags & TRACE_IDLE;
}

static int own_alloc(struct allocator *base, void **ptr, size_t size, struct CUstream_st *stream)
{
	struct own *own = (struct own *)base;
	bool plain = is_plain(own);
	struct allocator *a = plain ? own->plain : own->ordered;
	int err;

	err = a->ops->alloc(a, ptr, size, stream);
	if (err)
		return fail_set(err, "%s", a->ops->error());
	if (plain && *ptr)
		g_hash_table_add(own->plain_ptrs, *ptr);
	own->peak = MAX(own->peak, taken_by(own->plain) + taken_by(own->ordered));
	return 0;
}

static int own_free(struct allocator *base, void *ptr, struct CUstream_st *stream)
{
	struct own *own = (struct own *)base;
	struct allocator *a = g_hash_table_remove(own->plain_ptrs, ptr) ? own->plain : own->ordered;
	int err = a->ops->free(a, ptr, stream);

	return err ? fail_set(err, "%s", a->ops->error()) : 0;
}

static int own_stats(struct allocator *base, struct vpmm_stats *stats)
{
	struct own *own = (struct own *)base;

	*stats = (struct vpmm_stats){
		.size = sizeof(*stats),
		.mapped = taken_by(own->plain) + taken_by(own->ordered),
		.peak_mapped = own->peak,
		.peak_taken = own->peak,
	};
	return 0;
}

static void own_destroy(struct allocator *base)
{
	struct own *own = (struct own *)base;

	own->plain->ops->destroy(own->plain);
	own->ordered->ops->destroy(own->ordered);
	g_hash_table_destroy(own->plain_ptrs);
	g_free(own);
}

static const struct allocator_ops own_ops = {
	.alloc = own_alloc,
	.free = own_free,
	.stats = own_stats,
	.error = fail_text,
	.destroy = own_destroy,
};

int own_create(struct device *dev, const struct trace *trace, struct allocator **allocator)
{
	struct allocator *plain, *ordered;
	struct own *own;
	int err;

	err = dev->ops->malloc(dev, &plain);
	if (err)
		return err;
	err = dev->ops->async(dev, &ordered);
	if (err) {
		plain->ops->destroy(plain);
		return err;
	}
	own = g_new0(struct own, 1);
	own->base.ops = &own_ops;
	own->trace = trace;
	own->plain = plain;
	own->ordered = ordered;
	own->plain_ptrs = g_hash_table_new(NULL, NULL);
	*allocator = &own->base;
	return 0;
}
