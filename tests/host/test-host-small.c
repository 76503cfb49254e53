// SPDX-License-Identifier: LGPL-2.1-or-later
/* The host backend's stream-ordered allocator. */
#include "host/host-bench.h"

static void test_small_coalesces(void)
{
	uint64_t va[64], big;
	struct backend *be;
	size_t i;

	set("96M", "1", "7");
	be = open_entered(0);
	for (i = 0; i < 64; i++)
		va[i] = small(be, 512 * 1024, NULL);
	g_assert_cmpuint(held(be), ==, 32 * MIB);
	for (i = 0; i < 64; i++)
		assert_ok(ops->small_free(be, va[(i * 37) % 64], NULL));
	big = small(be, 32 * MIB, NULL);

	g_assert_cmpuint(held(be), ==, 32 * MIB);
	assert_ok(ops->small_free(be, big, NULL));
	close_left(be);
}

static void test_small_takes_the_best_fit(void)
{
	uint64_t large, fits, walls[3];
	struct backend *be;

	set("64M", "1", "7");
	be = open_entered(0);
	large = small(be, 4 * MIB, NULL);
	walls[0] = small(be, 512, NULL);
	fits = small(be, MIB, NULL);
	walls[1] = small(be, 512, NULL);
	assert_ok(ops->small_free(be, large, NULL));
	assert_ok(ops->small_free(be, fits, NULL));

	g_assert_cmpuint(small(be, MIB - 100, NULL), ==, fits);
	walls[2] = small(be, 3 * MIB, NULL);
	g_assert_cmpuint(walls[2], ==, large);
	assert_ok(ops->small_free(be, fits, NULL));
	assert_ok(ops->small_free(be, walls[0], NULL));
	assert_ok(ops->small_free(be, walls[1], NULL));
	assert_ok(ops->small_free(be, walls[2], NULL));
	close_left(be);
}

static void test_small_fits_before_own(void)
{
	struct CUstream_st *stream = stream_new(), *other = stream_new();
	uint64_t own, fits, wall;
	struct backend *be;

	set("64M", "1", "7");
	be = open_entered(0);
	own = small(be, 4 * MIB, stream);
	wall = small(be, 512, stream);
	fits = small(be, MIB, other);
	assert_ok(ops->small_free(be, small(be, 512, stream), stream));
	assert_ok(vpmm_host_stream_submit(stream));
	assert_ok(ops->small_free(be, own, stream));
	small(be, 27 * MIB - 512, other);
	assert_ok(ops->small_free(be, fits, other));

	g_assert_cmpuint(small(be, MIB, stream), ==, fits);
	g_assert_cmpuint(small(be, 3 * MIB, stream), ==, own);
	assert_ok(ops->small_free(be, fits, stream));
	assert_ok(ops->small_free(be, own, stream));
	assert_ok(ops->small_free(be, wall, stream));
	assert_ok(ops->small_free(be, wall + 512 + MIB, other));
	assert_ok(vpmm_host_stream_destroy(stream));
	assert_ok(vpmm_host_stream_destroy(other));
	close_left(be);
}

static void test_small_waits_when_full(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();
	struct backend *be;
	uint64_t va, rest;

	set("32M", "1", "7");
	be = open_entered(0);
	va = small(be, 20 * MIB, first);
	assert_ok(vpmm_host_stream_submit(first));
	assert_ok(ops->small_free(be, va, first));
	rest = small(be, 12 * MIB, second);
	assert_ok(vpmm_host_stream_submit(second));
	assert_ok(vpmm_host_stream_complete(second, 1));
	g_assert_cmpuint(small(be, 16 * MIB, second), ==, va);

	assert_ok(vpmm_host_stream_submit(second));
	assert_refused(vpmm_host_stream_complete(second, 1), -EBUSY, "waits");
	assert_ok(vpmm_host_stream_complete(first, 1));
	assert_ok(vpmm_host_stream_complete(second, 1));
	assert_ok(ops->small_free(be, va, second));
	assert_ok(ops->small_free(be, rest, second));
	assert_ok(vpmm_host_stream_destroy(first));
	assert_ok(vpmm_host_stream_destroy(second));
	close_left(be);
}

static void test_small_joins_pieces_when_full(void)
{
	struct CUstream_st *streams[4], *other = stream_new();
	struct backend *be;
	uint64_t va[4], all;
	size_t i;

	set("32M", "1", "7");
	be = open_entered(0);
	for (i = 0; i < 4; i++) {
		streams[i] = stream_new();
		va[i] = small(be, 8 * MIB, streams[i]);
	}
	for (i = 0; i < 4; i++) {
		assert_ok(vpmm_host_stream_submit(streams[i]));
		assert_ok(ops->small_free(be, va[i], streams[i]));
	}
	all = small(be, 30 * MIB, other);
	assert_ok(vpmm_host_stream_submit(other));
	for (i = 0; i < 4; i++) {
		assert_refused(vpmm_host_stream_complete(other, 1), -EBUSY, "waits");
		assert_ok(vpmm_host_stream_complete(streams[i], 1));
	}

	assert_ok(vpmm_host_stream_complete(other, 1));
	assert_ok(ops->small_free(be, all, other));
	all = small(be, 32 * MIB, streams[0]);
	assert_ok(ops->small_free(be, all, streams[0]));
	for (i = 0; i < 4; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
	assert_ok(vpmm_host_stream_destroy(other));
	close_left(be);
}

static void test_small_gives_back_when_full(void)
{
	struct backend *be;
	uint64_t va, other = UNTOUCHED;

	set("40M", "1", "7");
	be = open_entered(0);
	assert_ok(ops->small_free(be, small(be, 100, NULL), NULL));
	g_assert_cmpuint(held(be), ==, 32 * MIB);
	va = small(be, 40 * MIB, NULL);
	g_assert_cmpuint(held(be), ==, 40 * MIB);
	assert_refused(ops->small_alloc(be, 1, NULL, &other), -ENOMEM, "stream-ordered");

	g_assert_cmpuint(other, ==, UNTOUCHED);
	assert_ok(ops->small_free(be, va, NULL));
	close_left(be);
}

/* What is in use stays, whichever came last. */
static void test_small_gives_back_what_is_unused(void)
{
	uint64_t old, used, large;
	struct backend *be;

	set("72M", "1", "7");
	be = open_entered(0);
	old = small(be, 32 * MIB, NULL);
	used = small(be, 100, NULL);
	memset((void *)(uintptr_t)used, 'u', 100);
	assert_ok(ops->small_free(be, old, NULL));
	g_assert_cmpuint(held(be), ==, 64 * MIB);
	large = small(be, 40 * MIB, NULL);

	g_assert_cmpuint(held(be), ==, 72 * MIB);
	g_assert_cmpint(*(char *)(uintptr_t)(used + 99), ==, 'u');
	assert_ok(ops->small_free(be, used, NULL));
	assert_ok(ops->small_free(be, large, NULL));
	close_left(be);
}

struct live {
	uint64_t va;
	size_t size;
	size_t stream;
};

/* Streams do their work late and in any order; nothing that overlaps may be in use by two. */
static void test_small_at_random(void)
{
	struct live live[64] = { 0 };
	struct CUstream_st *streams[4];
	struct backend *be;
	size_t i, j, step;

	set("96M", "1", "7");
	be = open_entered(0);
	for (i = 0; i < 4; i++)
		streams[i] = stream_new();
	for (step = 0; step < 20000; step++) {
		struct live *one = &live[g_test_rand_int_range(0, 64)];
		size_t on = (size_t)g_test_rand_int_range(0, 4);

		if (one->va) {
			g_assert_cmpuint(*(uint64_t *)(uintptr_t)one->va, ==, one->va + one->size);
			assert_ok(ops->small_free(be, one->va, streams[one->stream]));
			one->va = 0;
		} else {
			one->size = (size_t)g_test_rand_int_range(8, g_test_rand_int_range(0, 20) ? 65536 : 1 << 20);
			one->stream = on;
			one->va = small(be, one->size, streams[on]);
			for (j = 0; j < 64; j++)
				g_assert_true(&live[j] == one || !live[j].va || one->va + one->size <= live[j].va ||
					      live[j].va + live[j].size <= one->va);
			*(uint64_t *)(uintptr_t)one->va = one->va + one->size;
		}
		if (step % 3 == 0)
			assert_ok(vpmm_host_stream_submit(streams[on]));
		if (step % 7 == 0)
			vpmm_host_stream_complete(streams[on], 3);
	}
	for (i = 0; i < 64; i++)
		if (live[i].va)
			assert_ok(ops->small_free(be, live[i].va, streams[live[i].stream]));
	for (i = 0; i < 4; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
	i = small(be, held(be) / 2 / PAGE * PAGE, NULL);
	assert_ok(ops->small_free(be, i, NULL));
	close_left(be);
}

/* With the context, while the device stays open: a default pool's does as long as the process lives. */
static void test_small_goes_with_a_reset(void)
{
	struct backend *be, *after;
	struct backend_info info;

	set("64M", "1", "7");
	be = open_entered(0);
	small(be, 512, NULL);
	ops->leave(be);
	assert_ok(vpmm_host_reset());

	assert_ok(ops->abandon(be));
	ops->leave(be);

	after = open_entered(0);
	assert_ok(ops->info(after, &info));
	g_assert_cmpuint(info.memory_free, ==, 64 * MIB);
	ops->close(be);
	close_left(after);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/host-small/coalesces", test_small_coalesces);
	g_test_add_func("/host-small/takes-the-best-fit", test_small_takes_the_best_fit);
	g_test_add_func("/host-small/fits-before-own", test_small_fits_before_own);
	g_test_add_func("/host-small/waits-when-full", test_small_waits_when_full);
	g_test_add_func("/host-small/joins-pieces-when-full", test_small_joins_pieces_when_full);
	g_test_add_func("/host-small/gives-back-when-full", test_small_gives_back_when_full);
	g_test_add_func("/host-small/gives-back-what-is-unused", test_small_gives_back_what_is_unused);
	g_test_add_func("/host-small/goes-with-a-reset", test_small_goes_with_a_reset);
	g_test_add_func("/host-small/at-random", test_small_at_random);
	return g_test_run();
}
