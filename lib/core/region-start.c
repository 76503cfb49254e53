// SPDX-License-Identifier: LGPL-2.1-or-later
/* Finds the region that has an address: the last that starts at or below it. */
#include <glib.h>

#include "core/region-start.h"
#include "core/region.h"
#include "util/assume.h"

/* Bits of a word. */
#define WORD 64

static uint64_t cell_of(const struct region_starts *starts, uint64_t addr)
{
	return (addr - starts->addr) >> REGION_CELL;
}

void region_starts_init(struct region_starts *starts, uint64_t addr, size_t size)
{
	uint64_t count = ((size - 1) >> REGION_CELL) / WORD + 1;

	starts->addr = addr;
	table_init(&starts->first);
	table_init(&starts->bits);
	for (int level = 0; level < REGION_LEVELS; level++) {
		count = (count - 1) / WORD + 1;
		starts->levels[level] = g_new0(uint64_t, count);
	}
}

void region_starts_clear(struct region_starts *starts)
{
	table_clear(&starts->first);
	table_clear(&starts->bits);
	for (int level = 0; level < REGION_LEVELS; level++)
		g_free(starts->levels[level]);
}

/* A word of the cells' bitmap has its first bit. */
static void mark(struct region_starts *starts, uint64_t number)
{
	for (int level = 0; level < REGION_LEVELS; level++, number /= WORD) {
		uint64_t *word = &starts->levels[level][number / WORD], before = *word;

		*word |= UINT64_C(1) << number % WORD;
		if (before)
			return;
	}
}

/* A word of the cells' bitmap has no bit any more. */
static void unmark(struct region_starts *starts, uint64_t number)
{
	for (int level = 0; level < REGION_LEVELS; level++, number /= WORD) {
		uint64_t *word = &starts->levels[level][number / WORD];

		*word &= ~(UINT64_C(1) << number % WORD);
		if (*word)
			return;
	}
}

/* Values are pointers, and a word that is 0 is absent, as NULL is. */
static void set_bit(struct region_starts *starts, uint64_t cell)
{
	uint64_t bit = UINT64_C(1) << cell % WORD;
	struct table_slot *slot = table_slot(&starts->bits, cell / WORD);

	if (slot->value) {
		slot->value = (void *)((uintptr_t)slot->value | bit);
		return;
	}
	table_insert(&starts->bits, cell / WORD, (void *)(uintptr_t)bit);
	mark(starts, cell / WORD);
}

static void clear_bit(struct region_starts *starts, uint64_t cell)
{
	struct table_slot *slot = table_slot(&starts->bits, cell / WORD);
	uint64_t left = (uintptr_t)slot->value & ~(UINT64_C(1) << cell % WORD);

	if (left) {
		slot->value = (void *)(uintptr_t)left;
		return;
	}
	table_remove(&starts->bits, cell / WORD);
	unmark(starts, cell / WORD);
}

void region_starts_add(struct region_starts *starts, struct region *region)
{
	uint64_t cell = cell_of(starts, region->addr);
	struct table_slot *slot = table_slot(&starts->first, cell);
	const struct region *first = slot->value;

	if (!first) {
		table_insert(&starts->first, cell, region);
		set_bit(starts, cell);
	} else if (region->addr < first->addr) {
		slot->value = region;
	}
}

void region_starts_remove(struct region_starts *starts, struct region *region)
{
	uint64_t cell = cell_of(starts, region->addr);
	struct table_slot *slot = table_slot(&starts->first, cell);
	struct region *next = region->next;

	if (slot->value != region)
		return;
	if (next && cell_of(starts, next->addr) == cell) {
		slot->value = next;
		return;
	}
	table_remove(&starts->first, cell);
	clear_bit(starts, cell);
}

static unsigned int last_bit(uint64_t word)
{
	return WORD - 1 - (unsigned int)__builtin_clzll(word);
}

/* The bits of a word up to one. */
static uint64_t upto(uint64_t word, uint64_t bit)
{
	return word & (UINT64_MAX >> (WORD - 1 - bit));
}

/* The last word of the cells' bitmap, below one, that has a bit. There is one, as the first region starts the chunk. */
static uint64_t word_below(const struct region_starts *starts, uint64_t number)
{
	int level = 0;

	while (!(number % WORD) || !upto(starts->levels[level][number / WORD], number % WORD - 1)) {
		number /= WORD;
		level++;
	}
	number = number / WORD * WORD + last_bit(upto(starts->levels[level][number / WORD], number % WORD - 1));
	while (level--)
		number = number * WORD + last_bit(starts->levels[level][number]);
	return number;
}

/* The last cell, at or below one, in which a region starts. */
static uint64_t cell_upto(const struct region_starts *starts, uint64_t cell)
{
	uint64_t number = cell / WORD, word = upto((uintptr_t)table_find(&starts->bits, number), cell % WORD);

	if (!word) {
		number = word_below(starts, number);
		word = (uintptr_t)table_find(&starts->bits, number);
	}
	return number * WORD + last_bit(word);
}

struct region *region_starts_find(const struct region_starts *starts, uint64_t addr)
{
	struct region *region = table_find(&starts->first, cell_upto(starts, cell_of(starts, addr)));

	assume(region);
	if (region->addr > addr)
		return region->prev;
	while (region->next && region->next->addr <= addr)
		region = region->next;
	return region;
}

bool region_starts_are_lowest(const struct region_starts *starts, const struct region *region)
{
	return !region->prev || cell_of(starts, region->prev->addr) != cell_of(starts, region->addr);
}
