// SPDX-License-Identifier: LGPL-2.1-or-later
/* Chooses among the free ranges that a request fits into, and among those that other streams' work is pending on. */
#include <glib.h>
#include <string.h>

#include "core/alias.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/fit.h"
#include "policy/growth.h"
#include "policy/state.h"
#include "policy/tuning.h"
#include "util/assume.h"
#include "util/bound.h"

/*
 * The cost of a range: the bytes of whole extents that it breaks, and so pins; plus an eighth of what it leaves over,
 * which stays usable but becomes smaller.
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

	/* Most candidates are too expensive already, and the rest of the cost takes a lookup. */
	if (cost > fit->cost)
		return;
	cost += broken_behind(fit->core, addr + fit->size);
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

/* Free regions in a row. */
struct row {
	const struct region *first;
	const struct region *last;
	size_t size;
	uint64_t stamp;
};

static const struct region *free_neighbour(const struct region *neighbour)
{
	return neighbour && region_is_free(neighbour) ? neighbour : NULL;
}

/* Adds the neighbour that is waited for the least. Return: false if there is none. */
static bool row_extend(struct row *row, const struct stream *stream)
{
	const struct region *below = free_neighbour(row->first->prev), *above = free_neighbour(row->last->next);
	uint64_t early = below ? event_stamp(below->event, stream) : UINT64_MAX;
	uint64_t late = above ? event_stamp(above->event, stream) : UINT64_MAX;
	const struct region *next = below && (!above || early < late) ? below : above;

	if (!next)
		return false;
	if (next == below)
		row->first = next;
	else
		row->last = next;
	row->size += next->size;
	row->stamp = MAX(row->stamp, MIN(early, late));
	return true;
}

/* Chooses the row that is waited for the least, and of equals the smallest, if it is better than the choice so far. */
static void choose_row(struct core *core, const struct stream *stream, size_t size, struct overlap_choice *choice)
{
	const GList *link = region_ages(&core->regions)->head;

	for (int looks = tuning_looks; link && looks > 0; link = link->next, looks--) {
		const struct region *region = link->data;
		struct row row;

		assume(region);
		row = (struct row){ .first = region, .last = region, .size = region->size,
				    .stamp = event_stamp(region->event, stream) };
		while (row.size < size && --looks > 0 && row_extend(&row, stream))
			;
		if (row.size < size || row.stamp > choice->stamp ||
		    (row.stamp == choice->stamp && row.size >= choice->row))
			continue;
		*choice = (struct overlap_choice){ .addr = row.first->addr, .row = row.size, .stamp = row.stamp };
	}
}

/* The stamp of the latest event of a wait set, as event_stamp() has it; 0: there is nothing to wait for. */
static uint64_t latest_of(const struct order *order)
{
	uint64_t latest = 0;

	for (guint i = 0; i < order_waits(order); i++)
		latest = MAX(latest, event_stamp(order->others->pdata[i], order->stream));
	return latest;
}

/* Chooses an address where memory was mapped before, if it is better than the choice so far. */
static void choose_addr(struct core *core, struct stream *stream, uint64_t addr, size_t size,
			struct overlap_choice *choice)
{
	struct order order;
	uint64_t stamp;

	order_init(&order, stream);
	if (alias_reaches(core, addr, size, &order)) {
		stamp = latest_of(&order);
		if (stamp < choice->stamp)
			*choice = (struct overlap_choice){ .addr = addr, .stamp = stamp };
	}
	order_clear(&order);
}

/* The stamp of the earliest event that is not known to be complete. */
static uint64_t earliest_pending(const struct core *core)
{
	uint64_t earliest = core->streams.stamps;

	for (const GList *link = core->streams.busy.head; link; link = link->next) {
		const struct stream *stream = link->data;
		const struct event *first;

		assume(stream->pending.head);
		first = stream->pending.head->data;
		earliest = MIN(earliest, first->stamp);
	}
	return earliest;
}

/* Whether it is not the stream that waits, but the host. */
static bool host_waits(const struct core *core, const struct stream *stream)
{
	return stream_is_idle(stream) || core->settings.reuse == VPMM_REUSE_BLOCK;
}

/*
 * Memory whose events are complete counts as old as the earliest pending event: what is nearly as old is complete soon,
 * unless it was submitted just now. While the host is far ahead of the device, nobody waits for driver calls.
 */
bool overlap_prefers(const struct core *core, const struct order *order, uint64_t stamp)
{
	uint64_t now = core->streams.stamps, earliest = earliest_pending(core);
	uint64_t age = now - MAX(latest_of(order), earliest);
	bool ahead = now - earliest > (uint64_t)tuning_ahead * age;

	if (order_is_ready(order) && (now - stamp < (uint64_t)tuning_behind || host_waits(core, order->stream)))
		return true;
	return age > (ahead ? 1 : (uint64_t)tuning_older) * (now - stamp);
}

/*
 * A few addresses for each of the sizes that a program uses. Such an address is mapped still, so a block of the same
 * size can have it again without a driver call as soon as all of the memory behind it is free.
 */
#define RECENT_MOST BOUND(8, 2)

/* Addresses of one size, the latest first. 0: none. */
struct recent {
	uint64_t size;
	uint64_t addrs[RECENT_MOST];
};

/* Sizes at most: 150 KB. Programs with more begin again. */
#define SIZES_MOST BOUND(2048, 4)

static struct recent *recent_of(struct core *core, uint64_t size)
{
	GHashTable **sizes = &core->packed->recent;
	struct recent *recent;

	if (!*sizes)
		*sizes = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
	recent = g_hash_table_lookup(*sizes, &size);
	if (recent)
		return recent;
	if (g_hash_table_size(*sizes) >= SIZES_MOST)
		g_hash_table_remove_all(*sizes);
	recent = g_new0(struct recent, 1);
	recent->size = size;
	g_hash_table_insert(*sizes, &recent->size, recent);
	return recent;
}

void recent_note(struct core *core, uint64_t addr, size_t size)
{
	struct recent *recent;
	size_t i = 0;

	lock_assert_held(&core->lock);
	if (!overlap_matters(core))
		return;
	recent = recent_of(core, size);
	while (i < RECENT_MOST - 1 && recent->addrs[i] && recent->addrs[i] != addr)
		i++;
	memmove(&recent->addrs[1], &recent->addrs[0], i * sizeof(recent->addrs[0]));
	recent->addrs[0] = addr;
}

bool overlap_choose(struct core *core, struct stream *stream, size_t size, uint64_t known,
		    struct overlap_choice *choice)
{
	uint64_t key = size;
	const struct recent *recent = core->packed->recent ? g_hash_table_lookup(core->packed->recent, &key) : NULL;

	lock_assert_held(&core->lock);
	*choice = (struct overlap_choice){ .stamp = UINT64_MAX };
	if (known)
		choose_addr(core, stream, known, size, choice);
	choose_row(core, stream, size, choice);
	for (int i = 0; recent && i < MIN(tuning_recent, RECENT_MOST) && recent->addrs[i] && choice->stamp; i++)
		choose_addr(core, stream, recent->addrs[i], size, choice);
	return choice->stamp != UINT64_MAX;
}

void recent_clear(struct packed *packed)
{
	g_clear_pointer(&packed->recent, g_hash_table_destroy);
}
