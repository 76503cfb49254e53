// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a block is made of, beside a search of all that is free: no base, and no ends of extents that cannot move, would
 * leave less to be created. The layouts are small, so the policy looks at all of each.
 */
#include "calls/pool.h"
#include "core/core.h"
#include "core/region-index.h"
#include "core/wait-set.h"
#include "policy/gather.h"
#include "support/fixture.h"

#define BLOCKS 30
#define LAYOUTS 1000
#define REQUESTS 20

/* Free memory in front of a hole, as the rules for a base have it. */
struct base {
	uint64_t addr;
	size_t size;
	size_t room;
};

static size_t page_up(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE;
}

static struct base base_from(const struct region *region, size_t size)
{
	struct region *end;
	size_t run = region_run(region, &end);

	if (!run || run >= size || !end || end->kind != REGION_UNMAPPED || end->size < page_up(size - run))
		return (struct base){ 0 };
	return (struct base){ region->addr, run, end->size };
}

static bool is_in(const struct extent *extent, const struct base *base)
{
	for (const struct place *place = extent->places; place; place = place->next) {
		if (place->addr < base->addr + base->size && place->addr + extent->size > base->addr)
			return true;
	}
	return false;
}

/* What the free ends of extents that cannot move are, and how many bytes. */
static struct part end_of(struct core *core, const struct region *region, bool head)
{
	uint64_t end = region->addr + region->size;
	const struct place *place = extent_place(&core->extents, head ? region->addr : end - 1);
	uint64_t from = MAX(place->addr, region->addr), to = MIN(place->addr + place->extent->size, end);

	if (!place->extent->live || (head ? from != place->addr : to != place->addr + place->extent->size))
		return (struct part){ 0 };
	return (struct part){ place->extent, from - place->addr, to - place->addr };
}

/* What is to be created for a block that begins with so many bytes, with whichever head leaves the least. */
static size_t least_created(struct core *core, size_t missing, const struct extent *tail, const struct base *base)
{
	size_t head = 0, need;
	uint64_t donors = 0;

	for (GList *link = core->regions.by_age.head; link; link = link->next) {
		struct part part = end_of(core, link->data, true);

		if (part.extent && part.extent != tail && !is_in(part.extent, base))
			head = MAX(head, part_size(&part));
	}
	for (const GList *link = extent_whole(&core->extents)->head; link; link = link->next) {
		const struct extent *extent = link->data;

		donors += is_in(extent, base) ? 0 : extent->size;
	}
	need = page_up(missing - MIN(missing, head));
	return need - MIN(need, donors);
}

static size_t least_with_tails(struct core *core, size_t size)
{
	const struct base none = { 0 };
	size_t least = least_created(core, size, NULL, &none);

	for (GList *link = core->regions.by_age.head; link; link = link->next) {
		struct part tail = end_of(core, link->data, false);

		if (tail.extent && part_size(&tail) < size)
			least = MIN(least, least_created(core, size - part_size(&tail), tail.extent, &none));
	}
	return least;
}

static void assert_no_base_is_better(struct core *core, size_t size, size_t create)
{
	for (GList *link = core->regions.by_age.head; link; link = link->next) {
		struct base base = base_from(link->data, size);

		/* The hole behind the base has room for all of every extent that a choice could have. */
		if (base.size && base.room >= size + core->extents.bytes)
			g_assert_cmpuint(create, <=, least_created(core, size - base.size, NULL, &base));
	}
}

/* How often a choice had a base, a tail and a head: with none of them there would be nothing to compare. */
struct seen {
	unsigned int bases;
	unsigned int tails;
	unsigned int heads;
};

static void assert_least(struct core *core, struct stream *stream, size_t size, struct seen *seen)
{
	struct gathering g;
	struct order order;

	order_init(&order, stream);
	gather_decide(&g, core, &order, size, true);
	g_assert_cmpuint(g.create, <=, least_with_tails(core, size));
	assert_no_base_is_better(core, size, g.create);
	seen->bases += g.base_size > 0;
	seen->tails += g.tail.extent != NULL;
	seen->heads += g.head.extent != NULL;
	order_clear(&order);
	g_ptr_array_free(g.donors, TRUE);
}

/* Odd sizes, in extents of several pages; or parts of a page, many of which end where an extent does. */
static size_t block_size(GRand *rand, bool parts)
{
	if (parts)
		return PAGE / 8 * (size_t)g_rand_int_range(rand, 1, 9);
	return (size_t)g_rand_int_range(rand, PAGE / 8, 24 * PAGE);
}

/*
 * A random half of the blocks is freed again, each on its own stream; in every second layout
 * the last stays, so that there is no large base.
 */
static void make_layout(struct fixture *f, GRand *rand, int streams)
{
	bool parts = g_rand_boolean(rand), based = g_rand_boolean(rand);
	void *blocks[BLOCKS];
	int homes[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		homes[i] = g_rand_int_range(rand, 0, streams);
		assert_ok(vpmm_malloc(f->pool, &blocks[i], block_size(rand, parts), f->streams[homes[i]]));
	}
	for (int i = 0; i < (based ? BLOCKS : BLOCKS - 1); i++) {
		if (g_rand_boolean(rand))
			assert_ok(vpmm_free(f->pool, blocks[i], f->streams[homes[i]]));
	}
}

static void try_layout(GRand *rand, int streams, struct seen *seen)
{
	struct fixture f;
	struct core *core;
	struct stream *stream;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(&f);
	make_layout(&f, rand, streams);
	core = &f.pool->core;
	lock_acquire(&core->lock);
	region_update(&core->regions);
	stream = ((struct region *)core->regions.by_age.head->data)->stream;
	for (int i = 0; stream && i < REQUESTS; i++) {
		/* About as much as can be had without a base, a tail or a head. */
		size_t more = PAGE / 8 + (size_t)(g_rand_double(rand) * (double)(8 * PAGE));

		assert_least(core, stream, core->extents.whole_bytes + more, seen);
	}
	lock_release(&core->lock);
	fixture_close(&f);
}

static void test_least_is_created(gconstpointer data)
{
	GRand *rand = g_rand_new_with_seed(1);
	struct seen seen = { 0 };

	for (int i = 0; i < LAYOUTS; i++)
		try_layout(rand, GPOINTER_TO_INT(data), &seen);
	g_test_message("%u bases, %u tails, %u heads", seen.bases, seen.tails, seen.heads);
	g_assert_cmpuint(seen.bases, >, 0);
	g_assert_cmpuint(seen.tails, >, 0);
	g_assert_cmpuint(seen.heads, >, 0);
	g_rand_free(rand);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/parts/one-stream", GINT_TO_POINTER(1), test_least_is_created);
	g_test_add_data_func("/parts/three-streams", GINT_TO_POINTER(3), test_least_is_created);
	return g_test_run();
}
