// SPDX-License-Identifier: LGPL-2.1-or-later
/* Writes programs operation by operation, and copies them with other sizes or lifetimes. */
#include "program.h"

#include <glib.h>

/* Microseconds between two operations of a generated program. */
#define STEP_US 10

#define ALIGN 512

/* An allocation of the program under construction. */
struct allocation {
	size_t bytes;
	uint32_t slot;
};

struct program {
	struct trace *trace;
	GArray *ops;
	GArray *allocations;
	GArray *free_slots;
};

struct program *program_begin(const char *name)
{
	struct program *p = g_new0(struct program, 1);

	p->trace = g_new0(struct trace, 1);
	p->trace->name = g_strdup(name);
	p->ops = g_array_new(FALSE, TRUE, sizeof(struct trace_op));
	p->allocations = g_array_new(FALSE, TRUE, sizeof(struct allocation));
	p->free_slots = g_array_new(FALSE, TRUE, sizeof(uint32_t));
	return p;
}

static void add_op(struct program *p, const struct allocation *a, uint32_t stream, bool alloc)
{
	struct trace_op op = {
		.us = (uint64_t)p->ops->len * STEP_US,
		.bytes = a->bytes,
		.slot = a->slot,
		.stream = stream,
		.line = p->ops->len + 1,
		.kind = alloc ? TRACE_ALLOC : TRACE_FREE,
	};

	g_array_append_val(p->ops, op);
	p->trace->streams = MAX(p->trace->streams, stream + 1);
}

uint32_t program_malloc(struct program *p, size_t bytes, uint32_t stream)
{
	struct allocation a = { .bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN };

	if (p->free_slots->len) {
		a.slot = g_array_index(p->free_slots, uint32_t, p->free_slots->len - 1);
		g_array_set_size(p->free_slots, p->free_slots->len - 1);
	} else {
		a.slot = p->trace->slots++;
	}
	p->trace->allocs++;
	add_op(p, &a, stream, true);
	g_array_append_val(p->allocations, a);
	return p->allocations->len - 1;
}

void program_free(struct program *p, uint32_t alloc, uint32_t stream)
{
	const struct allocation *a = &g_array_index(p->allocations, struct allocation, alloc);

	add_op(p, a, stream, false);
	g_array_append_val(p->free_slots, a->slot);
}

struct trace *program_end(struct program *p)
{
	struct trace *trace = p->trace;

	trace->n_ops = p->ops->len;
	trace->ops = (struct trace_op *)(void *)g_array_free(p->ops, FALSE);
	g_array_free(p->allocations, TRUE);
	g_array_free(p->free_slots, TRUE);
	g_free(p);
	return trace;
}

struct trace *copy_sizes(const struct trace *trace, uint32_t seed)
{
	GHashTable *sizes = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
	struct trace *copy = g_memdup2(trace, sizeof(*trace));
	GRand *rand = g_rand_new_with_seed(seed);

	copy->name = g_strdup_printf("%s, sizes %u", trace->name, seed);
	copy->ops = g_memdup2(trace->ops, trace->n_ops * sizeof(*trace->ops));
	for (size_t i = 0; i < copy->n_ops; i++) {
		gint64 key = (gint64)copy->ops[i].bytes, *size = g_hash_table_lookup(sizes, &key);

		if (!size) {
			size = g_new(gint64, 1);
			*size = (gint64)((double)key * g_rand_double_range(rand, 0.75, 1.25));
			*size = (*size + ALIGN - 1) / ALIGN * ALIGN;
			g_hash_table_insert(sizes, g_memdup2(&key, sizeof(key)), size);
		}
		copy->ops[i].bytes = (size_t)*size;
	}
	g_rand_free(rand);
	g_hash_table_destroy(sizes);
	return copy;
}

/* An operation of the original, and when it comes in the copy. */
struct moved {
	double when;
	size_t index;
	size_t partner;			/* a free: index of the allocation */
};

static int compare_moved(const void *a, const void *b)
{
	const struct moved *x = a, *y = b;

	if (x->when != y->when)
		return x->when < y->when ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static struct moved *move_frees(const struct trace *trace, uint32_t seed)
{
	struct moved *moved = g_new(struct moved, trace->n_ops);
	size_t *born = g_new0(size_t, trace->slots);
	GRand *rand = g_rand_new_with_seed(seed);

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];
		double shift;

		moved[i] = (struct moved){ .when = (double)i, .index = i, .partner = i };
		if (op->kind == TRACE_ALLOC) {
			born[op->slot] = i;
			continue;
		}
		shift = (double)(i - born[op->slot]) * g_rand_double_range(rand, -0.25, 0.25);
		moved[i].when += shift;
		moved[i].partner = born[op->slot];
	}
	g_rand_free(rand);
	g_free(born);
	qsort(moved, trace->n_ops, sizeof(*moved), compare_moved);
	return moved;
}

struct trace *copy_lifetimes(const struct trace *trace, uint32_t seed)
{
	char *name = g_strdup_printf("%s, lifetimes %u", trace->name, seed);
	struct moved *moved = move_frees(trace, seed);
	struct program *p = program_begin(name);
	uint32_t *allocs = g_new0(uint32_t, trace->n_ops);

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[moved[i].index];

		if (op->kind == TRACE_ALLOC)
			allocs[moved[i].index] = program_malloc(p, op->bytes, op->stream);
		else
			program_free(p, allocs[moved[i].partner], op->stream);
	}
	g_free(allocs);
	g_free(moved);
	g_free(name);
	return program_end(p);
}

struct trace *family_program(const struct family *family, uint32_t seed)
{
	char *name = g_strdup_printf("%s %u", family->name, seed);
	struct program *p = program_begin(name);

	family->write(p, seed);
	g_free(name);
	return program_end(p);
}
