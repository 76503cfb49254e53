// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that are put together from extents: whose bytes they are, what they cost, and that programs settle. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "calls/pool.h"
#include "core/alias.h"
#include "support/fixture.h"
#include "support/setting.h"

#define MOST 64

static void open_pages(struct fixture *f)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
}

static void assert_filled(const char *ptr, size_t size, char value)
{
	g_assert_true(fixture_is_filled(ptr, size, value));
}

/* A block from every second page of a full pool: those in between keep their bytes, and nothing is created. */
static void test_keeps_neighbours(void)
{
	struct fixture f;
	char *pages[16], *block;

	open_pages(&f);
	for (int i = 0; i < 16; i++) {
		pages[i] = fixture_malloc(&f, 1, f.streams[0]);
		memset(pages[i], 'a' + i, PAGE);
	}
	for (int i = 0; i < 16; i += 2)
		fixture_free(&f, pages[i], f.streams[0]);
	block = fixture_malloc(&f, 8, f.streams[0]);
	memset(block, 'X', 8 * PAGE);
	for (int i = 1; i < 16; i += 2)
		assert_filled(pages[i], PAGE, (char)('a' + i));
	assert_filled(block, 8 * PAGE, 'X');
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 16 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).creates, ==, 16);
	g_assert_cmpuint(fixture_stats(&f).defrags, >=, 1);
	fixture_close(&f);
}

/*
 * A block begins with the free end of an extent, and could end with the free head of the same extent. Once the rest of
 * it is free, a change of size would find all of the extent at one of the two.
 */
static void test_no_extent_is_in_a_block_twice(void)
{
	const size_t head = 3 * PAGE / 8, end = PAGE / 8;
	struct fixture f;
	char *first, *middle, *last;
	void *block;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 1 });
	fixture_uncache(&f);
	first = fixture_malloc_bytes(&f, head, f.streams[0]);
	middle = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	last = fixture_malloc_bytes(&f, end, f.streams[0]);
	fixture_free(&f, first, f.streams[0]);
	fixture_free(&f, last, f.streams[0]);
	block = fixture_malloc_bytes(&f, end + PAGE + head, f.streams[0]);
	g_assert_true(block == last);
	fixture_free(&f, middle, f.streams[0]);

	assert_ok(vpmm_use(f.pool, block, f.streams[1]));
	assert_ok(vpmm_realloc(f.pool, &block, end + PAGE + head, f.streams[0]));
	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, block, f.streams[0]);
	fixture_close(&f);
}

/* A program that is told by numbers at random: what it has allocated, all of it filled with a byte of its own. */
struct program {
	struct fixture *f;
	GRand *rand;
	struct CUstream_st *stream;
	struct {
		char *ptr;
		size_t size;
		char value;
	} held[MOST];
	char next;
};

static void program_step(struct program *p, size_t most)
{
	int i = g_rand_int_range(p->rand, 0, MOST);

	if (p->held[i].ptr) {
		assert_filled(p->held[i].ptr, p->held[i].size, p->held[i].value);
		fixture_free(p->f, p->held[i].ptr, p->stream);
		p->held[i].ptr = NULL;
		return;
	}
	p->held[i].size = (size_t)g_rand_int_range(p->rand, 1, (gint32)most);
	if (!g_rand_int_range(p->rand, 0, 4))
		p->held[i].size = p->held[i].size % 100000 + 1;
	p->held[i].ptr = fixture_malloc_bytes(p->f, p->held[i].size, p->stream);
	p->held[i].value = p->next++;
	memset(p->held[i].ptr, p->held[i].value, p->held[i].size);
}

/* Every byte of every allocation, whatever has moved meanwhile. */
static void test_every_byte(gconstpointer data)
{
	size_t extent_max = GPOINTER_TO_SIZE(data) * PAGE;
	struct program p = { .rand = g_rand_new_with_seed(4 + (guint32)extent_max) };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = extent_max });
	p.f = &f;
	p.stream = f.streams[0];
	for (int step = 0; step < 1200; step++)
		program_step(&p, 3 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).defrags, >, 0);
	fixture_close(&f);
	g_rand_free(p.rand);
}

/* Where a page was before it moved is where it can be had again: that takes no call of the driver. */
static void test_old_place_is_taken_again(void)
{
	struct vpmm_stats before, after;
	struct fixture f;
	char *a, *b, *block;

	open_pages(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	block = fixture_malloc(&f, 4, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 6 * PAGE);
	fixture_free(&f, block, f.streams[0]);
	before = fixture_stats(&f);

	g_assert_true(fixture_malloc(&f, 2, f.streams[0]) != NULL);
	g_assert_true(fixture_malloc(&f, 2, f.streams[0]) != NULL);

	after = fixture_stats(&f);
	g_assert_cmpuint(after.maps, ==, before.maps);
	g_assert_cmpuint(after.unmaps, ==, before.unmaps);
	g_assert_cmpuint(after.creates, ==, before.creates);
	g_assert_cmpuint(after.mappings, ==, before.mappings);
	g_assert_cmpuint(after.mappings, >, after.extents);
	g_assert_cmpuint(after.zombies, >, 0);
	fixture_close(&f);
}

/* The operations of one round of a program, the same each time: sizes, and which of them is freed when. */
struct round {
	size_t sizes[400];
	int streams[400];
	guint32 seed;
};

static void plan_round(struct round *r, guint32 seed, int streams, size_t most)
{
	GRand *rand = g_rand_new_with_seed(seed);

	r->seed = seed;
	for (size_t i = 0; i < G_N_ELEMENTS(r->sizes); i++) {
		bool small = !g_rand_int_range(rand, 0, 4);

		r->sizes[i] = (size_t)g_rand_int_range(rand, 1, small ? 50000 : (gint32)most);
		r->streams[i] = g_rand_int_range(rand, 0, streams);
	}
	g_rand_free(rand);
}

/* Every page of an allocation has a number of its own, and so has its end. */
static void mark(char *ptr, size_t size, size_t number)
{
	for (size_t at = 0; at + 8 <= size; at += PAGE)
		*(uint64_t *)(void *)(ptr + at) = number << 32 | at;
	ptr[size - 1] = (char)number;
}

static void assert_marked(const char *ptr, size_t size, size_t number)
{
	for (size_t at = 0; at + 8 <= size; at += PAGE) {
		/* The last byte may be one of these. */
		if (at + 8 < size)
			g_assert_cmphex(*(const uint64_t *)(const void *)(ptr + at), ==, number << 32 | at);
	}
	g_assert_cmpint(ptr[size - 1], ==, (char)number);
}

static void free_oldest(struct fixture *f, GQueue *held, const struct round *r, guint n)
{
	GPtrArray *slot = g_queue_pop_nth(held, n);
	size_t i = GPOINTER_TO_SIZE(slot->pdata[1]);

	assert_marked(slot->pdata[0], r->sizes[i], i);
	assert_ok(vpmm_free(f->pool, slot->pdata[0], f->streams[r->streams[i]]));
	g_ptr_array_free(slot, TRUE);
}

static void run_round(struct fixture *f, const struct round *r, bool late)
{
	GRand *rand = g_rand_new_with_seed(r->seed);
	GQueue held = G_QUEUE_INIT;

	for (size_t i = 0; i < G_N_ELEMENTS(r->sizes); i++) {
		GPtrArray *slot = g_ptr_array_new();
		void *ptr;

		assert_ok(vpmm_malloc(f->pool, &ptr, r->sizes[i], f->streams[r->streams[i]]));
		mark(ptr, r->sizes[i], i);
		g_ptr_array_add(slot, ptr);
		g_ptr_array_add(slot, GSIZE_TO_POINTER(i));
		g_queue_push_tail(&held, slot);
		if (late)
			assert_ok(vpmm_host_stream_submit(f->streams[r->streams[i]]));
		while (held.length > 24 || (held.length && !g_rand_int_range(rand, 0, 3)))
			free_oldest(f, &held, r, (guint)g_rand_int_range(rand, 0, (gint32)held.length));
	}
	while (held.length)
		free_oldest(f, &held, r, 0);
	assert_ok(vpmm_pool_check(f->pool));
	g_rand_free(rand);
}

/* After so many rounds, those that follow take no call of the driver. */
static void settles_after(struct vpmm_opts opts, guint32 seed, int streams, size_t most, bool late, int rounds)
{
	struct vpmm_stats settled, after;
	struct fixture f;
	struct round r;

	fixture_open(&f, opts);
	plan_round(&r, seed, streams, most);
	for (int i = 0; i < rounds; i++) {
		run_round(&f, &r, late);
		for (int j = 0; late && j < STREAMS; j++)
			vpmm_host_stream_complete(f.streams[j], UINT_MAX);
	}
	settled = fixture_stats(&f);
	for (int again = 0; again < 2; again++) {
		run_round(&f, &r, late);
		for (int j = 0; late && j < STREAMS; j++)
			vpmm_host_stream_complete(f.streams[j], UINT_MAX);
	}
	after = fixture_stats(&f);
	g_test_message("seed %u: maps %" PRIu64 " %" PRIu64, seed, settled.maps, after.maps);
	g_assert_cmpuint(after.creates, ==, settled.creates);
	g_assert_cmpuint(after.maps, ==, settled.maps);
	g_assert_cmpuint(after.accesses, ==, settled.accesses);
	g_assert_cmpuint(after.unmaps, ==, settled.unmaps);
	g_assert_cmpuint(after.mapped, ==, settled.mapped);
	for (int i = 0; i < STREAMS; i++)
		vpmm_host_stream_complete(f.streams[i], UINT_MAX);
	fixture_close(&f);
}

static void settles(struct vpmm_opts opts, guint32 seed, int streams, size_t most, bool late)
{
	settles_after(opts, seed, streams, most, late, 1);
}

static void test_settles(void)
{
	for (guint32 seed = 1; seed < 1 + setting_at_most("VPMM_TEST_SEEDS", 6); seed++)
		settles((struct vpmm_opts){ FIXTURE_PACKED }, seed, 1, 8 * PAGE, false);
}

static void test_settles_with_pages(void)
{
	for (guint32 seed = 11; seed < 11 + setting_at_most("VPMM_TEST_SEEDS", 4); seed++)
		settles((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, seed, 1, 8 * PAGE, false);
}

static void test_settles_with_streams(void)
{
	for (guint32 seed = 21; seed < 21 + setting_at_most("VPMM_TEST_SEEDS", 6); seed++)
		settles_after((struct vpmm_opts){ FIXTURE_PACKED }, seed, STREAMS, 8 * PAGE, false, 4);
}

/* One stream is in order with itself, however late its work is. */
static void test_settles_late(void)
{
	for (guint32 seed = 31; seed < 31 + setting_at_most("VPMM_TEST_SEEDS", 4); seed++)
		settles((struct vpmm_opts){ FIXTURE_PACKED }, seed, 1, 8 * PAGE, true);
}

static void test_settles_after_growing(void)
{
	struct vpmm_stats second, after;
	struct fixture f;
	struct round r, larger;

	/* With address space for all of it: what is unmapped has to be mapped again. */
	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .va_size = (size_t)16 << 30 });
	plan_round(&r, 41, 1, 4 * PAGE);
	plan_round(&larger, 42, 1, 16 * PAGE);
	run_round(&f, &r, false);
	run_round(&f, &larger, false);
	run_round(&f, &r, false);
	second = fixture_stats(&f);
	run_round(&f, &larger, false);
	run_round(&f, &r, false);
	after = fixture_stats(&f);
	g_assert_cmpuint(after.spans, ==, second.spans);
	g_assert_cmpuint(after.creates, ==, second.creates);
	g_assert_cmpuint(after.maps, ==, second.maps);
	fixture_close(&f);
}

/* With room for so few mappings that old ones go: what was decided before must not be taken for granted. */
static void test_recalled_after_trimming(void)
{
	struct round rounds[4];
	struct fixture f;

	g_setenv("VPMM_HOST_MAPPINGS", "1000", TRUE);
	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 200 * PAGE,
					     .extent_max = PAGE });
	for (guint32 i = 0; i < G_N_ELEMENTS(rounds); i++)
		plan_round(&rounds[i], 51 + i, 1, 6 * PAGE);
	for (size_t i = 0; i < 3 * G_N_ELEMENTS(rounds); i++)
		run_round(&f, &rounds[i % G_N_ELEMENTS(rounds)], false);
	g_assert_cmpuint(fixture_stats(&f).unmaps, >, 0);
	g_assert_cmpuint(fixture_stats(&f).mappings, <, 1000);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/*
 * A program that remaps for long, in memory that is never free in one piece: each call unmaps a bounded number of old
 * mappings, and together they keep up with those that are made.
 */
static void test_trims_by_and_by(void)
{
	void *held[24] = { NULL };
	struct vpmm_stats before;
	struct fixture f;

	g_setenv("VPMM_HOST_MAPPINGS", "8000", TRUE);
	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .extent_max = PAGE });
	before = fixture_stats(&f);
	for (int i = 0; i < 3000; i++) {
		void **slot = &held[g_test_rand_int_range(0, G_N_ELEMENTS(held))];
		struct vpmm_stats after;

		assert_ok(vpmm_free(f.pool, *slot, f.streams[0]));
		assert_ok(vpmm_malloc(f.pool, slot, (size_t)g_test_rand_int_range(1, 40 * PAGE), f.streams[0]));
		after = fixture_stats(&f);
		g_assert_cmpuint(after.unmaps - before.unmaps, <=, ALIAS_TRIM_LOOKS);
		/* A quarter of what the device allows, and what the latest blocks added beside mappings in use. */
		g_assert_cmpuint(after.mappings, <=, 2000 + 5 * 41);
		before = after;
	}
	g_assert_cmpuint(before.unmaps, >, ALIAS_TRIM_LOOKS);
	assert_ok(vpmm_pool_check(f.pool));
	for (size_t i = 0; i < G_N_ELEMENTS(held); i++)
		assert_ok(vpmm_free(f.pool, held[i], f.streams[0]));
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* Every second of so many pages is free, and a block of all of these is wanted. */
static struct vpmm_stats scattered(int frag_ratio)
{
	struct vpmm_stats before, after;
	struct fixture f;
	void *pages[32];

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .frag_ratio = frag_ratio });
	for (int i = 0; i < 32; i++)
		pages[i] = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < 32; i += 2)
		fixture_free(&f, pages[i], f.streams[0]);
	before = fixture_stats(&f);
	fixture_malloc(&f, 16, f.streams[0]);
	after = fixture_stats(&f);
	fixture_close(&f);
	after.grown -= before.grown;
	after.remapped -= before.remapped;
	return after;
}

static void test_frag_ratio(void)
{
	struct vpmm_stats all = scattered(0), some = scattered(4), none = scattered(50);

	g_assert_cmpuint(all.grown, ==, 0);
	g_assert_cmpuint(all.remapped, >=, 15 * PAGE);
	g_assert_cmpuint(some.grown, ==, 0);
	g_assert_cmpuint(none.grown, >=, 15 * PAGE);
	g_assert_cmpuint(none.remapped, ==, 0);
}

/* Old places go when the address space is used up, and no more is reserved for ever. */
static void test_address_space_is_used_again(void)
{
	struct program p = { .rand = g_rand_new_with_seed(7) };
	struct vpmm_stats stats;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 16 * PAGE,
					     .extent_max = PAGE });
	p.f = &f;
	p.stream = f.streams[0];
	for (int step = 0; step < 3000; step++)
		program_step(&p, 3 * PAGE);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.unmaps, >, 0);
	g_assert_cmpuint(stats.reserved, <=, 4 * stats.mapped);
	g_assert_cmpuint(stats.mappings, <=, stats.reserved / PAGE);
	fixture_close(&f);
	g_rand_free(p.rand);
}

/* As long as a stream works through an old address, that stays mapped, though it is the last that there is. */
static void write_late(void *data)
{
	**(char **)data = 'l';
}

static void test_pending_places_stay(void)
{
	struct fixture f;
	char *a, *b, *c;
	void *blocks[12];

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE,
					     .extent_max = PAGE });
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &a));
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	c = fixture_malloc(&f, 2, f.streams[0]);
	for (int i = 0; i < 12; i++)
		blocks[i] = fixture_malloc(&f, 1 + (size_t)i % 3, f.streams[1]);
	for (int i = 0; i < 12; i++)
		fixture_free(&f, blocks[i], f.streams[1]);
	fixture_malloc(&f, 9, f.streams[1]);
	memset(c, 'c', 2 * PAGE);
	fixture_complete(f.streams[0]);
	g_assert_true(c[0] == 'l' || c[PAGE] == 'l');
	g_assert_cmpint(c[1], ==, 'c');
	fixture_complete(f.streams[1]);
	fixture_close(&f);
}

static void test_many_chunks(void)
{
	struct program p = { .rand = g_rand_new_with_seed(8) };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 4 * PAGE });
	p.f = &f;
	p.stream = f.streams[0];
	for (int step = 0; step < 1000; step++)
		program_step(&p, 6 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).chunks, >, 8);
	fixture_close(&f);
	g_rand_free(p.rand);
}

/*
 * At the limit, the free end of an extent serves although what is free goes on in the next extent, and so does the free
 * head of one: a request gets all that is free.
 */
static void test_ends_of_rows(void)
{
	static const size_t sizes[] = { PAGE / 2, 3 * PAGE / 2, PAGE, PAGE, PAGE, PAGE };

	for (int mirrored = 0; mirrored < 2; mirrored++) {
		struct fixture f;
		char *ptrs[6];

		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .limit = 6 * PAGE });
		fixture_uncache(&f);
		for (int i = 0; i < 6; i++)
			ptrs[i] = fixture_malloc_bytes(&f, sizes[mirrored ? 5 - i : i], f.streams[0]);
		fixture_free(&f, ptrs[mirrored ? 4 : 1], f.streams[0]);
		fixture_free(&f, ptrs[mirrored ? 2 : 3], f.streams[0]);
		fixture_malloc_bytes(&f, 5 * PAGE / 2, f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).free, ==, 0);
		fixture_close(&f);
	}
}

/* New memory behind what is free remaps nothing. */
static void test_growth_is_no_remap(void)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED }, { FIXTURE_OPTS } };
	struct fixture f;
	void *block;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		fixture_open(&f, opts[i]);
		block = fixture_malloc(&f, 2, f.streams[0]);
		fixture_free(&f, block, f.streams[0]);
		g_assert_true(fixture_malloc(&f, 3, f.streams[0]) == block);
		g_assert_cmpuint(fixture_stats(&f).grown, ==, 3 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).remapped, ==, 0);
		g_assert_cmpuint(fixture_stats(&f).defrags, ==, 0);
		fixture_close(&f);
	}
}

/* A block that begins with the free end of an extent and goes on in new memory is a remap. */
static void test_free_end_is_remapped(void)
{
	/* Without address space behind it, the end cannot grow where it is. */
	const struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = 2 * PAGE, .pages = 1 };
	struct fixture f;
	void *end;

	fixture_open(&f, opts);
	fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	end = fixture_malloc_bytes(&f, PAGE / 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, end, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, 3 * PAGE / 2, f.streams[0]) != end);
	g_assert_cmpuint(fixture_stats(&f).grown, ==, 3 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).defrags, ==, 1);
	g_assert_cmpuint(fixture_stats(&f).remapped, ==, PAGE);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/gather/ends-of-rows", test_ends_of_rows);
	g_test_add_func("/gather/growth-is-no-remap", test_growth_is_no_remap);
	g_test_add_func("/gather/free-end-is-remapped", test_free_end_is_remapped);
	g_test_add_func("/gather/keeps-neighbours", test_keeps_neighbours);
	g_test_add_func("/gather/no-extent-twice", test_no_extent_is_in_a_block_twice);
	g_test_add_data_func("/gather/every-byte/1", GSIZE_TO_POINTER(1), test_every_byte);
	g_test_add_data_func("/gather/every-byte/3", GSIZE_TO_POINTER(3), test_every_byte);
	g_test_add_data_func("/gather/every-byte/512", GSIZE_TO_POINTER(512), test_every_byte);
	g_test_add_func("/gather/old-place-is-taken-again", test_old_place_is_taken_again);
	g_test_add_func("/gather/settles/one-stream", test_settles);
	g_test_add_func("/gather/settles/pages", test_settles_with_pages);
	g_test_add_func("/gather/settles/streams", test_settles_with_streams);
	g_test_add_func("/gather/settles/late", test_settles_late);
	g_test_add_func("/gather/settles/after-growing", test_settles_after_growing);
	g_test_add_func("/gather/recalled-after-trimming", test_recalled_after_trimming);
	g_test_add_func("/gather/trims-by-and-by", test_trims_by_and_by);
	g_test_add_func("/gather/frag-ratio", test_frag_ratio);
	g_test_add_func("/gather/address-space", test_address_space_is_used_again);
	g_test_add_func("/gather/pending-places", test_pending_places_stay);
	g_test_add_func("/gather/many-chunks", test_many_chunks);
	return g_test_run();
}
