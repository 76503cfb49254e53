// SPDX-License-Identifier: LGPL-2.1-or-later
/* Finds the region that has an address: the last that starts at or below it. */
#include <glib.h>

#include "core/region-start.h"
#include "core/region.h"
#include "util/assume.h"

/* Bits of a word, and cells of a row. */
#define WORD REGION_ROW

static uint64_t cell_of(const struct region_starts *starts, uint64_t addr)
{
	return (addr - starts->addr) >> starts->shift;
}

void region_starts_init(struct region_starts *starts, uint64_t addr, size_t size, unsigned int shift)
{
	uint64_t count = ((size - 1) >> shift) + 1;

	*starts = (struct region_starts){ .addr = addr, .shift = shift, .most = (count - 1) / WORD + 1 };
	starts->rows = g_new0(struct region_row *, starts->most);
	for (int level = 0; level < REGION_LEVELS; level++) {
		count = (count - 1) / WORD + 1;
		starts->bits[level] = g_new0(uint64_t, count);
	}
}

void region_starts_clear(struct region_starts *starts)
{
	/* A word of the second bitmap has a bit for each of 64 rows. */
	for (uint64_t row = 0; row < starts->most; row++) {
		if (starts->bits[1][row / WORD])
			g_free(starts->rows[row]);
		else
			row |= WORD - 1;
	}
	while (starts->spares)
		g_free(starts->spare[--starts->spares]);
	g_free(starts->rows);
	for (int level = 0; level < REGION_LEVELS; level++)
		g_free(starts->bits[level]);
}

static struct region_row *new_row(struct region_starts *starts)
{
	/* None of its cells has a region. */
	return starts->spares ? starts->spare[--starts->spares] : g_new0(struct region_row, 1);
}

static void drop_row(struct region_starts *starts, uint64_t number)
{
	if (starts->spares < REGION_ROWS_KEPT)
		starts->spare[starts->spares++] = starts->rows[number];
	else
		g_free(starts->rows[number]);
	starts->rows[number] = NULL;
}

/* A word without bits is one bit of the level above. */
static void set_bit(struct region_starts *starts, uint64_t bit)
{
	for (int level = 0; level < REGION_LEVELS; level++, bit /= WORD) {
		uint64_t *word = &starts->bits[level][bit / WORD], before = *word;

		*word |= UINT64_C(1) << bit % WORD;
		if (before)
			return;
	}
}

static void clear_bit(struct region_starts *starts, uint64_t bit)
{
	for (int level = 0; level < REGION_LEVELS; level++, bit /= WORD) {
		uint64_t *word = &starts->bits[level][bit / WORD];

		*word &= ~(UINT64_C(1) << bit % WORD);
		if (*word)
			return;
	}
}

void region_starts_add(struct region_starts *starts, struct region *region)
{
	uint64_t cell = cell_of(starts, region->addr);
	struct region_row *row = starts->rows[cell / WORD];
	struct region **first;

	if (!row)
		row = starts->rows[cell / WORD] = new_row(starts);
	first = &row->first[cell % WORD];
	if (!*first) {
		*first = region;
		starts->count++;
		set_bit(starts, cell);
	} else if (region->addr < (*first)->addr) {
		*first = region;
	}
}

void region_starts_remove(struct region_starts *starts, struct region *region)
{
	uint64_t cell = cell_of(starts, region->addr);
	struct region **first = &starts->rows[cell / WORD]->first[cell % WORD];
	struct region *next = region->next;

	if (*first != region)
		return;
	if (next && cell_of(starts, next->addr) == cell) {
		*first = next;
		return;
	}
	*first = NULL;
	starts->count--;
	clear_bit(starts, cell);
	if (!starts->bits[0][cell / WORD])
		drop_row(starts, cell / WORD);
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

/* The last cell, at or below one, in which a region starts. There is one, as the first region starts the chunk. */
static uint64_t cell_upto(const struct region_starts *starts, uint64_t cell)
{
	uint64_t word = upto(starts->bits[0][cell / WORD], cell % WORD);
	int level = 0;

	/* Up, to a word with a bit below the one that leads here, and down again by the last bit of each word. */
	while (!word) {
		cell /= WORD;
		level++;
		word = starts->bits[level][cell / WORD] & ((UINT64_C(1) << cell % WORD) - 1);
	}
	for (cell = cell / WORD * WORD + last_bit(word); level--; cell = cell * WORD + last_bit(word))
		word = starts->bits[level][cell];
	return cell;
}

struct region *region_starts_find(const struct region_starts *starts, uint64_t addr)
{
	uint64_t cell = cell_of(starts, addr);
	const struct region_row *row = starts->rows[cell / WORD];
	struct region *region = row ? row->first[cell % WORD] : NULL;

	if (!region) {
		cell = cell_upto(starts, cell);
		region = starts->rows[cell / WORD]->first[cell % WORD];
	}
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
