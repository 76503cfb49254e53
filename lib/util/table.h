/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A hash table from numbers, such as addresses and sizes, to pointers: in most cases one probe in one array, and no
 * allocation except to grow. For the lookups of each malloc and free. The caller locks.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_slot {
	uint64_t key;
	void *value;			/* NULL: the slot is empty */
};

/**
 * struct table - the table
 * @slots: the slots, a power of two; open addressing with linear probing
 * @shift: a key's hash is shifted by this to get a slot's number
 * @used: slots in use, about a quarter at most: a lookup then probes 1.2 slots in the mean, and 1.5 with a half
 *
 * As small as can be, so that it shares a cache line with what else its user reads.
 */
struct table {
	struct table_slot *slots;
	uint32_t shift;
	uint32_t used;
};

/**
 * table_init() - initialise an empty table
 * @table: the table
 */
void table_init(struct table *table);

/**
 * table_clear() - free the slots
 * @table: the table
 */
void table_clear(struct table *table);

/**
 * table_insert() - add a key that is not in the table
 * @table: the table
 * @key: the key
 * @value: its value, not NULL
 */
void table_insert(struct table *table, uint64_t key, void *value);

/**
 * table_remove() - remove a key
 * @table: the table
 * @key: the key; nothing happens if it is not there
 */
void table_remove(struct table *table, uint64_t key);

/* The number of slots, less one. */
static inline size_t table_mask(const struct table *table)
{
	return (size_t)(UINT64_MAX >> table->shift);
}

/* Keys are often multiples of a page; the multiplication carries every bit into the upper ones. */
static inline size_t table_home(const struct table *table, uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> table->shift);
}

/* The slot of a key, or the empty slot where it belongs. */
static inline struct table_slot *table_slot(const struct table *table, uint64_t key)
{
	size_t i = table_home(table, key);

	while (table->slots[i].value && table->slots[i].key != key)
		i = (i + 1) & table_mask(table);
	return &table->slots[i];
}

/**
 * table_find() - look a key up
 * @table: the table
 * @key: the key
 *
 * Return: its value, or NULL.
 */
static inline void *table_find(const struct table *table, uint64_t key)
{
	return table_slot(table, key)->value;
}

#endif /* TABLE_H */
