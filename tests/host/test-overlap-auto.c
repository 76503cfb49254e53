// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_OVERLAP=auto: as little memory as it takes for waiting to cost no time. Times are those of the virtual clock. */
#include "backend/backend.h"
#include "calls/pool.h"
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

static void work_for(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns)
{
	fixture_work(stream, engine, ns, AHEAD);
}

static void work(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ms)
{
	work_for(stream, engine, ms * MS);
}

/* One stream copies a batch, another computes with it. */
static void run(struct fixture *f, const struct shape *shape, guint batches)
{
	struct CUstream_st *in = f->streams[IN], *compute = f->streams[COMPUTE];

	while (batches--) {
		void *block = fixture_malloc(f, BLOCK / PAGE, in);

		work(in, VPMM_HOST_COPY_IN, shape->copy);
		assert_ok(vpmm_host_stream_wait(compute, in));
		assert_ok(vpmm_use(f->pool, block, compute));
		work(compute, VPMM_HOST_COMPUTE, shape->compute);
		fixture_free(f, block, in);
	}
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

/* A batch more lets the copy of one and the computing with another take place at once. */
static void test_finds_what_it_takes(void)
{
	struct fixture f;

	open_auto(&f);
	g_assert_cmpuint(ms_of(&f, &prefetch, 20), >=, 20 * 20);
	run(&f, &prefetch, 400);
	g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 101 * 10 * 105 / 100);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, <=, 3 * BLOCK);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

/* A program that repeats itself is measured however much it has allocated for good. */
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
	run(&f, &ahead, 400);
	run(&f, &prefetch, 1000);
	g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 101 * 10 * 105 / 100);
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, pages * PAGE + 3 * BLOCK);
	fixture_free(&f, large, f.streams[IN]);
	fixture_close(&f);
}

/* A step of a hundred requests: batches, and now and then a block of another size. */
static void run_step(struct fixture *f)
{
	static const size_t pages[] = { 1, 2, 3, 5 };

	for (size_t i = 0; i < G_N_ELEMENTS(pages); i++) {
		run(f, &prefetch, 24);
		fixture_free(f, fixture_malloc(f, pages[i], f->streams[IN]), f->streams[IN]);
	}
}

/* Where an epoch ends within a step, the batches behind it are not taken for steps. */
static void test_knows_steps_behind_breaks(void)
{
	const struct windows *windows;
	struct fixture f;

	open_auto(&f);
	windows = &f.pool->packed.allowance.windows;
	for (guint epoch = 0; epoch < 6; epoch++) {
		for (guint step = 0; step < 10; step++) {
			run_step(&f);
			if (epoch)
				g_assert_cmpuint(windows->length, >=, 100);
		}
		run(&f, &prefetch, 15);
	}
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/* Streams that stand, but lose no time by it, are given no memory for long. */
static void test_gives_back_what_is_no_gain(void)
{
	struct fixture f;

	open_auto(&f);
	run(&f, &ahead, 1000);
	g_assert_cmpuint(fixture_stats(&f).wait_ns, >, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, BLOCK);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/* Nor are they tried with more than a block, however much the program has besides. */
static void test_tries_block_by_block(void)
{
	const size_t pages = 400;
	struct fixture f;
	void *large;

	open_auto(&f);
	large = fixture_malloc(&f, pages, f.streams[IN]);
	run(&f, &ahead, 2000);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, >, pages * PAGE + BLOCK);
	/* With a page for what a block shares with others. */
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, <=, pages * PAGE + 2 * BLOCK + PAGE);
	fixture_free(&f, large, f.streams[IN]);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/* A program whose batches take an eighth longer at first, 150 of them. Returns the least that its pool held later. */
static size_t least_behind_slow_start(GRand *rand)
{
	size_t least = SIZE_MAX;
	struct fixture f;

	open_auto(&f);
	for (guint batch = 0; batch < 800; batch++) {
		struct shape shape = { .copy = 1 };

		shape.compute = (uint64_t)g_rand_int_range(rand, 1, batch < 150 ? 450 : 400);
		run(&f, &shape, 1);
		if (batch >= 400)
			least = MIN(least, fixture_stats(&f).mapped);
	}
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
	return least;
}

/* That batches take less time behind the start is taken for a gain in fewer than half of the programs. */
static void test_sees_a_slow_start(void)
{
	const guint programs = 20;
	guint kept = 0;

	for (guint32 seed = 0; seed < programs; seed++) {
		GRand *rand = g_rand_new_with_seed(seed);

		kept += least_behind_slow_start(rand) > BLOCK;
		g_rand_free(rand);
	}
	g_assert_cmpuint(kept, <, programs / 2);
}

/* What waiting costs is little, but more than what a trial may be wrong by. */
static void test_keeps_small_gains(void)
{
	const struct shape shape = { .copy = 3, .compute = 100 };
	struct fixture f;

	open_auto(&f);
	run(&f, &shape, 600);
	g_assert_cmpuint(ms_of(&f, &shape, 100), <, 101 * 100 * 101 / 100);
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

		work_for(compute, VPMM_HOST_COMPUTE, phase->compute * MS / KERNELS);
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

/* Fifty batches after each change the program has what it needs, and gets on as fast as it can. */
static void test_follows_within_fifty_batches(void)
{
	const size_t weights = 8 * BLOCK, least = weights + BLOCK + 2 * PAGE;
	struct fixture f;
	void *block;

	open_auto(&f);
	block = fixture_malloc(&f, weights / PAGE, f.streams[IN]);
	for (guint i = 0; i < 5 * G_N_ELEMENTS(phases); i++) {
		const struct phase *phase = &phases[i % G_N_ELEMENTS(phases)];
		uint64_t start;

		run_phase(&f, phase, 50);
		g_assert_cmpuint(fixture_stats(&f).mapped, <=, least + phase->need * (BLOCK + PAGE));
		start = vpmm_host_time();
		run_phase(&f, phase, 50);
		g_assert_cmpuint(vpmm_host_time() - start, <=, phase->compute * MS * 50 * 105 / 100);
		run_phase(&f, phase, 100);
	}
	fixture_free(&f, block, f.streams[IN]);
	assert_ok(vpmm_host_time_finish());
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

/* The end of an epoch makes two windows slow. It does not make another program: nothing is tried anew. */
static void test_knows_epochs(void)
{
	const struct shape slow = { .copy = 15, .compute = 15 };
	uint64_t start;
	struct fixture f;

	open_auto(&f);
	run(&f, &prefetch, 600);
	assert_ok(vpmm_host_time_finish());
	start = vpmm_host_time();
	for (guint epoch = 0; epoch < 10; epoch++) {
		run(&f, &prefetch, 100);
		run(&f, &slow, 8);
	}
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint((vpmm_host_time() - start) / MS, <=, 10 * (100 * 10 + 8 * 15) * 102 / 100);
	fixture_close(&f);
}

static void test_follows_the_program(void)
{
	struct fixture f;

	open_auto(&f);
	for (guint turn = 0; turn < 3; turn++) {
		run(&f, &ahead, 600);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, BLOCK);
		run(&f, &prefetch, 600);
		g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 101 * 10 * 105 / 100);
	}
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

/* Wherever the pool was in its trials when the program changed. */
static void test_follows_at_any_time(void)
{
	for (guint batches = 0; batches < 200; batches += 200 / setting_at_most("VPMM_TEST_SEEDS", 25)) {
		struct fixture f;

		open_auto(&f);
		run(&f, &ahead, 400 + batches);
		run(&f, &prefetch, 600);
		run(&f, &ahead, 600);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, BLOCK);
		assert_ok(vpmm_host_time_finish());
		fixture_close(&f);
	}
}

/* A program that does nothing for an hour, at any time, gets what it needs all the same. */
static void test_outlasts_a_break(void)
{
	for (guint batches = 0; batches < 200; batches += 200 / setting_at_most("VPMM_TEST_SEEDS", 25)) {
		struct fixture f;

		open_auto(&f);
		run(&f, &prefetch, batches);
		assert_ok(vpmm_host_time_finish());
		assert_ok(vpmm_host_time_pass((uint64_t)3600 * 1000 * MS));
		run(&f, &prefetch, 4000);
		g_assert_cmpuint(ms_of(&f, &prefetch, 100), <, 101 * 10 * 105 / 100);
		fixture_close(&f);
	}
}

/* A program that changes its pace now and then, by chance together with trials, makes the pool climb no further. */
static void test_takes_no_more_than_twice(void)
{
	struct fixture f;
	void *block;

	open_auto(&f);
	block = fixture_malloc(&f, BLOCK / PAGE, f.streams[IN]);
	for (guint phase = 0; phase < 200; phase++) {
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

/* A trial gives back what it has taken, and nothing that each request would create again. */
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

/* A device that cannot tell the time: nothing is tried, and nothing fails. */
static void test_without_time(gconstpointer data)
{
	struct fixture f;

	open_auto(&f);
	backend_fault_arm(f.pool->core.backend, (enum backend_op)GPOINTER_TO_INT(data), 0, UINT_MAX, -EIO);
	run(&f, &prefetch, 200);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, ==, BLOCK);
	backend_fault_arm(f.pool->core.backend, (enum backend_op)GPOINTER_TO_INT(data), 0, 0, 0);
	assert_ok(vpmm_host_time_finish());
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/overlap-auto/finds", test_finds_what_it_takes);
	g_test_add_func("/overlap-auto/beside-large", test_beside_large_blocks);
	g_test_add_func("/overlap-auto/after-large-waits", test_after_large_waits);
	g_test_add_func("/overlap-auto/steps", test_knows_steps_behind_breaks);
	g_test_add_func("/overlap-auto/no-gain", test_gives_back_what_is_no_gain);
	g_test_add_func("/overlap-auto/block-by-block", test_tries_block_by_block);
	g_test_add_func("/overlap-auto/slow-start", test_sees_a_slow_start);
	g_test_add_func("/overlap-auto/small-gains", test_keeps_small_gains);
	g_test_add_func("/overlap-auto/fifty-batches", test_follows_within_fifty_batches);
	g_test_add_func("/overlap-auto/epochs", test_knows_epochs);
	g_test_add_func("/overlap-auto/follows", test_follows_the_program);
	g_test_add_func("/overlap-auto/follows-at-any-time", test_follows_at_any_time);
	g_test_add_func("/overlap-auto/break", test_outlasts_a_break);
	g_test_add_func("/overlap-auto/gives-back-once", test_gives_back_once);
	g_test_add_func("/overlap-auto/twice", test_takes_no_more_than_twice);
	g_test_add_func("/overlap-auto/one-stream", test_one_stream_takes_no_more);
	g_test_add_data_func("/overlap-auto/no-event", GINT_TO_POINTER(BACKEND_OP_event_create_timed), test_without_time);
	g_test_add_data_func("/overlap-auto/no-time", GINT_TO_POINTER(BACKEND_OP_event_elapsed), test_without_time);
	return g_test_run();
}
