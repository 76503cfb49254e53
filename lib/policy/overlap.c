// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_OVERLAP: which memory a stream takes while other streams' work is pending. */
#include <glib.h>
#include <string.h>

#include "core/alias.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/growth.h"
#include "policy/overlap.h"
#include "policy/state.h"
#include "policy/tuning.h"
#include "util/assume.h"
#include "util/bound.h"

bool overlap_matters(const struct core *core)
{
	return !core->streams.sole && core->regions.ages && allowance_bytes(core, 100);
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

	if (!below && !above)
		return false;
	if (below && (!above || early < late)) {
		row->first = below;
		row->size += below->size;
	} else {
		row->last = above;
		row->size += above->size;
	}
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
