// SPDX-License-Identifier: LGPL-2.1-or-later
#include "run-use.h"

#include <glib.h>
#include <stdbool.h>

/* In what the driver takes memory for its allocators. */
#define PAGE ((uint64_t)2 << 20)

/* Pages with a block in them. Those that a block has to itself are only counted. */
struct pages {
	GHashTable *shared;		/* number of the page to that of the blocks */
	uint64_t used;
	uint64_t peak;
};

static void use_page(struct pages *pages, uint64_t page, bool more)
{
	gpointer key = GSIZE_TO_POINTER((gsize)page);
	gsize blocks = GPOINTER_TO_SIZE(g_hash_table_lookup(pages->shared, key));

	if (more) {
		pages->used += !blocks;
		g_hash_table_insert(pages->shared, key, GSIZE_TO_POINTER(blocks + 1));
	} else if (blocks > 1) {
		g_hash_table_insert(pages->shared, key, GSIZE_TO_POINTER(blocks - 1));
	} else if (blocks) {
		g_hash_table_remove(pages->shared, key);
		pages->used--;
	}
}

static void use_pages(struct pages *pages, uint64_t address, uint64_t bytes, bool more)
{
	uint64_t first = address / PAGE, last = (address + (bytes ? bytes - 1 : 0)) / PAGE;

	use_page(pages, first, more);
	if (last > first) {
		use_page(pages, last, more);
		pages->used += more ? last - first - 1 : first + 1 - last;
	}
	pages->peak = MAX(pages->peak, pages->used);
}

static void count_alloc(struct use *use, const struct trace_op *op)
{
	int kind = op->flags & TRACE_IDLE ? USE_PLAIN : USE_ORDERED;

	use->kinds[kind].allocs++;
	use->kinds[kind].bytes += op->bytes;
	use->kinds[kind].largest = MAX(use->kinds[kind].largest, op->bytes);
	use->live += op->bytes;
	use->peak = MAX(use->peak, use->live);
}

static void count_free(struct use *use, const struct trace_op *op)
{
	use->frees++;
	use->live -= op->bytes;
	use->moves += op->max > 0;
	use->moves_used += op->flags & TRACE_USED ? 1 : 0;
	use->moved += op->max;
}

struct use use_count(const struct trace *trace)
{
	struct pages pages = { .shared = g_hash_table_new(NULL, NULL) };
	uint64_t *addresses = g_new0(uint64_t, trace->slots);
	struct use use = { 0 };

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		if (op->kind == TRACE_ALLOC) {
			count_alloc(&use, op);
			addresses[op->slot] = op->id;
			use_pages(&pages, op->id, op->bytes, true);
		} else if (op->kind == TRACE_FREE) {
			count_free(&use, op);
			use_pages(&pages, addresses[op->slot], op->bytes, false);
		}
	}
	use.pages = pages.peak * PAGE;
	g_free(addresses);
	g_hash_table_destroy(pages.shared);
	return use;
}
