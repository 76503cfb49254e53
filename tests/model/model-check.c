// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the pool's statistics say and what it has created, against the model. */
#include "calls/pool.h"
#include "core/shareable.h"
#include "core/small.h"
#include "model/model-inside.h"

/* What the pool has beside the region maps and the driver's allocator. */
struct apart {
	uint64_t shareable;
	uint64_t imported;
	uint64_t held;		/* of freed ones, in whole pages */
};

static void add_apart(struct apart *sums, const struct shareable *it)
{
	if (it->counted)
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
			left.held += small->shareable->bytes;
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

/* A limit below what the pool holds is one that it never gets further from. */
static void check_limit(struct model *m, const struct vpmm_stats *stats)
{
	uint64_t taken = stats->mapped + stats->shareable + stats->small_live, limit = m->f.pool->core.settings.limit;

	g_assert_cmpuint(taken, <=, MAX(limit, m->over));
	m->over = MIN(m->over, taken);
}

/* Bytes that streams have cached without an event, so that no other stream can wait for them. */
static uint64_t uncovered(const struct model *m)
{
	const struct core *core = &m->f.pool->core;
	uint64_t bytes = 0;

	for_each_stream(stream, &core->streams)
		bytes += stream->cache->unmarked;
	return bytes;
}

/* Pages are created for what is allocated alone, and in place of what another stream has uncovered. */
static void check_pages(struct model *m, const struct vpmm_stats *stats)
{
	uint64_t peak = MAX(m->initial, m->peak);

	g_assert_cmpuint(stats->mapped, >=, peak);
	g_assert_cmpuint(stats->mapped - peak, <=, m->beyond + m->uncovered);
	m->beyond = stats->mapped - peak;
	m->uncovered = uncovered(m);
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
	check_limit(m, &stats);
	if (m->f.pool->core.settings.paged && !stats.given_back && !m->holds)
		check_pages(m, &stats);
	else
		g_assert_cmpuint(model_taken(m) + stats.given_back - m->given_back, ==, m->mapped);
	g_assert_cmpuint(model_taken(m) + stats.given_back, ==, stats.grown);
	g_assert_cmpuint(stats.mapped, ==, m->f.pool->core.extents.bytes);
	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped);
	g_assert_cmpuint(stats.live + stats.free + stats.holes + stats.zombies, ==, stats.reserved);
	g_assert_cmpuint(stats.mallocs, ==, m->mallocs);
	g_assert_cmpuint(stats.frees, ==, m->frees);
}

/* Free extents that could have been mapped instead of what was created. A growable one takes whole extents that fit. */
static uint64_t passed_over(const struct model *m, const struct model_allocation *a)
{
	struct extent_map *extents = &m->f.pool->core.extents;
	uint64_t created = model_taken(m) - m->mapped, bytes = 0;

	extent_update_whole(extents);
	for (const GList *link = extents->whole.head; link; link = link->next) {
		const struct extent *extent = link->data;

		if (!a->max || extent->size <= created)
			bytes += extent->size;
	}
	return bytes;
}

/* Bytes that the pool could hold over @most by what it knew of the program before the latest request. */
static uint64_t allowance_before(const struct model *m, uint64_t most)
{
	struct vpmm_pool *pool = m->f.pool;
	struct allowance now = pool->packed.allowance;
	uint64_t bytes;

	pool->packed.allowance = m->allowance;
	bytes = allowance_bytes(&pool->core, most);
	pool->packed.allowance = now;
	return bytes;
}

/*
 * Whether the pool has created memory for an allocation without need. What is created for small requests is apart, and
 * what is smaller than the setting wants is not gathered.
 */
static void assert_grown_for_need(const struct model *m, const struct model_allocation *a)
{
	const struct vpmm_pool *pool = m->f.pool;
	/* What it was left with when it last gave memory back counts as well. */
	uint64_t budget = MAX(m->peak, pool->packed.growth.held);

	/* So much more it may take rather than wait. */
	budget += MAX(allowance_bytes(&pool->core, budget), allowance_before(m, budget)) + m->page_size;
	if (model_taken(m) > m->mapped && pool->core.extents.bytes > budget && a->bytes >= m->page_size / 2 &&
	    !pool->core.settings.frag_ratio && !m->holds && pool->core.settings.keep == UINT64_MAX)
		g_assert_cmpuint(passed_over(m, a), ==, 0);
}

/* What the request itself says of the program may lower it, and counts from the next on. */
void model_note_allowance(struct model *m)
{
	m->allowance = m->f.pool->packed.allowance;
}

/* What streams keep to themselves, nobody else can put together. */
void model_judge_growth(struct model *m, const struct model_allocation *a)
{
	if (!m->f.pool->core.settings.paged && !m->f.pool->core.settings.cache)
		assert_grown_for_need(m, a);
	m->mapped = model_taken(m);
	m->given_back = m->f.pool->core.extents.given_back;
	model_note_allowance(m);
}
