// SPDX-License-Identifier: LGPL-2.1-or-later
/* Writes programs whose streams overlap, operation by operation. */
#include <glib.h>

#include "overlap.h"

/* As a driver does: with so many launches pending on a stream, the next call waits until one is done. */
#define LAUNCHES_AHEAD 1024

struct overlap *overlap_begin(const char *family, uint32_t seed)
{
	struct overlap *p = g_new0(struct overlap, 1);

	p->name = g_strdup_printf("%s %u", family, seed);
	p->family = family;
	p->rand = g_rand_new_with_seed(seed);
	p->handles = g_new0(struct CUstream_st *, OVERLAP_STREAMS_MAX);
	p->ahead = LAUNCHES_AHEAD;
	p->renews = seed % 2 == 0;
	p->ops = g_array_new(FALSE, FALSE, sizeof(struct overlap_op));
	p->blocks = g_array_new(FALSE, FALSE, sizeof(struct overlap_block));
	return p;
}

void overlap_free(struct overlap *p)
{
	overlap_end_streams(p);
	g_free(p->handles);
	g_free(p->name);
	g_rand_free(p->rand);
	g_array_free(p->ops, TRUE);
	g_array_free(p->blocks, TRUE);
	g_free(p);
}

static void add_op(struct overlap *p, const struct overlap_op *op)
{
	g_assert_cmpuint(op->stream, <, p->streams);
	g_array_append_vals(p->ops, op, 1);
}

uint32_t overlap_malloc(struct overlap *p, double bytes, uint32_t stream)
{
	const struct overlap_block block = { .bytes = (size_t)bytes, .stream = stream, .users = 1u << stream };
	const struct overlap_op op = { .kind = OVERLAP_MALLOC, .stream = stream, .number = p->blocks->len };

	add_op(p, &op);
	g_array_append_val(p->blocks, block);
	p->live += block.bytes;
	p->peak = MAX(p->peak, p->live);
	return op.number;
}

void overlap_drop(struct overlap *p, uint32_t block)
{
	struct overlap_block *b = &g_array_index(p->blocks, struct overlap_block, block);
	const struct overlap_op op = { .kind = OVERLAP_FREE, .stream = b->stream, .number = block };

	g_assert_false(b->freed);
	b->freed = true;
	p->live -= b->bytes;
	add_op(p, &op);
}

void overlap_use(struct overlap *p, uint32_t block, uint32_t stream)
{
	struct overlap_block *b = &g_array_index(p->blocks, struct overlap_block, block);

	const struct overlap_op op = { .kind = OVERLAP_USE, .stream = stream, .number = block };

	g_assert_false(b->freed);
	b->users |= 1u << stream;
	add_op(p, &op);
}

void overlap_work(struct overlap *p, uint32_t stream, enum vpmm_host_engine engine, double ns)
{
	const struct overlap_op op = { .kind = OVERLAP_WORK, .engine = engine, .stream = stream, .ns = (uint64_t)ns };

	add_op(p, &op);
}

uint32_t overlap_mark(struct overlap *p, uint32_t stream)
{
	const struct overlap_op op = { .kind = OVERLAP_MARK, .stream = stream, .number = p->marks++ };

	add_op(p, &op);
	return op.number;
}

void overlap_wait(struct overlap *p, uint32_t stream, uint32_t mark)
{
	const struct overlap_op op = { .kind = OVERLAP_WAIT, .stream = stream, .number = mark };

	add_op(p, &op);
}

double overlap_draw(struct overlap *p, double from, double to)
{
	return g_rand_double_range(p->rand, from, to);
}

struct overlap *overlap_program(const struct overlap_family *family, uint32_t seed)
{
	struct overlap *p = overlap_begin(family->name, seed);

	p->streams = family->streams;
	p->host_ns = (uint64_t)overlap_draw(p, 3000, 12000);
	family->write(p, family->products);
	return p;
}
