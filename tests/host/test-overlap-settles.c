// SPDX-License-Identifier: LGPL-2.1-or-later
/* Programs whose streams overlap: one that repeats itself stops mapping. Times are those of the virtual clock. */
#include "backend/backend.h"
#include "calls/pool.h"
#include "host/cache-fixture.h"
#include "support/fault.h"
#include "support/fixture.h"

#define MS 1000000

/* The host of a program is this many pieces of work ahead of its device. */
#define AHEAD 64

#define BATCHES 100

enum { IN, COMPUTE, BOTH };

struct program {
	struct CUstream_st *streams[BOTH];
	size_t sizes[BATCHES];
};

/* Whole pages and a part of one, so that hardly two batches are of the same size. */
static void plan(struct program *p)
{
	GRand *rand = g_rand_new_with_seed(1);

	for (guint i = 0; i < BATCHES; i++)
		p->sizes[i] = (size_t)g_rand_int_range(rand, PAGE, 3 * PAGE) & ~(size_t)511;
	g_rand_free(rand);
}

static void open_streams(struct program *p)
{
	for (int i = 0; i < BOTH; i++)
		assert_ok(vpmm_host_stream_create(&p->streams[i]));
}

static void close_streams(struct program *p)
{
	for (int i = 0; i < BOTH; i++)
		assert_ok(vpmm_host_stream_destroy(p->streams[i]));
}

static void work(struct CUstream_st *stream, enum vpmm_host_engine engine)
{
	unsigned int pending;

	assert_ok(vpmm_host_stream_pending(stream, &pending));
	if (pending >= AHEAD)
		assert_ok(vpmm_host_stream_complete(stream, pending - AHEAD + 1));
	assert_ok(vpmm_host_stream_submit_for(stream, engine, 10 * MS));
}

/* Each batch is copied by one stream while the other computes with the one before. */
static void run(struct fixture *f, const struct program *p)
{
	struct CUstream_st *in = p->streams[IN], *compute = p->streams[COMPUTE];

	for (guint i = 0; i < BATCHES; i++) {
		void *batch, *half;

		assert_ok(vpmm_malloc(f->pool, &batch, p->sizes[i], in));
		work(in, VPMM_HOST_COPY_IN);
		assert_ok(vpmm_host_stream_wait(compute, in));
		assert_ok(vpmm_use(f->pool, batch, compute));
		assert_ok(vpmm_malloc(f->pool, &half, p->sizes[i] / 2, compute));
		work(compute, VPMM_HOST_COMPUTE);
		assert_ok(vpmm_free(f->pool, half, compute));
		assert_ok(vpmm_free(f->pool, batch, in));
	}
	assert_ok(vpmm_host_time_finish());
}

/* Whatever streams it is: those of an epoch are gone in the next. */
static void test_new_streams(void)
{
	static struct program p;
	struct vpmm_stats before;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .overlap = 200 });
	plan(&p);
	for (int pass = 0; pass < 80; pass++) {
		before = fixture_stats(&f);
		open_streams(&p);
		run(&f, &p);
		close_streams(&p);
		if (pass >= 8)
			g_assert_cmpuint(fixture_stats(&f).maps, ==, before.maps);
	}
	fixture_close(&f);
}

#define PIECES 240

/* All but one of many blocks of a page are free, so that a large block has to be mapped from as many pieces. */
static void free_pieces(struct fixture *f)
{
	void *blocks[PIECES + 1];

	fixture_uncache(f);
	fixture_free(f, fixture_malloc(f, 1, f->streams[1]), f->streams[1]);
	for (int i = 0; i <= PIECES; i++)
		blocks[i] = fixture_malloc(f, 1, f->streams[0]);
	for (int i = 0; i <= PIECES; i++) {
		if (i != PIECES / 2)
			fixture_free(f, blocks[i], f->streams[0]);
	}
}

/*
 * A few large extents take the place of the pieces, so that whoever has the memory next makes few driver calls. A query
 * foresees that.
 */
static void test_many_pieces(void)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct vpmm_stats before;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = 100 });
	free_pieces(&f);
	assert_ok(vpmm_pool_query(f.pool, PIECES * PAGE, f.streams[0], &forecast));
	before = fixture_stats(&f);
	fixture_malloc(&f, PIECES, f.streams[0]);
	g_assert_cmpint(forecast.way, ==, VPMM_WAY_GROW);
	g_assert_cmpuint(forecast.grown, ==, fixture_stats(&f).grown - before.grown);
	g_assert_cmpuint(forecast.remapped, ==, fixture_stats(&f).remapped - before.remapped);
	g_assert_cmpuint(fixture_stats(&f).maps, <, before.maps + PIECES / 2);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, before.mapped);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, ==, before.peak_mapped);
	fixture_close(&f);
}

/* A second malloc succeeds after any driver call has failed in the first. */
static void test_many_pieces_fail(const void *data)
{
	static const enum backend_op ops[] = { BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access, BACKEND_OP_unmap,
					       BACKEND_OP_release };
	const size_t op = GPOINTER_TO_SIZE(data);
	struct fixture f;
	void *ptr = NULL;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = 100 });
	free_pieces(&f);
	backend_fault_arm(f.pool->core.backend, ops[op], PIECES / 8, 1, op ? -EIO : -ENOMEM);
	if (vpmm_malloc(f.pool, &ptr, PIECES * PAGE, f.streams[0]))
		g_assert_null(ptr);
	backend_fault_arm(f.pool->core.backend, ops[op], 0, 0, 0);
	assert_ok(vpmm_pool_check(f.pool));
	if (!ptr)
		fixture_malloc(&f, PIECES, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, (PIECES + 1) * PAGE);
	fixture_close(&f);
}

/* Without more memory to take rather than wait, small extents pin the least, and stay. */
static void test_many_pieces_stay(void)
{
	struct vpmm_stats before;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	free_pieces(&f);
	before = fixture_stats(&f);
	fixture_malloc(&f, PIECES, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).releases, ==, before.releases);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "create", "map", "access", "unmap", "release" };

	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/overlap-settles/new-streams", test_new_streams);
	g_test_add_func("/overlap-settles/many-pieces", test_many_pieces);
	g_test_add_func("/overlap-settles/many-pieces-stay", test_many_pieces_stay);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *path = g_strdup_printf("/overlap-settles/many-pieces-fail/%s", names[i]);

		g_test_add_data_func(path, GSIZE_TO_POINTER(i), test_many_pieces_fail);
	}
	return g_test_run();
}
