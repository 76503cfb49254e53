// SPDX-License-Identifier: LGPL-2.1-or-later
/* The region maps by themselves: what lies where, what fits best, what merges. No event is recorded here. */
#include <math.h>

#include "core/region.h"
#include "util/address.h"

#define BASE UINT64_C(0x10000)

struct maps {
	struct region_map map;
	struct stream a;
	struct stream b;
	struct region *hole;
};

static void maps_init(struct maps *m, size_t size)
{
	region_map_init(&m->map, NULL, 0, false);
	m->hole = region_add_chunk(&m->map, BASE, size);
}

static void maps_clear(struct maps *m)
{
	region_map_clear(&m->map);
}

/* Cuts the next bytes off the hole, for a stream. */
static struct region *free_next(struct maps *m, size_t size, struct stream *stream)
{
	struct region *region = m->hole;

	m->hole = region_split(&m->map, region, size);
	return region_set_free(&m->map, region, stream, NULL);
}

static struct region *malloc_next(struct maps *m, size_t size)
{
	struct region *region = m->hole;

	m->hole = region_split(&m->map, region, size);
	return region_take(&m->map, region->addr, size, NULL, NULL);
}

static void test_chunk(void)
{
	struct maps m = { 0 };

	maps_init(&m, 100);
	g_assert_cmpuint(m.map.bytes[REGION_UNMAPPED], ==, 100);
	g_assert_cmpuint(m.map.count, ==, 1);
	g_assert_true(region_find_unmapped(&m.map, 100) == m.hole);
	g_assert_null(region_find_unmapped(&m.map, 101));
	maps_clear(&m);
}

static void test_chunks_are_sorted(void)
{
	struct maps m = { 0 };

	maps_init(&m, 100);
	region_add_chunk(&m.map, BASE - 1000, 10);
	g_assert_cmpuint(((struct chunk *)m.map.chunks->pdata[0])->addr, ==, BASE - 1000);
	g_assert_cmpuint(((struct chunk *)m.map.chunks->pdata[1])->addr, ==, BASE);
	maps_clear(&m);
}

static void test_smallest_hole(void)
{
	struct maps m = { 0 };
	struct region *first, *second;

	maps_init(&m, 100);
	first = malloc_next(&m, 30);
	malloc_next(&m, 1);
	second = malloc_next(&m, 20);
	malloc_next(&m, 1);
	region_set_unmapped(&m.map, first);
	region_set_unmapped(&m.map, second);
	g_assert_true(region_find_unmapped(&m.map, 15) == second);
	g_assert_true(region_find_unmapped(&m.map, 25) == first);
	g_assert_true(region_find_unmapped(&m.map, 40) == m.hole);
	maps_clear(&m);
}

static void test_holes_merge(void)
{
	struct maps m = { 0 };
	struct region *x, *y, *z;

	maps_init(&m, 100);
	x = malloc_next(&m, 10);
	y = malloc_next(&m, 10);
	z = malloc_next(&m, 10);
	region_set_unmapped(&m.map, x);
	region_set_unmapped(&m.map, z);
	y = region_set_unmapped(&m.map, y);
	g_assert_cmpuint(y->addr, ==, BASE);
	g_assert_cmpuint(y->size, ==, 100);
	g_assert_cmpuint(m.map.count, ==, 1);
	maps_clear(&m);
}

/* A region is found by the size that it has, however it came by it. */
static void test_resized(void)
{
	struct stream_map streams = { 0 };
	struct maps m = { 0 };
	struct region *large, *small, *part;

	maps_init(&m, 100);
	m.map.keeps = true;
	m.map.streams = &streams;
	large = free_next(&m, 30, NULL);
	malloc_next(&m, 1);
	small = free_next(&m, 20, NULL);
	malloc_next(&m, 1);
	g_assert_true(region_find_own(&m.map, &m.a, 5) == small);

	part = region_take(&m.map, BASE + 15, 15, &m.a, NULL);
	g_assert_true(region_find_own(&m.map, &m.a, 5) == large);
	g_assert_true(region_find_own(&m.map, &m.a, 16) == small);
	g_assert_null(region_find_own(&m.map, &m.a, 21));

	region_set_free(&m.map, part, NULL, NULL);
	g_assert_true(region_find_own(&m.map, &m.a, 5) == small);
	g_assert_true(g_tree_node_key(region_first_fit(&m.map, &m.map.unused, 21)) == large);
	maps_clear(&m);
}

static void test_best_fit(void)
{
	struct maps m = { 0 };
	struct region *large, *small, *others;

	maps_init(&m, 100);
	large = free_next(&m, 30, &m.a);
	malloc_next(&m, 1);
	small = free_next(&m, 20, &m.a);
	malloc_next(&m, 1);
	others = free_next(&m, 10, &m.b);
	g_assert_true(region_find_own(&m.map, &m.a, 5) == small);
	g_assert_true(region_find_own(&m.map, &m.a, 21) == large);
	g_assert_null(region_find_own(&m.map, &m.a, 31));
	g_assert_true(region_find_own(&m.map, &m.b, 5) == others);
	maps_clear(&m);
}

static void test_unused_is_as_good(void)
{
	struct maps m = { 0 };
	struct region *own, *unused;

	maps_init(&m, 100);
	own = free_next(&m, 10, &m.a);
	malloc_next(&m, 1);
	unused = free_next(&m, 10, NULL);
	malloc_next(&m, 1);
	free_next(&m, 20, NULL);
	g_assert_true(region_find_own(&m.map, &m.a, 10) == unused);
	g_assert_true(region_find_own(&m.map, &m.b, 10) == unused);
	region_take(&m.map, unused->addr, 10, NULL, NULL);
	g_assert_true(region_find_own(&m.map, &m.a, 10) == own);
	maps_clear(&m);
}

static void test_passed_is_anybodys(void)
{
	struct maps m = { 0 };
	struct region *others;

	maps_init(&m, 100);
	others = free_next(&m, 10, &m.b);
	malloc_next(&m, 1);
	free_next(&m, 10, NULL);
	g_assert_true(region_find_passed(&m.map, 10) == others);
	g_assert_null(region_find_passed(&m.map, 11));
	maps_clear(&m);
}

static void test_one_stream_merges(void)
{
	struct maps m = { 0 };
	struct region *x, *y, *z;

	maps_init(&m, 100);
	x = malloc_next(&m, 10);
	y = malloc_next(&m, 20);
	z = malloc_next(&m, 30);
	region_set_free(&m.map, x, &m.a, NULL);
	region_set_free(&m.map, z, &m.a, NULL);
	y = region_set_free(&m.map, y, &m.a, NULL);
	g_assert_cmpuint(y->addr, ==, BASE);
	g_assert_cmpuint(y->size, ==, 60);
	g_assert_cmpuint(m.a.free[0]->by_age.length, ==, 1);
	g_assert_cmpuint(m.map.bytes[REGION_FREE], ==, 60);
	maps_clear(&m);
}

static void test_two_streams_stay_apart(void)
{
	struct maps m = { 0 };
	struct region *y;

	maps_init(&m, 100);
	free_next(&m, 10, &m.a);
	y = free_next(&m, 20, &m.b);
	free_next(&m, 30, NULL);
	g_assert_cmpuint(y->size, ==, 20);
	g_assert_cmpuint(m.map.count, ==, 4);
	maps_clear(&m);
}

static void test_split_keeps_age(void)
{
	struct maps m = { 0 };
	struct region *old, *young, *rest;

	maps_init(&m, 100);
	old = free_next(&m, 10, &m.a);
	malloc_next(&m, 1);
	young = free_next(&m, 10, &m.a);
	rest = region_split(&m.map, old, 4);
	g_assert_cmpuint(rest->id, ==, old->id);
	g_assert_cmpuint(rest->size, ==, 6);
	g_assert_true(m.map.by_age.head->data == old);
	g_assert_true(m.map.by_age.head->next->data == rest);
	g_assert_true(m.map.by_age.tail->data == young);
	g_assert_true(m.a.free[0]->by_age.head->next->data == rest);
	maps_clear(&m);
}

static void test_malloc_is_found_exactly(void)
{
	struct maps m = { 0 };
	struct region *x;

	maps_init(&m, 100);
	x = malloc_next(&m, 10);
	g_assert_true(region_find_malloc(&m.map, BASE) == x);
	g_assert_null(region_find_malloc(&m.map, BASE + 1));
	region_set_free(&m.map, x, &m.a, NULL);
	g_assert_null(region_find_malloc(&m.map, BASE));
	maps_clear(&m);
}

static void test_zombie_dies(void)
{
	struct maps m = { 0 };
	struct region *x;

	maps_init(&m, 100);
	x = free_next(&m, 10, &m.a);
	malloc_next(&m, 1);
	region_set_zombie(&m.map, x);
	g_assert_cmpuint(m.map.bytes[REGION_ZOMBIE], ==, 10);
	g_assert_true(circle_contains(&m.map.dead, &x->guarded));
	region_set_unmapped(&m.map, x);
	g_assert_null(circle_first(&m.map.dead));
	g_assert_cmpuint(m.map.bytes[REGION_UNMAPPED], ==, 99);
	maps_clear(&m);
}

/* Where a device is lost, events never pass: a zombie is its stream's for as long as the maps are there. */
static void test_zombie_waits_for_good(void)
{
	struct maps m = { 0 };
	struct event event = { .stream = &m.a, .refs = 1 };
	struct region *x;

	circle_init(&event.guarded);
	maps_init(&m, 100);
	x = malloc_next(&m, 10);
	malloc_next(&m, 1);
	x = region_set_free(&m.map, x, &m.a, &event);
	region_set_zombie(&m.map, x);
	g_assert_cmpuint(m.a.zombies, ==, 1);
	g_assert_null(circle_first(&m.map.dead));
	maps_clear(&m);
	g_assert_cmpuint(m.a.zombies, ==, 0);
	g_assert_null(circle_first(&event.guarded));
	g_assert_cmpuint(event.refs, ==, 1);
}

static void test_cut(void)
{
	struct maps m = { 0 };
	struct region *x, *rest;

	maps_init(&m, 100);
	x = free_next(&m, 10, &m.a);
	g_assert_null(region_cut(&m.map, x, 10));
	g_assert_cmpuint(m.map.count, ==, 2);
	rest = region_cut(&m.map, x, 4);
	g_assert_true(rest && rest->size == 6);
	g_assert_cmpuint(m.map.count, ==, 3);
	maps_clear(&m);
}

/* Splits and merges at random, over cells that hold many regions and regions that span many cells. */
static void test_found_by_address(void)
{
	const size_t size = (size_t)1 << 40;
	GRand *rand = g_rand_new_with_seed(1);
	struct maps m = { 0 };

	maps_init(&m, size);
	for (int i = 0; i < 4000; i++) {
		/* From a few bytes to terabytes. */
		size_t offset = (size_t)exp2(g_rand_double_range(rand, 0, 40));
		struct region *region = region_around(&m.map, BASE + offset);

		g_assert_cmpuint(BASE + offset - region->addr, <, region->size);
		if (g_rand_int_range(rand, 0, 3)) {
			if (region->kind != REGION_MALLOC)
				region = region_take(&m.map, region->addr, region->size, NULL, NULL);
			region_cut(&m.map, region, g_rand_int_range(rand, 1, 100) * region->size / 100 + 1);
		} else if (region->kind == REGION_MALLOC) {
			region_set_unmapped(&m.map, region);
		}
	}
	for (struct region *region = m.hole->chunk->first; region; region = region->next) {
		g_assert_true(region_around(&m.map, region->addr) == region);
		g_assert_true(region_around(&m.map, region->addr + region->size - 1) == region);
	}
	g_assert_null(region_around(&m.map, BASE - 1));
	g_assert_null(region_around(&m.map, BASE + size));
	g_rand_free(rand);
	maps_clear(&m);
}

/* What is freed and allocated again, with nobody looking for memory between, is not sorted by size. */
static void test_sorted_when_looked_for(void)
{
	struct stream_map streams = { 0 };
	struct maps m = { 0 };
	struct region *part;

	maps_init(&m, 100);
	m.map.keeps = true;
	m.map.streams = &streams;
	free_next(&m, 30, NULL);
	part = region_take(&m.map, BASE, 10, &m.a, NULL);
	region_set_free(&m.map, part, NULL, NULL);
	g_assert_cmpint(g_tree_nnodes(m.map.unused.by_size), ==, 0);
	g_assert_cmpuint(region_find_own(&m.map, &m.a, 25)->size, ==, 30);
	g_assert_cmpint(g_tree_nnodes(m.map.unused.by_size), ==, 1);
	maps_clear(&m);
}

/* The addresses of pages, of whatever size, spread over all of a hash table's buckets. */
static void test_addresses_spread(void)
{
	for (int shift = 9; shift <= 30; shift++) {
		GHashTable *hashes = g_hash_table_new(NULL, NULL);

		for (uint64_t i = 0; i < 10000; i++)
			g_hash_table_add(hashes, GUINT_TO_POINTER(address_hash(&(uint64_t){ i << shift })));
		g_assert_cmpuint(g_hash_table_size(hashes), >, 9900);
		g_hash_table_unref(hashes);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/region/chunk", test_chunk);
	g_test_add_func("/region/chunks-are-sorted", test_chunks_are_sorted);
	g_test_add_func("/region/smallest-hole", test_smallest_hole);
	g_test_add_func("/region/holes-merge", test_holes_merge);
	g_test_add_func("/region/best-fit", test_best_fit);
	g_test_add_func("/region/resized", test_resized);
	g_test_add_func("/region/unused-is-as-good", test_unused_is_as_good);
	g_test_add_func("/region/passed-is-anybodys", test_passed_is_anybodys);
	g_test_add_func("/region/one-stream-merges", test_one_stream_merges);
	g_test_add_func("/region/two-streams-stay-apart", test_two_streams_stay_apart);
	g_test_add_func("/region/split-keeps-age", test_split_keeps_age);
	g_test_add_func("/region/malloc-is-found-exactly", test_malloc_is_found_exactly);
	g_test_add_func("/region/zombie-dies", test_zombie_dies);
	g_test_add_func("/region/zombie-waits-for-good", test_zombie_waits_for_good);
	g_test_add_func("/region/cut", test_cut);
	g_test_add_func("/region/found-by-address", test_found_by_address);
	g_test_add_func("/region/sorted-when-looked-for", test_sorted_when_looked_for);
	g_test_add_func("/region/addresses-spread", test_addresses_spread);
	return g_test_run();
}
