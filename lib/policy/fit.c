// SPDX-License-Identifier: LGPL-2.1-or-later
/* Chooses among the free ranges that a request fits into. */
#include "core/core.h"
#include "policy/fit.h"
#include "policy/tuning.h"

/*
 * The cost of a range: the bytes of whole extents that it breaks, and so pins; plus an eighth of what it leaves over,
 * which stays usable but becomes smaller; plus half of what it takes of whole extents, which no block can be gathered
 * from until they are free again.
 */
struct fit {
	struct core *core;
	size_t size;
	uint64_t addr;
	uint64_t cost;
	uint64_t stamp;
};

/* The part of the first extent in front of the range, if taking the range breaks the extent. */
static uint64_t broken_before(struct core *core, uint64_t addr)
{
	const struct place *first = extent_place_mapped(&core->extents, addr);

	return first->extent->live ? 0 : addr - first->addr;
}

static uint64_t broken_behind(struct core *core, uint64_t end)
{
	const struct place *last = extent_place_mapped(&core->extents, end - 1);

	return last->extent->live ? 0 : last->addr + last->extent->size - end;
}

/* The bytes of whole extents in a range. */
static uint64_t taken_whole(struct core *core, uint64_t addr, size_t size)
{
	const struct place *first = extent_place_mapped(&core->extents, addr), *last;
	uint64_t next = first->addr + first->extent->size, end = addr + size, bytes = size;

	if (first->extent->live)
		bytes -= MIN(end, next) - addr;
	if (next >= end)
		return bytes;
	/* The extents between the first and the last are free as a whole. */
	last = extent_place_mapped(&core->extents, end - 1);
	return last->extent->live ? bytes - (end - last->addr) : bytes;
}

/*
 * Of equal costs what was freed last, if ages are known: others wait less for what is older. Otherwise the lowest
 * address, so that the choice does not depend on which events are known to have passed.
 */
static bool comes_first(const struct fit *fit, uint64_t addr, uint64_t stamp)
{
	return stamp == fit->stamp ? addr < fit->addr : stamp > fit->stamp;
}

static void fit_try_at(struct fit *fit, uint64_t addr, uint64_t left, uint64_t stamp)
{
	uint64_t cost = left + broken_before(fit->core, addr);

	/* Most candidates are too expensive already, and the rest of the cost takes two lookups. */
	if (cost > fit->cost)
		return;
	cost += broken_behind(fit->core, addr + fit->size);
	cost += taken_whole(fit->core, addr, fit->size) / (uint64_t)tuning_taken_whole;
	if (cost < fit->cost || (cost == fit->cost && comes_first(fit, addr, stamp))) {
		fit->cost = cost;
		fit->stamp = stamp;
		fit->addr = addr;
	}
}

static void fit_try(struct fit *fit, uint64_t addr, size_t room, uint64_t stamp)
{
	size_t left = room - fit->size;

	fit_try_at(fit, addr, left / (uint64_t)tuning_left_over, stamp);
	if (left)
		fit_try_at(fit, addr + left, left / (uint64_t)tuning_left_over, stamp);
}

static void fit_try_set(struct fit *fit, const struct free_set *set)
{
	GTreeNode *node = set ? region_first_fit(&fit->core->regions, set, fit->size) : NULL;
	bool ages = region_map_ages(&fit->core->regions);

	for (int i = 0; node && i < tuning_candidates; i++, node = g_tree_node_next(node)) {
		struct region *region = g_tree_node_key(node);

		/* Larger regions leave even more over. */
		if ((region->size - fit->size) / (uint64_t)tuning_left_over > fit->cost)
			break;
		fit_try(fit, region->addr, region->size, ages ? event_stamp(region->event, NULL) : 0);
		/* An exact fit leaves no remainder too small for the next request. */
		if (region->size == fit->size && !ages)
			break;
	}
}

static bool is_ready(const struct region *region, const struct stream *stream)
{
	return region && region_is_free(region) && (!region->stream || region->stream == stream);
}

/*
 * Where pending neighbours do not merge, a block may span several: rows of regions, each of them smaller than the
 * block.
 */
static void fit_try_rows(struct fit *fit, const struct free_set *set, const struct stream *stream)
{
	GTreeNode *node = set ? region_last_below(&fit->core->regions, set, fit->size) : NULL;
	int looks = tuning_looks;

	for (; node && looks > 0; node = g_tree_node_previous(node), looks--) {
		struct region *first = g_tree_node_key(node), *last = first;
		size_t room;

		while (is_ready(first->prev, stream) && --looks > 0)
			first = first->prev;
		while (is_ready(last->next, stream) && --looks > 0)
			last = last->next;
		room = last->addr + last->size - first->addr;
		if (room >= fit->size)
			fit_try(fit, first->addr, room, 0);
	}
}

bool fit_find(struct core *core, struct stream *stream, size_t size, uint64_t *addr)
{
	const struct free_set *own = region_free_of(&core->regions, stream);
	const struct free_set *unused = region_free_of(&core->regions, NULL);
	struct fit fit = { .core = core, .size = size, .cost = UINT64_MAX };

	fit_try_set(&fit, own);
	fit_try_set(&fit, unused);
	if (region_map_ages(&core->regions)) {
		fit_try_rows(&fit, own, stream);
		fit_try_rows(&fit, unused, stream);
	}
	if (fit.cost == UINT64_MAX)
		return false;
	*addr = fit.addr;
	return true;
}

uint64_t fit_within(struct core *core, uint64_t addr, size_t room, size_t size)
{
	struct fit fit = { .core = core, .size = size, .cost = UINT64_MAX };

	fit_try(&fit, addr, room, 0);
	return fit.addr;
}
