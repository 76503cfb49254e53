// SPDX-License-Identifier: LGPL-2.1-or-later
/* Where blocks of each size lay lately: a few addresses for each of the sizes that a program uses. */
#include <glib.h>
#include <string.h>

#include "core/core.h"
#include "policy/overlap.h"
#include "policy/recent.h"
#include "policy/state.h"
#include "policy/tuning.h"

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
	if (packed->recent)
		g_hash_table_destroy(packed->recent);
	packed->recent = NULL;
}
