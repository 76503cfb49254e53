// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ledger.h"

void ledger_init(struct ledger *ledger)
{
	*ledger = (struct ledger){ .sizes = g_hash_table_new(NULL, NULL) };
}

void ledger_clear(struct ledger *ledger)
{
	g_hash_table_destroy(ledger->sizes);
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

void ledger_stats(const struct ledger *ledger, struct vpmm_stats *stats)
{
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
}
