/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Device addresses as keys of hash tables. */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <glib.h>
#include <stdint.h>

/*
 * Addresses are multiples of a page, and GLib's own hash of 64 bits keeps the lower half: at 2 MiB that leaves 11 bits,
 * and a table of a million becomes 2048 long chains. A multiplication carries every bit into the upper half.
 */
static inline guint address_hash(gconstpointer key)
{
	return (guint)(*(const uint64_t *)key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/**
 * address_table_new() - a hash table whose keys are addresses within its values
 * @destroy: called for a value that leaves the table; NULL: nothing
 *
 * Return: the table.
 */
static inline GHashTable *address_table_new(GDestroyNotify destroy)
{
	return g_hash_table_new_full(address_hash, g_int64_equal, NULL, destroy);
}

/**
 * address_table_get() - look a value up, or make and enter it
 * @table: of address_table_new(), for g_free() or what frees as it does
 * @key: the address
 * @size: of the value, whose first member is the key
 *
 * Return: the value; if it is new, all zero but for its key.
 */
static inline gpointer address_table_get(GHashTable *table, uint64_t key, size_t size)
{
	uint64_t *value = g_hash_table_lookup(table, &key);

	if (value)
		return value;
	value = g_malloc0(size);
	*value = key;
	g_hash_table_insert(table, value, value);
	return value;
}

#endif /* ADDRESS_H */
