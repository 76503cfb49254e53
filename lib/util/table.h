/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A hash table of numbers, such as addresses and sizes, to pointers: one probe in one array in most cases, and nothing
 * allocated but when it grows. For what a malloc or free looks up each time. The caller locks.
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
 * @slots: a power of two of them; what does not fit where its key says is in the next ones
 * @mask: how many slots, less one
 * @shift: how far a key's hash is shifted to have a slot's number
 * @used: how many slots are not empty, at most half of them
 */
struct table {
	struct table_slot *slots;
	size_t mask;
	unsigned int shift;
	size_t used;
};

/**
 * table_init() - make it empty
 * @table: the table
 */
void table_init(struct table *table);

/**
 * table_clear() - free what it has of its own
 * @table: the table
 */
void table_clear(struct table *table);

/**
 * table_insert() - add a key that is not there
 * @table: the table
 * @key: the key
 * @value: its value, not NULL
 */
void table_insert(struct table *table, uint64_t key, void *value);

/**
 * table_remove() - take a key out
 * @table: the table
 * @key: the key; nothing happens if it is not there
 */
void table_remove(struct table *table, uint64_t key);

/* Keys are multiples of a page; a multiplication carries every bit into the upper ones. */
static inline size_t table_home(const struct table *table, uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> table->shift);
}

/* The slot that a key is in, or the empty one that it would be in. */
static inline struct table_slot *table_slot(const struct table *table, uint64_t key)
{
	size_t i = table_home(table, key);

	while (table->slots[i].value && table->slots[i].key != key)
		i = (i + 1) & table->mask;
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
