// SPDX-License-Identifier: LGPL-2.1-or-later
/* Plans a block: which free memory goes into it, how much is created, and in which sizes. */
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/gather.h"
#include "policy/growth.h"
#include "policy/trim.h"
#include "policy/tuning.h"

/* Whether a request for idle memory leaves a range out, as work is pending on it. */
static bool is_left_out(const struct gathering *g, uint64_t addr, size_t size)
{
	struct order order;
	bool pending;

	if (g->frugal || !stream_is_idle(g->stream))
		return false;
	order_init(&order, g->stream);
	order_add_range(&order, &g->core->regions, addr, size);
	pending = !order_is_ready(&order);
	order_clear(&order);
	return pending;
}

/* The row of free regions that ends at a hole. *@looks loses a look for each. Return: its bytes; 0: it has too many. */
static size_t row_below(const struct region *hole, int *looks, uint64_t *addr)
{
	const struct region *region = hole->prev;
	size_t size = 0;

	for (; region && region_is_free(region); region = region->prev) {
		if (--*looks < 0)
			return 0;
		size += region->size;
		*addr = region->addr;
	}
	return size;
}

/*
 * The free tail of an extent that cannot move, at the start of a row: only a block that begins there can have it. All
 * else in the row is whole extents.
 */
static size_t row_stuck(const struct gathering *g, uint64_t addr, size_t size)
{
	const struct place *place = extent_place_mapped(&g->core->extents, addr);

	return place->extent->live ? MIN(place->addr + place->extent->size - addr, size) : 0;
}

/*
 * The largest row of free regions with a hole behind it that has room for what is missing; or the one with most @stuck.
 * Holes are few, as memory is mapped where the largest is, and the larger ones have room for more.
 */
static void find_base(struct gathering *g, bool stuck)
{
	GTreeNode *node = g_tree_node_last(g->core->regions.unmapped);
	int looks = tuning_looks;
	size_t most = 0;

	g->base_size = 0;
	for (; node && looks > 0; node = g_tree_node_previous(node), looks--) {
		struct region *hole = g_tree_node_key(node);
		uint64_t addr = 0;
		size_t size = row_below(hole, &looks, &addr), bytes;

		if (!size || size >= g->size || hole->size < core_page_up(g->core, g->size - size) ||
		    is_left_out(g, addr, size))
			continue;
		bytes = stuck ? row_stuck(g, addr, size) : size;
		if (bytes <= most)
			continue;
		most = bytes;
		g->base = addr;
		g->base_size = size;
		g->hole = hole;
	}
}

static bool extent_in_base(const struct gathering *g, const struct extent *extent)
{
	if (!g->base_size)
		return false;
	for (const struct place *place = extent->places; place; place = place->next) {
		/* The first may begin before the base. */
		if (place->addr < g->base + g->base_size && place->addr + extent->size > g->base)
			return true;
	}
	return false;
}

/* Bytes of whole extents that could be mapped behind the base. */
static uint64_t donor_bytes(const struct gathering *g)
{
	uint64_t bytes = g->core->extents.whole_bytes;
	uint64_t addr, end;

	if (!g->base_size)
		return bytes;
	addr = g->base;
	end = addr + g->base_size;
	while (addr < end) {
		const struct place *place = extent_place_mapped(&g->core->extents, addr);

		if (!place->extent->live)
			bytes -= place->extent->size;
		addr = place->addr + place->extent->size;
	}
	return bytes;
}

/* What a head would take over of what is missing: the odd rest, and as many pages as it has. */
static size_t head_share(const struct gathering *g, size_t head, size_t missing)
{
	size_t page = g->core->settings.page_size;
	size_t rest = missing % page;

	if (head < rest)
		return 0;
	return MIN(head - rest, missing - rest) / page * page + rest;
}

static size_t lead_size(const struct gathering *g)
{
	return g->base_size ? g->base_size : part_size(&g->tail);
}

static size_t head_size(const struct gathering *g)
{
	return g->head.extent ? head_share(g, part_size(&g->head), g->size - lead_size(g)) : 0;
}

/* What a block can have of extents that cannot move: it begins with a free tail of one, and ends with a head. */
enum part_end { PART_HEAD, PART_TAIL };

/**
 * struct part_search - a search for a part
 * @end: which end of its extent it is
 * @up: the smallest from @size on; otherwise the largest below
 * @size: bytes
 * @without: no part of this extent
 * @left_out: there would have been one of it
 * @looks: how many regions may still be looked at
 * @best: the region that was found; NULL: none
 */
struct part_search {
	enum part_end end;
	bool up;
	size_t size;
	const struct extent *without;
	bool left_out;
	int looks;
	const struct region *best;
};

/*
 * A region at an end of an extent that cannot move lies within the extent, as something of that is allocated. So a part
 * is all of its region, and the order of the regions by size is that of the parts.
 */
static bool region_is_part(const struct gathering *g, const struct region *region, struct part_search *search)
{
	const struct place *place = extent_place_mapped(&g->core->extents, region->addr);
	const struct extent *extent = place->extent;
	bool head = region->addr == place->addr, tail = region->addr + region->size == place->addr + extent->size;

	if (!extent->live || !(search->end == PART_HEAD ? head : tail))
		return false;
	if (extent == search->without)
		search->left_out = true;
	return extent != search->without && !extent_in_base(g, extent) &&
	       !is_left_out(g, region->addr, region->size);
}

/* The first in the order of the search is the best of a set; what comes after the best of another is not looked at. */
static void search_set(const struct gathering *g, const struct free_set *set, struct part_search *search)
{
	struct region_map *map = &g->core->regions;
	GTreeNode *node;

	search->looks--;
	if (!set)
		return;
	node = search->up ? region_first_fit(map, set, search->size) : region_last_below(map, set, search->size);
	for (; node && search->looks > 0; node = search->up ? g_tree_node_next(node) : g_tree_node_previous(node)) {
		const struct region *region = g_tree_node_key(node);

		if (search->best && (region->size < search->best->size) != search->up)
			return;
		search->looks--;
		if (region_is_part(g, region, search)) {
			search->best = region;
			return;
		}
	}
}

/* The looks are for all sets together. The stream's own comes first, as it does not have to wait for that. */
static struct part find_part(const struct gathering *g, struct part_search *search)
{
	struct region_map *regions = &g->core->regions;
	const struct place *place;
	size_t from;

	search->best = NULL;
	search->looks = tuning_looks;
	search_set(g, region_free_of(regions, g->stream), search);
	search_set(g, region_free_of(regions, NULL), search);
	for (guint i = 0; i < regions->sets->len && search->looks > 0; i++)
		search_set(g, regions->sets->pdata[i], search);
	if (!search->best)
		return (struct part){ 0 };
	place = extent_place_mapped(&g->core->extents, search->best->addr);
	from = search->best->addr - place->addr;
	return (struct part){ place->extent, from, from + search->best->size };
}

/* Bytes that the lead and the head leave to be created. */
static size_t bytes_short(struct gathering *g)
{
	uint64_t donors = donor_bytes(g);

	g->need = core_page_up(g->core, g->size - lead_size(g) - head_size(g));
	return g->need > donors ? g->need - donors : 0;
}

/* What of a row of free memory lies in the extent at an end of it that cannot move, if there is more in the row. */
static struct part part_of_row(const struct gathering *g, const struct region *row, enum part_end end)
{
	uint64_t at = end == PART_TAIL ? row->addr : row->addr + row->size - 1;
	const struct place *place = extent_place_mapped(&g->core->extents, at);
	const struct extent *extent = place->extent;
	struct part part = { place->extent, 0, extent->size };

	if (end == PART_TAIL)
		part.from = row->addr - place->addr;
	else
		part.to = row->addr + row->size - place->addr;
	if (!extent->live || part_size(&part) >= row->size || part_size(&part) >= g->size ||
	    extent_in_base(g, extent) || extent == g->tail.extent || is_left_out(g, row->addr, row->size))
		return (struct part){ 0 };
	return part;
}

/* The largest of the largest rows. */
static struct part find_in_rows(const struct gathering *g, enum part_end end)
{
	struct region_map *map = &g->core->regions;
	struct part best = { 0 };
	int looks = tuning_looks;

	for (guint i = 0; i <= map->sets->len; i++) {
		const struct free_set *set = i < map->sets->len ? map->sets->pdata[i] : &map->unused;
		GTreeNode *node = region_last_below(map, set, SIZE_MAX);

		for (; node && looks > 0; node = g_tree_node_previous(node), looks--) {
			struct part part = part_of_row(g, g_tree_node_key(node), end);

			if (part.extent && part_size(&part) > part_size(&best))
				best = part;
		}
	}
	return best;
}

/*
 * The smallest of the heads that take over most of what is missing; or, before a request fails, one beside whole
 * extents. Return: whether one was left out that is of the tail's extent.
 */
static bool choose_head(struct gathering *g)
{
	struct part_search search = { .end = PART_HEAD, .up = true, .size = g->size - lead_size(g),
				      .without = g->tail.extent };

	g->head = find_part(g, &search);
	if (g->head.extent)
		return search.left_out;
	search.up = false;
	g->head = find_part(g, &search);
	search.up = true;
	search.size = head_size(g);
	g->head = search.size ? find_part(g, &search) : (struct part){ 0 };
	if (!g->head.extent && g->frugal && bytes_short(g))
		g->head = find_in_rows(g, PART_HEAD);
	return search.left_out;
}

/* Before a request fails: a tail beside whole extents. */
static void choose_rows(struct gathering *g)
{
	size_t least = bytes_short(g);
	struct gathering best = *g;

	g->base_size = 0;
	g->tail = find_in_rows(g, PART_TAIL);
	choose_head(g);
	if (bytes_short(g) >= least)
		*g = best;
}

/*
 * The lead, with its head, that leaves the least to be created; the largest base where they are equal, as it moves
 * less. A larger part never leaves more. So the largest tail is all there is to try, and a second one where a head of
 * the same extent was left out; and, before a request fails, the base with the most that is stuck.
 */
static void choose_parts(struct gathering *g)
{
	struct part_search tails = { .end = PART_TAIL, .size = g->size };
	struct gathering best;
	bool more = true;
	size_t least, bytes;

	choose_head(g);
	least = bytes_short(g);
	best = *g;
	/* As long as memory can be created, this gains nothing, and the largest base moves less. */
	if (least && g->frugal && g->base_size) {
		find_base(g, true);
		choose_head(g);
		bytes = bytes_short(g);
		if (bytes < least) {
			least = bytes;
			best = *g;
		}
	}
	g->base_size = 0;
	while (more && least) {
		g->tail = find_part(g, &tails);
		if (!g->tail.extent)
			break;
		more = choose_head(g) && !tails.without;
		bytes = bytes_short(g);
		if (bytes < least || (bytes == least && !best.base_size && !best.tail.extent)) {
			least = bytes;
			best = *g;
		}
		tails.without = g->tail.extent;
	}
	*g = best;
	if (least && g->frugal)
		choose_rows(g);
}

/* Whether a whole extent may be moved for the block: the base stays where it is. */
static bool is_donor(const struct gathering *g, const struct extent *extent)
{
	return extent->stamp != g->core->extents.stamp && !extent_in_base(g, extent) &&
	       !is_left_out(g, extent->home->addr, extent->size);
}

static void take_donor(struct gathering *g, struct extent *donor)
{
	donor->stamp = g->core->extents.stamp;
	g_ptr_array_add(g->donors, donor);
}

/* Whether there may be a donor of no more bytes. */
static bool may_fit(const struct gathering *g, size_t left)
{
	GTreeNode *node = extent_size_upto(&g->core->extents, left);

	for (; node; node = g_tree_node_previous(node)) {
		const struct extent_size *same = g_tree_node_value(node);

		if (same->size < g->least)
			return false;
		if (same->whole.length)
			return true;
	}
	return false;
}

static size_t take_ready(struct gathering *g, size_t left)
{
	struct ready_walk walk = ready_walk(extent_ready(&g->core->extents), g->stream, left);
	struct extent *extent;

	while (left && may_fit(g, left) && (extent = ready_next(&walk, left))) {
		if (extent->size < g->least || !is_donor(g, extent))
			continue;
		take_donor(g, extent);
		left -= extent->size;
	}
	return left;
}

/* Takes the largest that fit into what is left, one after the other. Return: what is left then. */
static size_t take_donors(struct gathering *g, size_t left)
{
	GTreeNode *node = extent_size_upto(&g->core->extents, left);

	for (; node && left; node = g_tree_node_previous(node)) {
		const struct extent_size *same = g_tree_node_value(node);

		if (same->size < g->least)
			break;
		for (GList *link = same->whole.head; link && same->size <= left; link = link->next) {
			if (!is_donor(g, link->data))
				continue;
			take_donor(g, link->data);
			left -= same->size;
		}
	}
	return left;
}

/* The smallest that covers what is left. */
static struct extent *find_larger_donor(const struct gathering *g, size_t left)
{
	GTreeNode *node = extent_size_from(&g->core->extents, MAX(left, g->least));

	for (; node; node = g_tree_node_next(node)) {
		const struct extent_size *same = g_tree_node_value(node);

		for (GList *link = same->whole.head; link; link = link->next) {
			if (is_donor(g, link->data))
				return link->data;
		}
	}
	return NULL;
}

/* Takes whole extents, the largest that fit first; what is left is covered by one that is larger, or created. */
static void choose_donors(struct gathering *g)
{
	size_t left = g->need - g->create, over, less;
	struct extent *donor;

	/* Many small pieces for one large block are many calls; the setting says from where on new memory is better. */
	g->least = g->frugal ? 0 : (size_t)((double)left * g->core->settings.frag_ratio / 100);

	g->core->extents.stamp++;
	left = g->overlap ? take_ready(g, left) : take_donors(g, left);
	if (!left)
		return;
	donor = g->exact ? NULL : find_larger_donor(g, left);
	if (!donor) {
		g->create += left;
		return;
	}
	g_ptr_array_add(g->donors, donor);
	over = donor->size - left;
	less = MIN(g->create, over);
	g->create -= less;
	over -= less;
	/* Otherwise the block ends earlier in the head: a smaller part of that is used. */
	if (g->head.extent && over >= core_page_up(g->core, head_size(g)))
		g->head = (struct part){ 0 };
}

/* Up to VPMM_OVERLAP, new memory comes before memory that the stream would have to wait for. */
static void gather_overlap(struct gathering *g)
{
	size_t ready, more;

	g->overlap = true;
	ready = ready_update(extent_ready(&g->core->extents), &g->core->regions, g->stream);
	if (g->create >= g->need || ready >= g->need - g->create)
		return;
	more = growth_room_overlap(g->core, g->size);
	g->create = MIN(MAX(g->create, more), g->need - ready);
}

/* @parts: extents that cannot move may be a part of the block. Otherwise all but the base is donors and new memory. */
static void gather_plan(struct gathering *g, bool parts)
{
	size_t room = g->frugal ? 0 : growth_room(g->core, g->size);
	size_t missing = bytes_short(g);

	if (parts && missing > room) {
		choose_parts(g);
		missing = bytes_short(g);
	}
	g->create = MAX(missing, MIN(room, g->need));
	if (!g->frugal && overlap_matters(g->core))
		gather_overlap(g);
	choose_donors(g);
}

size_t gather_last(const struct gathering *g)
{
	size_t page = g->core->settings.page_size;
	bool shared = (g->size - lead_size(g)) % page && !g->head.extent;

	return shared && !g->donors->len && g->create >= (size_t)tuning_last_apart * page ? page : 0;
}

static struct gathering gather_start(struct core *core, struct order *order, size_t size, bool frugal)
{
	region_update(&core->regions);
	return (struct gathering){ .core = core, .order = order, .stream = order->stream, .size = size,
				   .frugal = frugal, .target = gather_target(core), .donors = g_ptr_array_new() };
}

void gather_clear(struct gathering *g)
{
	g_clear_pointer(&g->donors, g_ptr_array_unref);
	g_clear_pointer(&g->renewed, g_ptr_array_unref);
}

bool gather_decide_behind(struct gathering *g, struct core *core, struct order *order, size_t size, uint64_t addr,
			  size_t free, struct region *hole, bool frugal, bool exact)
{
	*g = gather_start(core, order, size, frugal);
	g->base = addr;
	g->base_size = free;
	g->hole = hole;
	g->fixed = true;
	g->exact = exact;
	if (core->regions.keeps)
		gather_plan(g, false);
	else
		gather_pages(g);
	return hole->size >= gather_bytes(g);
}

void gather_decide_aligned(struct gathering *g, struct core *core, struct order *order, size_t size, size_t part,
			   bool frugal)
{
	struct gathering any;

	gather_decide(&any, core, order, size, frugal);
	*g = gather_start(core, order, part, frugal);
	gather_plan(g, false);
	if (any.create < g->create) {
		gather_clear(g);
		*g = any;
	} else {
		gather_clear(&any);
	}
}

void gather_decide_new(struct gathering *g, struct core *core, struct order *order, size_t size)
{
	struct part_search tails = { .end = PART_TAIL, .size = size };

	*g = gather_start(core, order, size, false);
	/* The pages of the block before may have room for the start of this one. */
	g->tail = find_part(g, &tails);
	g->need = core_page_up(core, size - part_size(&g->tail));
	g->create = g->need;
}

void gather_decide(struct gathering *g, struct core *core, struct order *order, size_t size, bool frugal)
{
	const struct gathering start = gather_start(core, order, size, frugal);

	*g = start;
	if (!core->regions.keeps) {
		gather_pages(g);
		return;
	}
	/* The largest base has what was freed last. */
	if (!overlap_matters(core))
		find_base(g, false);
	gather_plan(g, true);
	/* The hole behind the base may be too small for all that follows. */
	if (g->base_size && g->hole->size < gather_bytes(g)) {
		*g = start;
		g_ptr_array_set_size(g->donors, 0);
		gather_plan(g, true);
	}
}

void gather_renew(struct gathering *g)
{
	size_t piece = gather_extent_size(g);

	if (!g->overlap || g->donors->len < (guint)tuning_pieces_most)
		return;
	g->renewed = g_ptr_array_new();
	for (guint i = g->donors->len; i-- > 0;) {
		struct extent *donor = g->donors->pdata[i];

		if (2 * donor->size > piece || !trim_is_free(g->core, donor))
			continue;
		g_ptr_array_add(g->renewed, donor);
		g_ptr_array_remove_index(g->donors, i);
		g->create += donor->size;
	}
}
