// SPDX-License-Identifier: LGPL-2.1-or-later
#include "picture-map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

struct map_region {
	uint64_t addr;
	uint64_t size;
	enum map_state state;
};

/* Regions from @begin to before @end. */
struct map_column {
	guint begin;
	guint end;
};

void map_init(struct map *map)
{
	*map = (struct map){
		.regions = g_array_new(FALSE, FALSE, sizeof(struct map_region)),
		.columns = g_array_new(FALSE, FALSE, sizeof(struct map_column)),
		.ranges = g_array_new(FALSE, FALSE, sizeof(struct map_range)),
	};
}

void map_clear(struct map *map)
{
	g_array_free(map->regions, TRUE);
	g_array_free(map->columns, TRUE);
	g_array_free(map->ranges, TRUE);
}

static bool read_state(const char *text, const char *end, enum map_state *state)
{
	static const struct {
		const char *kind;
		enum map_state state;
	} kinds[] = {
		{ " malloc ", MAP_ALLOCATED },
		{ " free ", MAP_FREE },
		{ " zombie", MAP_ZOMBIE },
		{ " unmapped", MAP_HOLE },
	};
	static const char pending[] = " pending";

	for (guint i = 0; i < G_N_ELEMENTS(kinds); i++) {
		if (!g_str_has_prefix(text, kinds[i].kind))
			continue;
		*state = kinds[i].state;
		if (*state == MAP_FREE && end - text >= (ptrdiff_t)strlen(pending) &&
		    g_str_has_prefix(end - strlen(pending), pending))
			*state = MAP_PENDING;
		return true;
	}
	return false;
}

/* "  0xADDRESS BYTES KIND stream ID STATE" */
static bool read_region(const char *line, const char *end, struct map_region *region)
{
	char *rest;

	region->addr = g_ascii_strtoull(line, &rest, 16);
	if (*rest != ' ')
		return false;
	region->size = g_ascii_strtoull(rest, &rest, 10);
	return region->size && region->size <= UINT64_MAX - region->addr && read_state(rest, end, &region->state);
}

/* Neighbours of one state need not be told apart. */
static void add_region(GArray *regions, guint begin, const struct map_region *region)
{
	struct map_region *last;

	if (region->state == MAP_HOLE)
		return;
	if (regions->len > begin) {
		last = &g_array_index(regions, struct map_region, regions->len - 1);
		if (last->addr + last->size == region->addr && last->state == region->state) {
			last->size += region->size;
			return;
		}
	}
	g_array_append_val(regions, *region);
}

static void extend_ranges(GArray *ranges, const struct map_range *range)
{
	struct map_range *last = NULL;

	if (ranges->len)
		last = &g_array_index(ranges, struct map_range, ranges->len - 1);
	if (last && range->addr <= last->addr + last->size)
		last->size = MAX(last->addr + last->size, range->addr + range->size) - last->addr;
	else
		g_array_append_val(ranges, *range);
}

/* Both kinds begin with the address. */
static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void unite_ranges(struct map *map, const struct map_region *regions, guint n)
{
	GArray *old = map->ranges;
	guint i;

	map->ranges = g_array_sized_new(FALSE, FALSE, sizeof(struct map_range), old->len + 1);
	for (i = 0; i < n; i++)
		g_array_append_val(old, ((struct map_range){ .addr = regions[i].addr, .size = regions[i].size }));
	g_array_sort(old, compare_addresses);
	for (i = 0; i < old->len; i++)
		extend_ranges(map->ranges, &g_array_index(old, struct map_range, i));
	g_array_free(old, TRUE);
	map->used = 0;
	for (i = 0; i < map->ranges->len; i++) {
		struct map_range *range = &g_array_index(map->ranges, struct map_range, i);

		range->below = map->used;
		map->used += range->size;
	}
}

int map_add(struct map *map, const char *dump)
{
	struct map_column column = { .begin = map->regions->len };
	struct map_region region, *first;
	const char *end;

	for (const char *line = dump; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		if (!g_str_has_prefix(line, "  0x"))
			continue;
		if (!read_region(line + strlen("  "), end, &region))
			return fail_set(-EBADMSG, "vpmm_pool_dump wrote \"%.*s\", which is no region",
					(int)(end - line), line);
		map->lines++;
		add_region(map->regions, column.begin, &region);
	}
	column.end = map->regions->len;
	if (column.begin < column.end) {
		first = &g_array_index(map->regions, struct map_region, column.begin);
		qsort(first, column.end - column.begin, sizeof(*first), compare_addresses);
		unite_ranges(map, first, column.end - column.begin);
	}
	g_array_append_val(map->columns, column);
	return 0;
}

void map_repeat(struct map *map)
{
	struct map_column column = g_array_index(map->columns, struct map_column, map->columns->len - 1);

	g_array_append_val(map->columns, column);
}

/* Bytes below @bytes are in rows before this one. */
static unsigned int row_of(const struct map *map, unsigned int rows, uint64_t bytes)
{
	return MIN((unsigned int)((double)bytes / (double)map->used * rows), rows - 1);
}

/* Counts the bytes of a region in each of the rows that it reaches into. */
static void weigh(const struct map *map, unsigned int rows, uint64_t (*weights)[MAP_STATES], uint64_t below,
		  const struct map_region *region)
{
	unsigned int first = row_of(map, rows, below), last = row_of(map, rows, below + region->size - 1);
	double height = (double)map->used / rows;

	for (unsigned int row = first; row <= last; row++) {
		double from = MAX((double)below, height * row);
		double to = MIN((double)(below + region->size), height * (row + 1));

		weights[row][region->state] += (uint64_t)MAX(to - from, 0);
	}
}

/* Of states with equally many bytes, the last: what is allocated shows. */
static unsigned char heaviest(const uint64_t weights[MAP_STATES], uint64_t height)
{
	uint64_t hole = height, most;
	unsigned char best = MAP_HOLE;

	for (unsigned int state = MAP_HOLE + 1; state < MAP_STATES; state++)
		hole -= MIN(weights[state], hole);
	most = hole;
	for (unsigned int state = MAP_HOLE + 1; state < MAP_STATES; state++) {
		if (weights[state] && weights[state] >= most) {
			most = weights[state];
			best = (unsigned char)state;
		}
	}
	return best;
}

unsigned char *map_draw(const struct map *map, unsigned int rows)
{
	guint columns = map->columns->len;
	unsigned char *cells = g_malloc0((size_t)columns * rows);
	uint64_t (*weights)[MAP_STATES] = g_malloc(sizeof(*weights) * rows);

	for (guint column = 0; column < columns; column++) {
		const struct map_range *range = (const void *)map->ranges->data;
		const struct map_column *has = &g_array_index(map->columns, struct map_column, column);

		memset(weights, 0, sizeof(*weights) * rows);
		for (guint at = has->begin; at < has->end; at++) {
			const struct map_region *region = &g_array_index(map->regions, struct map_region, at);

			while (region->addr - range->addr >= range->size)
				range++;
			weigh(map, rows, weights, range->below + (region->addr - range->addr), region);
		}
		for (unsigned int row = 0; row < rows; row++)
			cells[(size_t)(rows - 1 - row) * columns + column] =
				heaviest(weights[row], map->used / rows);
	}
	g_free(weights);
	return cells;
}
