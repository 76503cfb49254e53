// SPDX-License-Identifier: LGPL-2.1-or-later
/* Plans a block: which free memory goes into it, how much is created, and in which sizes. */
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/budget.h"
#include "policy/gather-plan.h"
#include "policy/state.h"
#include "policy/tuning.h"

/* How many regions are looked at for a base, and for parts of extents: a pool may have a million of them. */
#define BASES 256
#define PARTS 1024
#define TAILS 128
#define HEADS (4 * PARTS)

static size_t page_up(const struct gathering *g, size_t size)
{
	size_t page = g->core->settings.page_size;

	return (size + page - 1) / page * page;
}

/* A row of free regions is a base where a hole follows with room for what is missing. */
static bool try_base(struct gathering *g, const struct region *region)
{
	struct region *end;
	size_t size = region_run(region, &end);

	if (size <= g->base_size || size >= g->size || !end || end->kind != REGION_UNMAPPED ||
	    end->size < page_up(g, g->size - size))
		return false;
	g->base = region->addr;
	g->base_size = size;
	g->hole = end;
	return true;
}

/* The largest base. While there is but one stream, each row is one region, and the largest are found at once. */
static void find_base(struct gathering *g)
{
	struct region_map *regions = &g->core->regions;
	const struct free_set *set = g->stream->free[regions->set];
	GList *link = regions->by_age.tail;
	GTreeNode *node;
	int i;

	if (!g->core->streams.sole) {
		for (i = 0; link && i < PARTS; i++, link = link->prev)
			try_base(g, link->data);
		return;
	}
	node = set ? g_tree_node_last(set->by_size) : NULL;
	for (i = 0; node && i < BASES; i++, node = g_tree_node_previous(node)) {
		if (try_base(g, g_tree_node_key(node)))
			return;
	}
	node = g_tree_node_last(regions->unused.by_size);
	for (i = 0; node && i < BASES; i++, node = g_tree_node_previous(node)) {
		if (try_base(g, g_tree_node_key(node)))
			return;
	}
}

static bool extent_in_base(const struct gathering *g, const struct extent *extent)
{
	if (!g->base_size)
		return false;
	for (const struct place *place = extent->places; place; place = place->next) {
		if (place->addr - g->base < g->base_size)
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
		const struct place *place = extent_place(&g->core->extents, addr);

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

/* Free ends and beginnings of extents that cannot move. */
static void find_parts_in(struct gathering *g, const struct free_set *set, GArray *tails, GArray *heads)
{
	GList *link = set->by_age.head;

	for (int i = 0; link && i < PARTS; i++, link = link->next) {
		const struct region *region = link->data;
		uint64_t end = region->addr + region->size;
		const struct place *first = extent_place(&g->core->extents, region->addr);
		const struct place *last = extent_place(&g->core->extents, end - 1);
		struct part part;

		if (last->extent->live && last->addr + last->extent->size == end) {
			part = (struct part){ last->extent, MAX(region->addr, last->addr) - last->addr,
					      last->extent->size };
			if (part_size(&part) >= 1 && part_size(&part) < g->size)
				g_array_append_val(tails, part);
		}
		if (first->extent->live && first->addr == region->addr) {
			part = (struct part){ first->extent, 0, MIN(region->size, first->extent->size) };
			if (part_size(&part) >= 1)
				g_array_append_val(heads, part);
		}
	}
}

/* The head that takes over most of what is missing, with the least of it left. */
static void choose_head(struct gathering *g, const GArray *heads)
{
	size_t missing = g->size - lead_size(g), best = 0;

	g->head = (struct part){ 0 };
	for (guint i = 0; i < heads->len; i++) {
		const struct part *head = &g_array_index(heads, struct part, i);
		size_t share = head_share(g, part_size(head), missing);

		if (share < 1 || share < best || head->extent == g->tail.extent)
			continue;
		if (share == best && part_size(head) >= part_size(&g->head))
			continue;
		if (extent_in_base(g, head->extent))
			continue;
		best = share;
		g->head = *head;
	}
}

/* Bytes that the lead and the head leave to be created. */
static size_t bytes_short(struct gathering *g)
{
	uint64_t donors = donor_bytes(g);

	g->need = page_up(g, g->size - lead_size(g) - head_size(g));
	return g->need > donors ? g->need - donors : 0;
}

/* The lead, with its head, that leaves the least to be created; the base where they are equal, as it moves less. */
static void choose_parts(struct gathering *g)
{
	GArray *tails = g_array_new(FALSE, FALSE, sizeof(struct part));
	GArray *heads = g_array_new(FALSE, FALSE, sizeof(struct part));
	struct region_map *regions = &g->core->regions;
	struct gathering best;
	size_t least, bytes;

	find_parts_in(g, &regions->unused, tails, heads);
	for (guint i = 0; i < regions->sets->len && heads->len < HEADS; i++)
		find_parts_in(g, regions->sets->pdata[i], tails, heads);
	choose_head(g, heads);
	least = bytes_short(g);
	best = *g;
	g->base_size = 0;
	for (guint i = 0; i < MIN(tails->len, TAILS) && least; i++) {
		g->tail = g_array_index(tails, struct part, i);
		choose_head(g, heads);
		bytes = bytes_short(g);
		if (bytes < least || (bytes == least && !best.base_size &&
				      part_size(&g->tail) > part_size(&best.tail))) {
			least = bytes;
			best = *g;
		}
	}
	*g = best;
	g_array_free(tails, TRUE);
	g_array_free(heads, TRUE);
}

/* Whether a whole extent may be moved for the block: the base stays where it is. */
static bool is_donor(const struct gathering *g, const struct extent *extent)
{
	return extent->stamp != g->core->extents.stamp && !extent_in_base(g, extent);
}

static void take_donor(struct gathering *g, struct extent *donor)
{
	donor->stamp = g->core->extents.stamp;
	g_ptr_array_add(g->donors, donor);
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
	left = take_donors(g, left);
	if (!left)
		return;
	donor = find_larger_donor(g, left);
	if (!donor) {
		g->create += left;
		return;
	}
	g_ptr_array_add(g->donors, donor);
	over = donor->size - left;
	less = MIN(g->create, over);
	g->create -= less;
	over -= less;
	if (over && g->head.extent) {
		size_t instead = page_up(g, head_size(g));

		g->head = (struct part){ 0 };
		g->create += instead > over ? instead - over : 0;
	}
}

static void gather_plan(struct gathering *g)
{
	size_t room = g->frugal ? 0 : budget_room(g->core, g->size);
	size_t missing = bytes_short(g);

	if (missing > room) {
		choose_parts(g);
		missing = bytes_short(g);
	}
	g->create = MAX(missing, MIN(room, g->need));
	choose_donors(g);
}

/* How many extents of the size that the gaps call for would make up the pool; the most since it was last empty. */
static double pieces_of_pool(const struct core *core)
{
	uint64_t bytes = core->extents.bytes, overhead = (uint64_t)core->settings.overhead;
	uint64_t stuck = bytes / 1000 * (uint64_t)tuning_stuck * overhead;
	double least = MAX((double)tuning_extents_least / (double)overhead, 1);
	double most = MAX((double)tuning_extents_most / (double)overhead, 1);
	size_t piece = gaps_piece(&core->regions.gaps, stuck);
	double now = (double)bytes / (double)MAX(piece, 1);

	return bytes ? CLAMP(MAX(now, core->packed->pieces), least, most) : least;
}

size_t gather_piece(const struct gathering *g)
{
	const struct settings *settings = &g->core->settings;
	size_t bytes = (size_t)((double)(g->core->extents.bytes + g->create) / g->pieces);

	bytes = MIN(MAX(bytes, g->create / (size_t)tuning_call_extents), page_up(g, g->size));
	return CLAMP(bytes / settings->page_size * settings->page_size, settings->page_size, settings->extent_max);
}

size_t gather_last(const struct gathering *g)
{
	size_t page = g->core->settings.page_size;
	bool shared = (g->size - lead_size(g)) % page && !g->head.extent;

	return shared && !g->donors->len && g->create >= (size_t)tuning_last_apart * page ? page : 0;
}

size_t gather_bytes(const struct gathering *g)
{
	size_t bytes = g->create;

	for (guint i = 0; i < g->donors->len; i++)
		bytes += ((struct extent *)g->donors->pdata[i])->size;
	if (g->tail.extent)
		bytes += g->tail.extent->size;
	if (g->head.extent)
		bytes += g->head.extent->size;
	return bytes;
}

void gather_decide(struct gathering *g, struct core *core, struct order *order, size_t size, bool frugal)
{
	*g = (struct gathering){ .core = core, .order = order, .stream = order->stream, .size = size,
				 .frugal = frugal, .pieces = pieces_of_pool(core) };
	g->donors = g_ptr_array_new();
	find_base(g);
	gather_plan(g);
	/* The hole behind the base may be too small for all that follows. */
	if (g->base_size && g->hole->size < gather_bytes(g)) {
		g_ptr_array_set_size(g->donors, 0);
		*g = (struct gathering){ .core = core, .order = order, .stream = order->stream, .size = size,
					 .frugal = frugal, .pieces = g->pieces, .donors = g->donors };
		gather_plan(g);
	}
}
