// SPDX-License-Identifier: LGPL-2.1-or-later
/* Programs that overlap in ways of their own get on as fast as they can. Times are those of the virtual clock. */
#include <inttypes.h>

#include "support/fixture.h"
#include "support/setting.h"

#define MS UINT64_C(1000000)

/* How long a copy of a batch takes, and the work with it. */
#define STEP (10 * MS)

/* The host of a program is this many pieces of work ahead of its device. */
#define AHEAD 8

#define BATCHES 200

enum { IN, COMPUTE, OUT };

/* A batch of a program, without a wait on the host but for work that is far behind. */
typedef void (*batch_fn)(struct fixture *f);

struct program {
	const char *name;
	int overlap;
	batch_fn batch;
	uint64_t ms;		/* that a batch needs */
	size_t pages;		/* that it has for good */
};

static void work(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns)
{
	fixture_work(stream, engine, ns, AHEAD);
}

/* Copies what a batch has, and computes with it on another stream. */
static void copy_and_compute(struct fixture *f, struct CUstream_st *in, const size_t *sizes, size_t count)
{
	struct CUstream_st *compute = f->streams[COMPUTE];
	void *blocks[4];

	for (size_t i = 0; i < count; i++)
		assert_ok(vpmm_malloc(f->pool, &blocks[i], sizes[i], in));
	work(in, VPMM_HOST_COPY_IN, STEP);
	assert_ok(vpmm_host_stream_wait(compute, in));
	for (size_t i = 0; i < count; i++)
		assert_ok(vpmm_use(f->pool, blocks[i], compute));
	work(compute, VPMM_HOST_COMPUTE, STEP);
	for (size_t i = 0; i < count; i++)
		assert_ok(vpmm_free(f->pool, blocks[i], in));
}

/* One more of either alone is no gain. */
static void two_blocks(struct fixture *f)
{
	static const size_t sizes[] = { 32 * PAGE, 2 * PAGE };

	copy_and_compute(f, f->streams[IN], sizes, G_N_ELEMENTS(sizes));
}

static void four_blocks(struct fixture *f)
{
	static const size_t sizes[] = { 8 * PAGE, 8 * PAGE, 8 * PAGE, 8 * PAGE };

	copy_and_compute(f, f->streams[IN], sizes, G_N_ELEMENTS(sizes));
}

/* Labels that share a page with others. */
static void small_block(struct fixture *f)
{
	static const size_t sizes[] = { 32 * PAGE, PAGE / 20 };

	copy_and_compute(f, f->streams[IN], sizes, G_N_ELEMENTS(sizes));
}

/* The last page of a block that is all there is lies over the peak. Another block is as large. */
static void odd_block(struct fixture *f)
{
	static const size_t size = 21 * PAGE / 4;

	copy_and_compute(f, f->streams[IN], &size, 1);
}

static void new_stream(struct fixture *f)
{
	static const size_t size = 32 * PAGE;
	struct CUstream_st *in;

	assert_ok(vpmm_host_stream_create(&in));
	copy_and_compute(f, in, &size, 1);
	assert_ok(vpmm_stream_retire(f->pool, in));
	assert_ok(vpmm_host_stream_destroy(in));
}

static void work_alone(struct fixture *f, int stream, enum vpmm_host_engine engine)
{
	static const size_t sizes[] = { 5 * PAGE, 5 * PAGE, 4 * PAGE, 7 * PAGE / 2 };
	void *blocks[G_N_ELEMENTS(sizes)];

	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
		assert_ok(vpmm_malloc(f->pool, &blocks[i], sizes[i], f->streams[stream]));
	work(f->streams[stream], engine, STEP);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
		assert_ok(vpmm_free(f->pool, blocks[i], f->streams[stream]));
}

/* Streams that have nothing to do with each other, but the memory of a pool. What it has from the start is a gain. */
static void strangers(struct fixture *f)
{
	work_alone(f, IN, VPMM_HOST_COPY_IN);
	work_alone(f, COMPUTE, VPMM_HOST_COMPUTE);
	work_alone(f, OUT, VPMM_HOST_COPY_OUT);
}

static const struct program programs[] = {
	{ "two-blocks", VPMM_OVERLAP_AUTO, two_blocks, 10 },
	{ "four-blocks", VPMM_OVERLAP_AUTO, four_blocks, 10 },
	{ "small-block", 100, small_block, 10, .pages = 50 },
	{ "odd-block", VPMM_OVERLAP_AUTO, odd_block, 10 },
	{ "new-stream", VPMM_OVERLAP_AUTO, new_stream, 10 },
	{ "strangers", VPMM_OVERLAP_AUTO, strangers, 15, .pages = 50 },
};

/* For good, and not only at first. */
static void test_program(gconstpointer data)
{
	const struct program *program = data;
	struct fixture f;
	uint64_t start;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = program->overlap });
	if (program->pages)
		fixture_malloc(&f, program->pages, f.streams[IN]);
	for (int i = 0; i < 3 * BATCHES; i++)
		program->batch(&f);
	for (int pass = 0; pass < 4; pass++) {
		assert_ok(vpmm_host_time_finish());
		start = vpmm_host_time();
		for (int i = 0; i < BATCHES; i++)
			program->batch(&f);
		assert_ok(vpmm_host_time_finish());
		g_test_message("%" PRIu64 " ms", (vpmm_host_time() - start) / MS);
		g_assert_cmpuint((vpmm_host_time() - start) / MS, <=, BATCHES * program->ms * 110 / 100);
	}
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, 2 * fixture_stats(&f).peak_live + 2 * PAGE);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/overlap-programs", programs, test_program);
	return g_test_run();
}
