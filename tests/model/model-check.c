// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the pool's statistics say, against the model. */
#include "calls/pool.h"
#include "core/shareable.h"
#include "core/small.h"
#include "model/model-inside.h"

/* What the pool has beside the region maps and the driver's allocator. */
struct apart {
	uint64_t shareable;
	uint64_t imported;
	uint64_t held;		/* of freed ones, as requested */
};

static void add_apart(struct apart *sums, const struct shareable *it)
{
	if (it->created)
		*(it->imported ? &sums->imported : &sums->shareable) += it->bytes;
}

/* Freed blocks that wait for their streams, and what the driver did not take back. */
static struct apart apart_left(const struct model *m)
{
	struct core *core = &m->f.pool->core;
	struct apart left = { 0 };
	GHashTableIter iter;
	gpointer value;

	lock_acquire(&core->lock);
	g_hash_table_iter_init(&iter, core->small);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const struct small *small = value;

		if (small->held && small->shareable) {
			add_apart(&left, small->shareable);
			left.held += small->size;
		}
	}
	for (guint i = 0; i < core->strays->len; i++)
		add_apart(&left, core->strays->pdata[i]);
	lock_release(&core->lock);
	return left;
}

/* What was freed and is part of a graph is held; of the driver's allocator, what users are at as well. */
static void check_held(struct model *m, const struct vpmm_stats *stats)
{
	struct apart left = apart_left(m);
	uint64_t bytes = 0;

	for (guint i = m->held->len; i > 0; i--) {
		const struct model_held *held = m->held->pdata[i - 1];

		if (held->graphs->len || (held->pending && held->small))
			bytes += held->bytes;
		else if (!held->pending)
			g_ptr_array_remove_index_fast(m->held, i - 1);
	}
	g_assert_cmpuint(stats->held, >=, bytes);
	if (!m->holds)
		g_assert_cmpuint(stats->held, ==, 0);
	g_assert_cmpuint(stats->live + stats->small_live + left.held, ==, m->bytes + m->small_bytes + stats->held);
	g_assert_cmpuint(stats->shareable, ==, m->shareable + left.shareable);
	g_assert_cmpuint(stats->imported, ==, m->imported + left.imported);
	g_assert_cmpuint(stats->live, >=, m->bytes);
	g_assert_cmpuint(stats->small_live, >=, m->small_bytes);
}

void model_check(struct model *m)
{
	struct vpmm_stats stats = fixture_stats(&m->f);

	assert_ok(vpmm_pool_check(m->f.pool));
	check_held(m, &stats);
	/* What is held is in it as well. */
	g_assert_cmpuint(stats.peak_live, >=, m->peak_shown);
	g_assert_cmpuint(stats.requested, >=, m->requested);
	g_assert_cmpuint(stats.peak_requested, >=, m->peak_requested);
	if (!m->holds) {
		g_assert_cmpuint(stats.peak_live, <=, m->peak_shown);
		g_assert_cmpuint(stats.requested, ==, m->requested);
		g_assert_cmpuint(stats.peak_requested, <=, m->peak_requested);
	}
	g_assert_cmpuint(stats.mapped + stats.shareable + stats.small_live, <=, m->f.pool->core.settings.limit);
	if (m->f.pool->core.settings.paged && !stats.given_back && !m->holds)
		g_assert_cmpuint(stats.mapped, ==, MAX(m->initial, m->peak));
	else
		g_assert_cmpuint(model_taken(m) + stats.given_back - m->given_back, ==, m->mapped);
	g_assert_cmpuint(model_taken(m) + stats.given_back, ==, stats.grown);
	g_assert_cmpuint(stats.mapped, ==, m->f.pool->core.extents.bytes);
	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped);
	g_assert_cmpuint(stats.live + stats.free + stats.holes + stats.zombies, ==, stats.reserved);
	g_assert_cmpuint(stats.mallocs, ==, m->mallocs);
	g_assert_cmpuint(stats.frees, ==, m->frees);
}
