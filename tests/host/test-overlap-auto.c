// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * VPMM_OVERLAP=auto: a program whose streams wait for each other gets what they need. Times are those of the virtual
 * clock.
 */
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/setting.h"

#define MS 1000000
#define BLOCK (4 * PAGE)

/* The host of a program is this many pieces of work ahead of its device. */
#define AHEAD 8

enum { IN, COMPUTE, OUT };

/* How long a batch is copied, and computed with. */
struct shape {
	uint64_t copy;
	uint64_t compute;
};

static const struct shape prefetch = { .copy = 10, .compute = 10 };
/* A copy that waits is early anyway: what that costs is half a percent. */
static const struct shape ahead = { .copy = 1, .compute = 200 };

static void open_auto(struct fixture *f)
{
	fixture_open_faulty(f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_AUTO });
}

static void work(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ms)
{
	fixture_work(stream, engine, ms * MS, AHEAD);
}

/* One stream copies a batch, another computes with it. */
static void run_ahead(struct fixture *f, const struct shape *shape, guint batches, unsigned int most)
{
	struct CUstream_st *in = f->streams[IN], *compute = f->streams[COMPUTE];

	while (batches--) {
		void *block = fixture_malloc(f, BLOCK / PAGE, in);

		fixture_work(in, VPMM_HOST_COPY_IN, shape->copy * MS, most);
		assert_ok(vpmm_host_stream_wait(compute, in));
		assert_ok(vpmm_use(f->pool, block, compute));
		fixture_work(compute, VPMM_HOST_COMPUTE, shape->compute * MS, most);
		fixture_free(f, block, in);
	}
}

static void run(struct fixture *f, const struct shape *shape, guint batches)
{
	run_ahead(f, shape, batches, AHEAD);
}

static uint64_t ms_of(struct fixture *f, const struct shape *shape, guint batches)
{
	uint64_t start;

	assert_ok(vpmm_host_time_finish());
	start = vpmm_host_time();
	run(f, shape, batches);
	assert_ok(vpmm_host_time_finish());
	return (vpmm_host_time() - start) / MS;
}

/* A batch more lets the copy of one and the computing with another take place at once, from the first wait on. */
static void test_learns_at_once(void)
{
	struct fixture f;

	open_auto(&f);
	g_assert_cmpuint(ms_of(&f, &prefetch, 20), <=, 22 * 10);
	g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 101 * 10 * 105 / 100);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, <=, 2 * BLOCK + PAGE);
	fixture_close(&f);
}

/* Nothing has to be complete for that: it is the same if the host is never held back. */
static void test_learns_far_ahead(void)
{
	struct fixture f;
	uint64_t start;

	open_auto(&f);
	start = vpmm_host_time();
	for (guint i = 0; i < 200; i++)
		run_ahead(&f, &prefetch, 1, UINT_MAX);
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint((vpmm_host_time() - start) / MS, <, 202 * 10 * 105 / 100);
	fixture_close(&f);
}

/* Nor does it matter how much the program has allocated for good. */
static void test_beside_large_blocks(void)
{
	const size_t pages = 400;
	struct fixture f;
	void *large;

	open_auto(&f);
	large = fixture_malloc(&f, pages, f.streams[IN]);
	run(&f, &prefetch, 200);
	g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 101 * 10 * 105 / 100);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, <=, pages * PAGE + 3 * BLOCK);
	fixture_free(&f, large, f.streams[IN]);
	fixture_close(&f);
}

/* What a program waited for once, at its start, is not the measure of what it needs later. */
static void test_after_large_waits(void)
{
	const size_t pages = 400;
	struct fixture f;
	void *large;

	open_auto(&f);
	for (int i = 0; i < 3; i++) {
		void *block = fixture_malloc(&f, 40, f.streams[IN]);

		work(f.streams[IN], VPMM_HOST_COPY_IN, 10);
		assert_ok(vpmm_host_stream_wait(f.streams[COMPUTE], f.streams[IN]));
		assert_ok(vpmm_use(f.pool, block, f.streams[COMPUTE]));
		work(f.streams[COMPUTE], VPMM_HOST_COMPUTE, 10);
		fixture_free(&f, block, f.streams[IN]);
	}
	large = fixture_malloc(&f, pages, f.streams[IN]);
	run(&f, &ahead, 3000);
	run(&f, &prefetch, 100);
	g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 101 * 10 * 105 / 100);
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, pages * PAGE + 3 * BLOCK + PAGE);
	fixture_free(&f, large, f.streams[IN]);
	fixture_close(&f);
}

/* What waiting costs is little. */
static void test_keeps_small_gains(void)
{
	const struct shape shape = { .copy = 3, .compute = 100 };
	struct fixture f;

	open_auto(&f);
	run(&f, &shape, 600);
	g_assert_cmpuint(ms_of(&f, &shape, 100), <, 101 * 100 * 101 / 100);
	fixture_close(&f);
}

/*
 * A program that asks for the next batch before it frees the one before has the second buffer itself: one more will do.
 */
static void test_two_buffers(void)
{
	static const size_t sizes[] = { 24, 10, 17, 8, 21, 14, 12 };
	struct CUstream_st *in, *compute;
	struct vpmm_stats stats;
	void *block = NULL;
	struct fixture f;
	uint64_t start;

	open_auto(&f);
	in = f.streams[IN];
	compute = f.streams[COMPUTE];
	start = vpmm_host_time();
	for (guint i = 0; i < 300; i++) {
		void *before = block;

		block = fixture_malloc(&f, sizes[i % G_N_ELEMENTS(sizes)], in);
		work(in, VPMM_HOST_COPY_IN, 10);
		if (before)
			fixture_free(&f, before, in);
		assert_ok(vpmm_host_stream_wait(compute, in));
		assert_ok(vpmm_use(f.pool, block, compute));
		work(compute, VPMM_HOST_COMPUTE, 10);
	}
	fixture_free(&f, block, in);
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint((vpmm_host_time() - start) / MS, <, 302 * 10 * 105 / 100);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.peak_mapped, <=, stats.peak_live + (24 + 2) * PAGE);
	fixture_close(&f);
}

/* How long a batch is copied in, computed with, and copied out. @need: batches at once, besides the first. */
struct phase {
	uint64_t in;
	uint64_t compute;
	uint64_t out;
	guint need;
};

static const struct phase phases[] = {
	{ .in = 1, .compute = 200, .need = 0 }, { .in = 10, .compute = 10, .out = 10, .need = 2 },
	{ .in = 1, .compute = 200, .need = 0 }, { .in = 10, .compute = 10, .need = 1 }
};

/* Kernels, and their results of one page and of two. */
#define KERNELS 6

static void compute_with(struct fixture *f, const struct phase *phase)
{
	struct CUstream_st *compute = f->streams[COMPUTE];

	for (guint i = 0; i < KERNELS; i++) {
		void *result = fixture_malloc(f, 1 + i % 2, compute);

		fixture_work(compute, VPMM_HOST_COMPUTE, phase->compute * MS / KERNELS, AHEAD);
		fixture_free(f, result, compute);
	}
}

static void run_phase(struct fixture *f, const struct phase *phase, guint batches)
{
	struct CUstream_st *in = f->streams[IN], *compute = f->streams[COMPUTE], *out = f->streams[OUT];

	while (batches--) {
		void *block = fixture_malloc(f, BLOCK / PAGE, in);

		work(in, VPMM_HOST_COPY_IN, phase->in);
		assert_ok(vpmm_host_stream_wait(compute, in));
		assert_ok(vpmm_use(f->pool, block, compute));
		compute_with(f, phase);
		if (phase->out) {
			assert_ok(vpmm_host_stream_wait(out, compute));
			assert_ok(vpmm_use(f->pool, block, out));
			work(out, VPMM_HOST_COPY_OUT, phase->out);
		}
		fixture_free(f, block, in);
	}
}

/* Ten batches after each change the program gets on as fast as it can. */
static void test_follows_within_ten_batches(void)
{
	const size_t weights = 8 * BLOCK;
	struct fixture f;
	void *block;

	open_auto(&f);
	block = fixture_malloc(&f, weights / PAGE, f.streams[IN]);
	for (guint i = 0; i < 2 * G_N_ELEMENTS(phases); i++) {
		const struct phase *phase = &phases[i % G_N_ELEMENTS(phases)];
		uint64_t start;

		run_phase(&f, phase, 10);
		start = vpmm_host_time();
		run_phase(&f, phase, 50);
		g_assert_cmpuint(vpmm_host_time() - start, <=, phase->compute * MS * 50 * 105 / 100);
		g_assert_cmpuint(fixture_stats(&f).mapped, <=, weights + 3 * BLOCK + 3 * PAGE);
	}
	fixture_free(&f, block, f.streams[IN]);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/* A program that changes its pace now and then makes the pool climb no further. */
static void test_takes_no_more_than_twice(void)
{
	struct fixture f;
	void *block;

	open_auto(&f);
	block = fixture_malloc(&f, BLOCK / PAGE, f.streams[IN]);
	for (guint phase = 0; phase < 50; phase++) {
		const struct shape shape = { .copy = 10, .compute = phase % 2 ? 10 : 30 };

		run(&f, &shape, (guint)g_test_rand_int_range(10, 100));
	}
	g_assert_cmpuint(fixture_stats(&f).peak_taken, >, fixture_stats(&f).peak_live);
	g_assert_cmpuint(fixture_stats(&f).peak_taken, <=, 2 * fixture_stats(&f).peak_live);
	fixture_free(&f, block, f.streams[IN]);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/* Leaves a small block in each page of a slab and frees the others, so that the pool holds more than its peak. */
static void pin(struct fixture *f, void **kept, guint pages)
{
	const size_t part = 32;
	char **blocks = g_new(char *, pages * part);

	for (size_t i = 0; i < pages * part; i++)
		blocks[i] = fixture_malloc_bytes(f, PAGE / part, f->streams[IN]);
	for (size_t i = 0; i < pages * part; i++) {
		if (i % part)
			assert_ok(vpmm_free(f->pool, blocks[i], f->streams[IN]));
		else
			kept[i / part] = blocks[i];
	}
	g_free(blocks);
}

/* The pool gives nothing back that each request would create again. */
static void test_gives_back_once(void)
{
	const size_t pages = 16;
	void *kept[16], *large[14];
	uint64_t maps;
	struct fixture f;

	open_auto(&f);
	pin(&f, kept, pages);
	for (size_t i = 0; i < G_N_ELEMENTS(large); i++)
		large[i] = fixture_malloc(&f, 1, f.streams[IN]);
	run(&f, &ahead, 400);
	assert_ok(vpmm_host_time_finish());
	maps = fixture_stats(&f).maps;
	for (guint i = 0; i < 100; i++) {
		run(&f, &ahead, 1);
		assert_ok(vpmm_host_time_finish());
	}
	g_assert_cmpuint(fixture_stats(&f).maps - maps, <, 100);
	for (size_t i = 0; i < G_N_ELEMENTS(large); i++)
		fixture_free(&f, large[i], f.streams[IN]);
	for (size_t i = 0; i < pages; i++)
		fixture_free(&f, kept[i], f.streams[IN]);
	fixture_close(&f);
}

static void test_one_stream_takes_no_more(void)
{
	struct fixture f;

	open_auto(&f);
	for (guint i = 0; i < 400; i++) {
		void *block = fixture_malloc(&f, BLOCK / PAGE, f.streams[IN]);

		work(f.streams[IN], VPMM_HOST_COMPUTE, 10);
		fixture_free(&f, block, f.streams[IN]);
	}
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, ==, BLOCK);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/* A device that cannot tell the time. */
static void test_without_time(gconstpointer data)
{
	struct fixture f;

	open_auto(&f);
	backend_fault_arm(f.pool->core.backend, (enum backend_op)GPOINTER_TO_INT(data), 0, UINT_MAX, -EIO);
	g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 102 * 10 * 105 / 100);
	backend_fault_arm(f.pool->core.backend, (enum backend_op)GPOINTER_TO_INT(data), 0, 0, 0);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/* The log and the statistics tell what it came to. */
static void test_tells(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_AUTO,
					     .log_level = VPMM_LOG_INFO });
	g_assert_cmpuint(fixture_stats(&f).overlap, ==, 0);
	run(&f, &prefetch, 400);
	g_assert_cmpuint(fixture_stats(&f).overlap, >=, BLOCK);
	g_assert_cmpuint(fixture_stats(&f).overlap, <=, 2 * BLOCK);
	g_assert_nonnull(strstr(f.log->str, "bytes over the peak"));
	/* Once, as nothing changed by much. */
	g_assert_true(strstr(f.log->str, "overlap: ") == g_strrstr(f.log->str, "overlap: "));
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/overlap-auto/learns-at-once", test_learns_at_once);
	g_test_add_func("/overlap-auto/learns-far-ahead", test_learns_far_ahead);
	g_test_add_func("/overlap-auto/beside-large", test_beside_large_blocks);
	g_test_add_func("/overlap-auto/after-large-waits", test_after_large_waits);
	g_test_add_func("/overlap-auto/small-gains", test_keeps_small_gains);
	g_test_add_func("/overlap-auto/two-buffers", test_two_buffers);
	g_test_add_func("/overlap-auto/ten-batches", test_follows_within_ten_batches);
	g_test_add_func("/overlap-auto/gives-back-once", test_gives_back_once);
	g_test_add_func("/overlap-auto/twice", test_takes_no_more_than_twice);
	g_test_add_func("/overlap-auto/one-stream", test_one_stream_takes_no_more);
	g_test_add_func("/overlap-auto/tells", test_tells);
	g_test_add_data_func("/overlap-auto/no-event", GINT_TO_POINTER(BACKEND_OP_event_create_timed), test_without_time);
	g_test_add_data_func("/overlap-auto/no-time", GINT_TO_POINTER(BACKEND_OP_event_elapsed), test_without_time);
	return g_test_run();
}
