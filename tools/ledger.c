// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ledger.h"

void ledger_init(struct ledger *ledger, const struct allocator_ops *ops)
{
	*ledger = (struct ledger){ .base.ops = ops, .sizes = g_hash_table_new(NULL, NULL) };
}

void ledger_destroy(struct allocator *base)
{
	g_hash_table_destroy(((struct ledger *)base)->sizes);
	g_free(base);
}

void ledger_malloc(struct ledger *ledger, void *ptr, size_t taken)
{
	g_hash_table_insert(ledger->sizes, ptr, GSIZE_TO_POINTER(taken));
	ledger->taken += taken;
	ledger->peak = MAX(ledger->peak, ledger->taken);
	ledger->mallocs++;
}

size_t ledger_taken(struct ledger *ledger, void *ptr)
{
	return GPOINTER_TO_SIZE(g_hash_table_lookup(ledger->sizes, ptr));
}

void ledger_free(struct ledger *ledger, void *ptr)
{
	ledger->taken -= ledger_taken(ledger, ptr);
	g_hash_table_remove(ledger->sizes, ptr);
	ledger->frees++;
}

int ledger_stats(struct allocator *base, struct vpmm_stats *stats)
{
	const struct ledger *ledger = (const struct ledger *)base;

	*stats = (struct vpmm_stats){
		.size = sizeof(*stats),
		.mapped = ledger->taken,
		.live = ledger->taken,
		.peak_live = ledger->peak,
		.peak_mapped = ledger->peak,
		.peak_taken = ledger->peak,
		.mallocs = ledger->mallocs,
		.frees = ledger->frees,
	};
	return 0;
}
