// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_OVERLAP: which memory a stream takes while other streams' work is pending. */
#include <glib.h>
#include <string.h>

#include "core/alias.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/allowance.h"
#include "policy/overlap.h"
#include "policy/state.h"
#include "policy/tuning.h"
#include "util/assume.h"

bool overlap_matters(const struct core *core)
{
	return !core->streams.sole && core->settings.overlap && allowance_bytes(core, 100);
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

size_t overlap_find(struct core *core, const struct stream *stream, size_t size, uint64_t *addr, uint64_t *stamp)
{
	const GList *link = region_ages(&core->regions)->head;
	size_t best = 0;

	*stamp = 0;
	for (int looks = tuning_looks; link && looks > 0; link = link->next, looks--) {
		const struct region *region = link->data;
		struct row row;

		assume(region);
		row = (struct row){ .first = region, .last = region, .size = region->size,
				    .stamp = event_stamp(region->event, stream) };
		while (row.size < size && --looks > 0 && row_extend(&row, stream))
			;
		if (row.size < size || (best && (row.stamp > *stamp || (row.stamp == *stamp && row.size >= best))))
			continue;
		best = row.size;
		*addr = row.first->addr;
		*stamp = row.stamp;
	}
	return best;
}

/* The stamp of the latest event of a wait set, as event_stamp() has it; 0: there is nothing to wait for. */
static uint64_t latest_of(const struct order *order)
{
	uint64_t latest = 0;

	for (guint i = 0; i < order_waits(order); i++)
		latest = MAX(latest, event_stamp(order->others->pdata[i], order->stream));
	return latest;
}

bool overlap_reaches(struct core *core, struct stream *stream, uint64_t addr, size_t size, uint64_t *stamp)
{
	struct order order;
	bool reaches;

	order_init(&order, stream);
	reaches = alias_reaches(core, addr, size, &order);
	*stamp = latest_of(&order);
	order_clear(&order);
	return reaches;
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

/* A few addresses for each of the sizes that a program uses. */
#define RECENT_MOST 8

/* Addresses of one size, the latest first. 0: none. */
struct recent {
	uint64_t size;
	uint64_t addrs[RECENT_MOST];
};

/* Sizes at most: 150 KB. Programs with more begin again. */
#define SIZES_MOST 2048

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

bool recent_find(struct core *core, struct stream *stream, size_t size, uint64_t *addr, uint64_t *stamp)
{
	uint64_t key = size, latest;
	const struct recent *recent = core->packed->recent ? g_hash_table_lookup(core->packed->recent, &key) : NULL;

	lock_assert_held(&core->lock);
	*stamp = UINT64_MAX;
	for (int i = 0; recent && i < MIN(tuning_recent, RECENT_MOST) && recent->addrs[i] && *stamp; i++) {
		if (!overlap_reaches(core, stream, recent->addrs[i], size, &latest) || latest >= *stamp)
			continue;
		*stamp = latest;
		*addr = recent->addrs[i];
	}
	return *stamp != UINT64_MAX;
}

void recent_clear(struct packed *packed)
{
	g_clear_pointer(&packed->recent, g_hash_table_destroy);
}
