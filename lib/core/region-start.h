/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the regions of a chunk start, to find the one that has an address.
 *
 * A chunk is divided into cells. An array has the lowest region that starts in each cell, and a hierarchy of bitmaps
 * says which cells have one. So a lookup reads a few words however many regions there are, and a region that changes
 * its kind changes nothing here.
 */
#ifndef REGION_START_H
#define REGION_START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bound.h"

struct region;

/* Cells of a row. */
#define REGION_ROW 64

/* Unused rows that a chunk keeps: a region that is split and merged again needs no new one each time. */
#define REGION_ROWS_KEPT BOUND(128, 2)

/* Levels of bitmaps: of the cells, and of the words of the level below. They are enough for 57 bits of addresses. */
#define REGION_LEVELS 7

struct region_row {
	struct region *first[REGION_ROW];
};

/**
 * struct region_starts - the starts of one chunk's regions
 * @addr: where the chunk starts
 * @shift: log2 of the bytes of a cell
 * @count: cells in which a region starts
 * @rows: of cells, each with the lowest region that starts there, or NULL; NULL: a row without any
 * @most: number of rows
 * @spare: unused rows
 * @spares: how many there are
 * @bits: the bitmaps; the lowest has a bit for each cell
 */
struct region_starts {
	uint64_t addr;
	unsigned int shift;
	uint64_t count;
	struct region_row **rows;
	uint64_t most;
	struct region_row *spare[REGION_ROWS_KEPT];
	unsigned int spares;
	uint64_t *bits[REGION_LEVELS];
};

/**
 * region_starts_init() - set up for a chunk without regions
 * @starts: the starts
 * @addr: where the chunk starts
 * @size: bytes of it
 * @shift: log2 of the bytes of a cell
 *
 * A chunk can be larger than all memory, and most of what is allocated here is never touched.
 */
void region_starts_init(struct region_starts *starts, uint64_t addr, size_t size, unsigned int shift);

/**
 * region_starts_clear() - free all of it
 * @starts: the starts
 */
void region_starts_clear(struct region_starts *starts);

/**
 * region_starts_add() - add a region
 * @starts: the starts of its chunk
 * @region: the region, with its address
 */
void region_starts_add(struct region_starts *starts, struct region *region);

/**
 * region_starts_remove() - remove a region
 * @starts: the starts of its chunk
 * @region: the region, with the address that it was added with; its @next is the next region that was added
 */
void region_starts_remove(struct region_starts *starts, struct region *region);

/**
 * region_starts_find() - the region that has an address
 * @starts: the starts of the chunk; all of its regions were added
 * @addr: the address, in the chunk
 *
 * Return: the region.
 */
struct region *region_starts_find(const struct region_starts *starts, uint64_t addr);

/**
 * region_starts_are_lowest() - whether a region is the lowest that starts in its cell
 * @starts: the starts of its chunk, which then have an entry for it
 * @region: the region, with its neighbours
 */
bool region_starts_are_lowest(const struct region_starts *starts, const struct region *region);

#endif /* REGION_START_H */
