// SPDX-License-Identifier: LGPL-2.1-or-later
/* Pools of the allocator class that become what they were. */
#include "torch/class-fixture.h"

static void check_same(const struct torch_piece *one, const struct torch_piece *other)
{
	g_assert_cmpuint(one->addr, ==, other->addr);
	g_assert_cmpuint(one->size, ==, other->size);
	g_assert_cmpuint(one->requested, ==, other->requested);
	g_assert_true(one->stream == other->stream && one->id.b == other->id.b && one->device == other->device);
	g_assert_true(one->segment == other->segment && one->large == other->large && one->grows == other->grows);
	g_assert_true(one->allocated == other->allocated && one->active == other->active);
}

/* A pool becomes what it was: the same blocks at the same addresses, in the same parts. */
static void test_restore(void)
{
	const struct torch_id id = { 0, 11 };
	struct torch_pool *pool = table->begin(0, id, 1);
	struct torch_piece *state, *after, *freed, *allocated;
	size_t count, after_count, freed_count, allocated_count;
	GRand *rand = g_rand_new_with_seed(1);
	GPtrArray *live = g_ptr_array_new();
	guint i, which;

	for (int round = 0; round < 20; round++) {
		for (i = 0; i < 30; i++) {
			which = live->len ? (guint)g_rand_int_range(rand, 0, (int)live->len) : 0;
			if (live->len && g_rand_boolean(rand))
				drop(g_ptr_array_steal_index_fast(live, which));
			else
				g_ptr_array_add(live, new_block((size_t)g_rand_int_range(rand, 1, 200000), NULL, pool));
		}
		assert_ok(table->list(0, id, &state, &count));
		check_list(state, count);
		for (i = 0; i < 10; i++)
			new_block((size_t)g_rand_int_range(rand, 1, 3 * (int)MIB), NULL, pool);
		drop(g_ptr_array_index(live, 0));
		assert_ok(table->restore(0, id, state, count, &freed, &freed_count, &allocated, &allocated_count));
		g_assert_cmpuint(freed_count, ==, live->len + 9);
		g_assert_cmpuint(allocated_count, ==, live->len);
		assert_ok(table->list(0, id, &after, &after_count));
		/* Segments that are newer stay, and are free. */
		for (size_t old = 0, new = 0; new < after_count; new++) {
			if (after[new].segment && (old == count || after[new].addr != state[old].addr)) {
				new++;
				g_assert_true(!after[new].active && after[new].size == after[new - 1].size);
				continue;
			}
			check_same(&after[new], &state[old]);
			old++;
		}
		g_free(after);
		g_free(freed);
		g_free(allocated);
		g_free(state);
	}
	/* A state that the pool cannot have changes nothing: other segments, parts that do not fill one, no segment. */
	for (i = 0; i < 3; i++) {
		assert_ok(table->list(0, id, &state, &count));
		state[i == 1].addr += i < 2 ? 512 : 0;
		g_assert_cmpint(table->restore(0, id, state + i / 2, count - i / 2, &freed, &freed_count, &allocated,
					       &allocated_count), ==, -EINVAL);
		g_assert_cmpuint(freed_count + allocated_count, ==, 0);
		g_free(state);
	}
	for (i = 0; i < live->len; i++)
		drop(g_ptr_array_index(live, i));
	g_ptr_array_unref(live);
	g_rand_free(rand);
	end_pool(id);
}

/* A block that was freed but in use when a state was taken is free in it, and one with what is free beside it. */
static void test_restore_in_use(void)
{
	const struct torch_id id = { 0, 12 };
	struct torch_pool *pool = table->begin(0, id, 0);
	struct torch_piece *state, *freed, *allocated;
	size_t count, freed_count, allocated_count;
	char *block = new_block(8 * MIB, NULL, pool);
	struct CUstream_st *stream;

	assert_ok(vpmm_host_stream_create(&stream));
	class_passed = false;
	table->use(block, stream);
	drop(block);
	assert_ok(table->list(0, id, &state, &count));
	class_passed = true;
	assert_ok(table->restore(0, id, state, count, &freed, &freed_count, &allocated, &allocated_count));
	g_assert_cmpuint(freed_count + allocated_count, ==, 0);
	/* The segment has 20 MiB. */
	g_assert_true(new_block(15 * MIB, NULL, pool) == block);
	drop(block);
	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
	assert_ok(vpmm_host_stream_destroy(stream));
	g_free(state);
	g_free(freed);
	g_free(allocated);
}

/* A stream uses a block after its pool becomes what it was. What has gone by then it must have used before. */
static void test_restore_used(void)
{
	const struct torch_id id = { 0, 18 }, other = { 0, 20 };
	struct torch_pool *pool = table->begin(0, id, 0);
	struct torch_piece *states[2], *freed, *allocated;
	size_t counts[2], freed_count, allocated_count;
	struct CUstream_st *stream;
	char *block;

	assert_ok(vpmm_host_stream_create(&stream));
	drop(new_block(100, NULL, pool));
	assert_ok(table->list(0, id, &states[0], &counts[0]));
	block = new_block(100, NULL, pool);
	assert_ok(table->list(0, id, &states[1], &counts[1]));
	table->use(block, stream);
	assert_ok(table->restore(0, id, states[1], counts[1], &freed, &freed_count, &allocated, &allocated_count));
	g_assert_cmpuint(freed_count, ==, 1);
	g_assert_cmpuint(allocated_count, ==, 1);
	g_free(freed);
	g_free(allocated);
	/* In a capture nothing is waited for. */
	table->begin(0, other, 1);
	g_assert_cmpint(table->restore(0, id, states[0], counts[0], &freed, &freed_count, &allocated,
				       &allocated_count), ==, -EBUSY);
	end_pool(other);
	class_passed = false;
	drop(block);
	g_assert_true(new_block(100, NULL, pool) == block + 512);
	class_passed = true;
	drop(new_block(100, NULL, pool));
	drop(block + 512);
	block = new_block(100, NULL, pool);
	table->use(block, stream);
	assert_ok(table->restore(0, id, states[0], counts[0], &freed, &freed_count, &allocated, &allocated_count));
	g_assert_cmpuint(freed_count, ==, 1);
	g_assert_cmpuint(allocated_count, ==, 0);
	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
	assert_ok(vpmm_host_stream_destroy(stream));
	g_free(states[0]);
	g_free(states[1]);
	g_free(freed);
	g_free(allocated);
}

void class_restore_tests(void)
{
	g_test_add_func("/torch-class/restore", test_restore);
	g_test_add_func("/torch-class/restore-in-use", test_restore_in_use);
	g_test_add_func("/torch-class/restore-used", test_restore_used);
}
