// SPDX-License-Identifier: LGPL-2.1-or-later
/* Open addressing with linear probing; a table grows when a quarter of it is in use. */
#include <glib.h>

#include "util/table.h"

#define LEAST_BITS 4

static void table_make(struct table *table, unsigned int bits)
{
	table->slots = g_new0(struct table_slot, (size_t)1 << bits);
	table->shift = 64 - bits;
	table->used = 0;
}

void table_init(struct table *table)
{
	table_make(table, LEAST_BITS);
}

void table_clear(struct table *table)
{
	g_free(table->slots);
	table->slots = NULL;
}

static void table_put(struct table *table, uint64_t key, void *value)
{
	*table_slot(table, key) = (struct table_slot){ .key = key, .value = value };
	table->used++;
}

static void table_grow(struct table *table)
{
	struct table_slot *old = table->slots;
	size_t count = table_mask(table) + 1;

	table_make(table, 64 - table->shift + 1);
	for (size_t i = 0; i < count; i++) {
		if (old[i].value)
			table_put(table, old[i].key, old[i].value);
	}
	g_free(old);
}

void table_insert(struct table *table, uint64_t key, void *value)
{
	if (table->used > table_mask(table) / 4)
		table_grow(table);
	table_put(table, key, value);
}

void table_remove(struct table *table, uint64_t key)
{
	size_t gap = table_slot(table, key) - table->slots, mask = table_mask(table), i;

	if (!table->slots[gap].value)
		return;
	/* A later entry of the run moves into the gap, unless its home lies behind the gap. */
	for (i = (gap + 1) & mask; table->slots[i].value; i = (i + 1) & mask) {
		size_t home = table_home(table, table->slots[i].key);

		if (((i - home) & mask) >= ((i - gap) & mask)) {
			table->slots[gap] = table->slots[i];
			gap = i;
		}
	}
	table->slots[gap] = (struct table_slot){ 0 };
	table->used--;
}
