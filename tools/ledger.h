/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an allocator has given out, where the allocator does not say: sizes by address, what is taken, and the most. */
#ifndef LEDGER_H
#define LEDGER_H

#include <glib.h>
#include <stddef.h>

#include "allocator.h"

/* An allocator that keeps one has it as its first member. */
struct ledger {
	struct allocator base;
	GHashTable *sizes;
	uint64_t taken;
	uint64_t peak;
	uint64_t mallocs;
	uint64_t frees;
};

/*
 * ledger_init() - before the first; the allocator does what @ops says
 * ledger_malloc() - @taken bytes at an address were given out
 * ledger_taken() - how many bytes an address stands for; 0: it was not given out, or was taken back
 * ledger_free() - an address was taken back
 * ledger_stats() - the same as a pool's statistics; those that are not known are 0. For struct allocator_ops
 * ledger_destroy() - frees the allocator, of g_new(), after the last. For struct allocator_ops
 */
void ledger_init(struct ledger *ledger, const struct allocator_ops *ops);
void ledger_malloc(struct ledger *ledger, void *ptr, size_t taken);
size_t ledger_taken(struct ledger *ledger, void *ptr);
void ledger_free(struct ledger *ledger, void *ptr);
int ledger_stats(struct allocator *base, struct vpmm_stats *stats);
void ledger_destroy(struct allocator *base);

#endif /* LEDGER_H */
