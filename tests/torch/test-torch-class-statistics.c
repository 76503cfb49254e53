// SPDX-License-Identifier: LGPL-2.1-or-later
/* The statistics of the allocator class, and that they agree with its lists. */
#include "torch/class-fixture.h"

/* The bytes of segments are counted for each pool. */
static void test_pool_stats(void)
{
	const struct torch_id ids[] = { { 20, 0 }, { 0, 21 } };
	struct torch_pool_stats *all;
	char *small, *large;
	size_t count;

	small = new_block(100, NULL, table->begin(0, ids[0], 1));
	large = new_block(3 * MIB, NULL, table->begin(0, ids[1], 1));
	table->end(0, ids[0], 1);
	table->end(0, ids[1], 1);
	drop(large);
	assert_ok(table->drop(0, ids[1]));
	/* The pool stays as long as it is used, and so does what it had at most. */
	assert_ok(table->join(0, ids[1], NULL));
	assert_ok(table->pool_stats(0, &all, &count));
	g_assert_cmpuint(count, ==, 2);
	for (size_t i = 0; i < count; i++) {
		bool is_small = all[i].id.a == ids[0].a;

		g_assert_true(is_small || all[i].id.b == ids[1].b);
		g_assert_cmpint(all[i].reserved[TORCH_ALL].current, ==, is_small ? 2 * MIB : 20 * MIB);
		g_assert_cmpint(all[i].reserved[TORCH_SMALL].current, ==, is_small ? 2 * MIB : 0);
		g_assert_cmpint(all[i].reserved[TORCH_LARGE].allocated, ==, is_small ? 0 : 20 * MIB);
	}
	g_free(all);
	table->reset_accumulated(0);
	assert_ok(table->pool_stats(0, &all, &count));
	g_assert_cmpint(all[0].reserved[TORCH_ALL].allocated, ==, 0);
	g_assert_cmpint(all[0].reserved[TORCH_ALL].peak, >, 0);
	g_free(all);
	assert_ok(table->pool_stats(1, &all, &count));
	g_assert_cmpuint(count, ==, 0);
	g_free(all);
	drop(small);
	assert_ok(table->drop(0, ids[0]));
	assert_ok(table->drop(0, ids[1]));
	table->trim(0, none);
	assert_ok(table->pool_stats(0, &all, &count));
	g_assert_cmpuint(count, ==, 0);
	g_free(all);
}

/* What a list of all comes to, in the statistics' terms. */
static struct torch_stats sum_list(void)
{
	struct torch_stats sums = { 0 };
	struct torch_piece *pieces;
	enum torch_kind kind = TORCH_SMALL;
	bool is_split = false;
	size_t count;

	assert_ok(table->list(0, none, &pieces, &count));
	check_list(pieces, count);
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].segment) {
			kind = pieces[i].large ? TORCH_LARGE : TORCH_SMALL;
			sums.segment[kind].current += !pieces[i].grows;
			sums.reserved_bytes[kind].current += (int64_t)pieces[i].size;
			/* A segment that is split has more than one part. */
			is_split = !pieces[i].grows && i + 1 < count && pieces[i + 1].size < pieces[i].size;
			continue;
		}
		sums.inactive_split[kind].current += is_split && !pieces[i].active;
		sums.inactive_split_bytes[kind].current += is_split && !pieces[i].active ? (int64_t)pieces[i].size : 0;
		sums.allocation[kind].current += pieces[i].allocated;
		sums.allocated_bytes[kind].current += pieces[i].allocated ? (int64_t)pieces[i].size : 0;
		sums.active[kind].current += pieces[i].active;
		sums.active_bytes[kind].current += pieces[i].active ? (int64_t)pieces[i].size : 0;
		sums.requested_bytes[kind].current += (int64_t)pieces[i].requested;
	}
	g_free(pieces);
	return sums;
}

static void check_sums(void)
{
	struct torch_stats now = stats_now(), sums = sum_list();

	for (int kind = TORCH_SMALL; kind < TORCH_KINDS; kind++) {
		g_assert_cmpint(sums.segment[kind].current, ==, now.segment[kind].current);
		g_assert_cmpint(sums.reserved_bytes[kind].current, ==, now.reserved_bytes[kind].current);
		g_assert_cmpint(sums.allocation[kind].current, ==, now.allocation[kind].current);
		g_assert_cmpint(sums.allocated_bytes[kind].current, ==, now.allocated_bytes[kind].current);
		g_assert_cmpint(sums.active[kind].current, ==, now.active[kind].current);
		g_assert_cmpint(sums.active_bytes[kind].current, ==, now.active_bytes[kind].current);
		g_assert_cmpint(sums.requested_bytes[kind].current, ==, now.requested_bytes[kind].current);
		g_assert_cmpint(sums.inactive_split[kind].current, ==, now.inactive_split[kind].current);
		g_assert_cmpint(sums.inactive_split_bytes[kind].current, ==, now.inactive_split_bytes[kind].current);
	}
}

/* A list of all has each byte once. Statistics and list agree, of small blocks and of large ones. */
static void test_list(void)
{
	const struct torch_id id = { 0, 13 };
	struct torch_pool *pool = table->begin(0, id, 1);
	/* The 1 MiB block is small to PyTorch, and lies among large ones. */
	char *blocks[] = {
		new_block(100, NULL, pool), new_block(100, NULL, NULL), new_block(3 * MIB, NULL, NULL),
		new_block(MIB, NULL, NULL), new_block(MIB + 1, NULL, NULL),
	};

	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++) {
		check_sums();
		drop(blocks[i]);
	}
	end_pool(id);
}

/* What others have in the same pool is reserved as well, as a part of what small or large blocks have. */
static void test_list_others(void)
{
	char *block = new_block(MIB, NULL, NULL);
	struct torch_stats now, sums;
	void *other;

	assert_ok(vpmm_malloc(NULL, &other, 3 * MIB, NULL));
	now = stats_now();
	sums = sum_list();
	for (int kind = TORCH_SMALL; kind < TORCH_KINDS; kind++)
		g_assert_cmpint(sums.reserved_bytes[kind].current, ==, now.reserved_bytes[kind].current);
	assert_ok(vpmm_free(NULL, other, NULL));
	drop(block);
}

static const struct torch_stat *split(struct torch_stats *stats)
{
	*stats = stats_now();
	return &stats->inactive_split_bytes[TORCH_ALL];
}

/* Of what is free beside blocks of a pool the peak and the sums are known as well, also when it becomes what it was. */
static void test_split(void)
{
	const struct torch_id id = { 0, 32 };
	struct torch_pool *pool = table->begin(0, id, 1);
	GRand *rand = g_rand_new_with_seed(2);
	struct torch_piece *state, *freed, *allocated;
	size_t count, freed_count, allocated_count;
	char *blocks[20] = { 0 };
	struct torch_stats stats;
	size_t which;

	table->trim(0, none);
	table->reset_peaks(0);
	table->reset_accumulated(0);
	g_assert_cmpint(split(&stats)->current, ==, 0);
	blocks[0] = new_block(MIB, NULL, pool);
	g_assert_cmpint(split(&stats)->current, ==, MIB);
	drop(blocks[0]);
	blocks[0] = NULL;
	g_assert_cmpint(split(&stats)->current, ==, 0);
	g_assert_cmpint(split(&stats)->peak, ==, MIB);
	g_assert_cmpint(split(&stats)->allocated, ==, MIB);
	g_assert_cmpint(split(&stats)->freed, ==, MIB);
	for (int i = 0; i < 300; i++) {
		which = (size_t)g_rand_int_range(rand, 0, G_N_ELEMENTS(blocks));
		if (blocks[which])
			drop(blocks[which]);
		blocks[which] = blocks[which] ? NULL : new_block((size_t)g_rand_int_range(rand, 1, 3 * (int)MIB / 2), NULL,
								 pool);
		check_sums();
		if (i % 10)
			continue;
		assert_ok(table->list(0, id, &state, &count));
		drop(new_block(100, NULL, pool));
		assert_ok(table->restore(0, id, state, count, &freed, &freed_count, &allocated, &allocated_count));
		check_sums();
		g_free(state);
		g_free(freed);
		g_free(allocated);
	}
	for (which = 0; which < G_N_ELEMENTS(blocks); which++)
		if (blocks[which])
			drop(blocks[which]);
	g_assert_cmpint(split(&stats)->current, ==, 0);
	g_assert_cmpint(split(&stats)->allocated, ==, split(&stats)->freed);
	g_rand_free(rand);
	end_pool(id);
}

/* A captured stream works in a pool: 11 blocks of a size, of which one stays. Return: that. */
static char *capture_blocks(size_t size, struct CUstream_st *stream, struct torch_id id)
{
	struct torch_pool *pool = table->begin(0, id, 1);
	struct vpmm_host_graph *graph = NULL;
	char *last, *copy, *sum;

	assert_ok(vpmm_host_capture_begin(stream));
	last = new_block(size, stream, pool);
	for (int i = 0; i < 5; i++) {
		copy = new_block(size, stream, pool);
		sum = new_block(size, stream, pool);
		drop(copy);
		drop(last);
		last = sum;
	}
	assert_ok(vpmm_host_capture_end(stream, &graph));
	table->end(0, id, 1);
	assert_ok(vpmm_host_graph_destroy(graph));
	return last;
}

static void check_growth(const struct torch_stats *before, enum torch_kind kind, int64_t segments, int64_t reserved,
			 int64_t active, int64_t active_bytes)
{
	struct torch_stats now = stats_now();

	g_assert_cmpint(now.segment[kind].current - before->segment[kind].current, ==, segments);
	g_assert_cmpint(now.reserved_bytes[kind].current - before->reserved_bytes[kind].current, ==, reserved);
	g_assert_cmpint(now.active[kind].current - before->active[kind].current, ==, active);
	g_assert_cmpint(now.active_bytes[kind].current - before->active_bytes[kind].current, ==, active_bytes);
}

/*
 * What a graph takes shows in its kind of memory alone, to the byte, while it lives and when only its result is left.
 * PyTorch's own test of that has two small blocks beside each graph, of the random numbers.
 */
static void test_graph_memory(void)
{
	static const struct {
		size_t size;
		unsigned int segments;
		size_t segment;
	} cases[] = {
		{ 512, 1, 2 * MIB }, { MIB, 2, 2 * MIB }, { MIB + 512, 1, 20 * MIB },
		{ 10 * MIB - 512, 2, 20 * MIB }, { 10 * MIB + 512, 3, 12 * MIB },
	};
	struct torch_id id = { 100, 0 };
	struct CUstream_st *stream;
	struct torch_stats before;
	char *input, *numbers[2], *result;
	enum torch_kind kind;
	int64_t size;

	assert_ok(table->set_fraction(0, 1));
	assert_ok(vpmm_host_stream_create(&stream));
	table->trim(0, none);
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++, id.a++) {
		size = (int64_t)cases[i].size;
		kind = size > (int64_t)MIB ? TORCH_LARGE : TORCH_SMALL;
		input = new_block(cases[i].size, stream, NULL);
		before = stats_now();
		numbers[0] = new_block(8, stream, NULL);
		numbers[1] = new_block(8, stream, NULL);
		result = capture_blocks(cases[i].size, stream, id);
		check_growth(&before, kind, cases[i].segments, cases[i].segments * (int64_t)cases[i].segment,
			     kind == TORCH_LARGE ? 1 : 3, kind == TORCH_LARGE ? size : size + 1024);
		drop(numbers[0]);
		drop(numbers[1]);
		assert_ok(table->drop(0, id));
		table->trim(0, none);
		check_growth(&before, kind, 1, (int64_t)cases[i].segment, 1, size);
		drop(input);
		drop(result);
		table->trim(0, none);
		g_assert_cmpint(stats_now().reserved_bytes[TORCH_ALL].current, ==, 0);
	}
	assert_ok(vpmm_stream_retire(NULL, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
}

/* What was reserved and what is are the same bytes, of pools too, and the sums begin anew when they are reset. */
static void test_sums(void)
{
	const struct torch_id id = { 0, 30 };
	struct torch_stats before = stats_now(), now;
	struct torch_pool *pool = table->begin(0, id, 1);
	char *block = new_block(4 * MIB, NULL, pool);
	const struct torch_stat *was = &before.reserved_bytes[TORCH_ALL], *is = &now.reserved_bytes[TORCH_ALL];
	int64_t held;

	now = stats_now();
	g_assert_cmpint(is->allocated - is->freed - (was->allocated - was->freed), ==, is->current - was->current);
	g_assert_cmpint(now.created, >, before.created);
	table->reset_accumulated(0);
	now = stats_now();
	g_assert_cmpint(is->allocated, ==, 0);
	g_assert_cmpint(is->freed, ==, 0);
	g_assert_cmpint(now.created + now.released, ==, 0);
	held = is->current;
	drop(block);
	end_pool(id);
	table->trim(0, none);
	now = stats_now();
	g_assert_cmpint(is->freed, >=, 20 * MIB);
	g_assert_cmpint(is->freed, ==, held - is->current);
	g_assert_cmpint(now.released, >, 0);
}

static void *take_host(void *data, int device, size_t size, struct CUstream_st *stream)
{
	(void)data;
	(void)device;
	(void)stream;
	return g_malloc(size);
}

static void give_host(void *data, int device, void *ptr)
{
	(void)data;
	(void)device;
	g_free(ptr);
}

static int64_t reserved_peak(void)
{
	return stats_now().reserved_bytes[TORCH_ALL].peak;
}

/* The peak falls by a reset alone, whoever's memory comes and goes. */
static void test_foreign_peak(void)
{
	const struct torch_id id = { 0, 31 };
	const struct torch_source source = { take_host, give_host, NULL, NULL };
	char *block, *own;
	int64_t begin;

	table->trim(0, none);
	table->reset_peaks(0);
	begin = reserved_peak();
	for (int i = 0; i < 2; i++) {
		assert_ok(table->join(0, id, &source));
		block = new_block(40 * MIB, NULL, table->begin(0, id, 1));
		g_assert_cmpint(reserved_peak(), ==, begin + (int64_t)(40 + 8 * i) * MIB);
		drop(block);
		table->end(0, id, 1);
		assert_ok(table->drop(0, id));
		assert_ok(table->drop(0, id));
		table->trim(0, id);
		g_assert_cmpint(reserved_peak(), ==, begin + (int64_t)(40 + 8 * i) * MIB);
		/* 40 MiB were there at the most, and not beside these. */
		if (!i)
			own = new_block(8 * MIB, NULL, NULL);
		g_assert_cmpint(reserved_peak(), ==, begin + (int64_t)(40 + 8 * i) * MIB);
	}
	drop(own);
	table->trim(0, none);
	table->reset_peaks(0);
	g_assert_cmpint(reserved_peak(), ==, begin);
}

/* The same of either kind of memory, which had at least what its blocks had. */
static void test_kinds_peak(void)
{
	static const size_t sizes[TORCH_KINDS] = { [TORCH_SMALL] = 4096, [TORCH_LARGE] = 40 * MIB };
	struct torch_stats now;

	table->trim(0, none);
	table->reset_peaks(0);
	for (int kind = TORCH_SMALL; kind < TORCH_KINDS; kind++)
		drop(new_block(sizes[kind], NULL, NULL));
	table->trim(0, none);
	for (int i = 0; i < 2; i++) {
		now = stats_now();
		for (int kind = TORCH_SMALL; kind < TORCH_KINDS; kind++) {
			g_assert_cmpint(now.reserved_bytes[kind].current, ==, 0);
			g_assert_cmpint(now.reserved_bytes[kind].peak, >=, i ? 0 : (int64_t)sizes[kind]);
			g_assert_cmpint(now.reserved_bytes[kind].peak, <=, i ? 0 : (int64_t)(sizes[kind] + 2 * MIB));
		}
		table->reset_peaks(0);
	}
}

/* Paused memory is reserved memory of no kind. */
static void test_paused(void)
{
	const struct torch_id id = { 0, 33 };
	struct torch_pool *pool = table->begin(0, id, 0);
	const size_t sizes[] = { 1000, 3 * MIB };
	struct torch_stats before, now;
	char *blocks[2];
	vpmm_tag tag;

	table->trim(0, none);
	before = stats_now();
	assert_ok(vpmm_tag_open("paused", VPMM_TAG_PAUSABLE, &tag));
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		vpmm_tag_set(tag);
		blocks[i] = new_block(sizes[i], NULL, pool);
		vpmm_tag_set(0);
		assert_ok(vpmm_pause(NULL, tag, 0));
		now = stats_now();
		for (int kind = 0; kind < TORCH_KINDS; kind++)
			g_assert_cmpint(now.reserved_bytes[kind].current, ==, before.reserved_bytes[kind].current);
		assert_ok(vpmm_resume(NULL, tag, VPMM_STREAM_ANY));
	}
	drop(blocks[0]);
	drop(blocks[1]);
	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
}

void class_statistics_tests(void)
{
	g_test_add_func("/torch-class/sums", test_sums);
	g_test_add_func("/torch-class/foreign-peak", test_foreign_peak);
	g_test_add_func("/torch-class/kinds-peak", test_kinds_peak);
	g_test_add_func("/torch-class/paused", test_paused);
	g_test_add_func("/torch-class/pool-stats", test_pool_stats);
	g_test_add_func("/torch-class/list", test_list);
	g_test_add_func("/torch-class/list-others", test_list_others);
	g_test_add_func("/torch-class/split", test_split);
	g_test_add_func("/torch-class/graph-memory", test_graph_memory);
}
