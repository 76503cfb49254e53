// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_OVERLAP: more memory instead of waiting, and what streams wait for. Times are those of the virtual clock. */
#include <stdlib.h>

#include "calls/pool.h"
#include "host/cache-fixture.h"
#include "support/fixture.h"
#include "support/setting.h"

#define MS 1000000

static void open_uncached(struct fixture *f, int overlap)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = overlap });
	fixture_uncache(f);
}

static void work(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ms)
{
	assert_ok(vpmm_host_stream_submit_for(stream, engine, ms * MS));
}

/* One stream computes with a block and frees it; another asks for one of the same size, and copies into it. */
static uint64_t copy_behind_kernel(struct fixture *f, size_t pages)
{
	uint64_t start = vpmm_host_time();
	void *block;

	block = fixture_malloc(f, pages, f->streams[0]);
	work(f->streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(f, block, f->streams[0]);
	block = fixture_malloc(f, pages, f->streams[1]);
	work(f->streams[1], VPMM_HOST_COPY_IN, 10);
	assert_ok(vpmm_host_time_finish());
	fixture_free(f, block, f->streams[1]);
	return (vpmm_host_time() - start) / MS;
}

static void test_waits_instead(void)
{
	struct fixture f;

	open_uncached(&f, VPMM_OVERLAP_NONE);
	g_assert_cmpuint(copy_behind_kernel(&f, 4), ==, 20);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, ==, 4 * PAGE);
	fixture_close(&f);
}

static void test_takes_more_instead(void)
{
	struct fixture f;

	open_uncached(&f, 100);
	g_assert_cmpuint(copy_behind_kernel(&f, 4), ==, 10);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, ==, 8 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

/* What a trim leaves because work is pending on it is no peak, to which as much could be added again. */
static void test_trims_add_nothing(void)
{
	struct fixture f;

	open_uncached(&f, 100);
	for (int i = 0; i < 8; i++) {
		copy_behind_kernel(&f, 4);
		for (int k = 0; k < 4; k++) {
			void *ptr = fixture_malloc(&f, 4, f.streams[k % 2]);

			work(f.streams[k % 2], VPMM_HOST_COMPUTE, 10);
			fixture_free(&f, ptr, f.streams[k % 2]);
		}
		assert_ok(vpmm_pool_trim(f.pool, SIZE_MAX, NULL));
	}
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, >, fixture_stats(&f).peak_live);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, <=, 2 * fixture_stats(&f).peak_live);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

static void test_one_stream_takes_no_more(void)
{
	struct fixture f;

	open_uncached(&f, 100);
	for (int i = 0; i < 10; i++) {
		void *block = fixture_malloc(&f, 4, f.streams[0]);

		work(f.streams[0], VPMM_HOST_COMPUTE, 10);
		fixture_free(&f, block, f.streams[0]);
	}
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, ==, 4 * PAGE);
	fixture_close(&f);
}

/* What is complete comes before new memory. */
static void test_complete_memory_is_taken_first(void)
{
	struct fixture f;
	void *block;

	open_uncached(&f, 100);
	block = fixture_malloc(&f, 4, f.streams[0]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(&f, block, f.streams[0]);
	assert_ok(vpmm_host_time_finish());
	fixture_malloc(&f, 4, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).peak_mapped, ==, 4 * PAGE);
	fixture_close(&f);
}

/* Two blocks of two pages, one behind the other. */
static void malloc_neighbours(struct fixture *f, char **low, char **high)
{
	void *both = fixture_malloc(f, 4, f->streams[0]);

	fixture_free(f, both, f->streams[0]);
	*low = fixture_malloc(f, 2, f->streams[0]);
	*high = fixture_malloc(f, 2, f->streams[0]);
	g_assert_true(*low == both && *high == *low + 2 * PAGE);
}

/* They are freed one after the other, with a kernel between. No more may be created than there is. */
static void test_waits_for_the_oldest(void)
{
	struct fixture f;
	char *early, *late;

	open_uncached(&f, 1);
	/* What a single stream frees merges, as nobody is to wait for it. */
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[1]), f.streams[1]);
	malloc_neighbours(&f, &early, &late);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(&f, early, f.streams[0]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(&f, late, f.streams[0]);
	fixture_malloc(&f, 2, f.streams[1]);
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1);
	g_assert_cmpuint(fixture_stats(&f).wait_ns, ==, 10 * MS);
	fixture_close(&f);
}

/* Their own stream does not wait for either, and needs no driver call to have both. */
static void test_neighbours_serve_one_block(void)
{
	struct fixture f;
	char *early, *late;
	uint64_t maps;

	open_uncached(&f, 1);
	fixture_malloc(&f, 1, f.streams[1]);
	malloc_neighbours(&f, &early, &late);
	maps = fixture_stats(&f).maps;
	work(f.streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(&f, early, f.streams[0]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(&f, late, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 4, f.streams[0]) == early);
	g_assert_cmpuint(fixture_stats(&f).maps, ==, maps);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

/* Pages that lie apart are free, and two in one piece are not yet. */
struct pieces {
	struct fixture f;
	void *whole;
	void *churn;
};

static void open_pieces(struct pieces *p, enum vpmm_reuse reuse)
{
	struct fixture *f = &p->f;
	void *apart[4];

	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = 1, .reuse = reuse });
	fixture_uncache(f);
	/* Ages are known once there is a second stream. */
	fixture_free(f, fixture_malloc(f, 1, f->streams[1]), f->streams[1]);
	for (int i = 0; i < 4; i++)
		apart[i] = fixture_malloc(f, 1, f->streams[0]);
	p->whole = fixture_malloc(f, 2, f->streams[0]);
	p->churn = fixture_malloc(f, 1, f->streams[0]);
	work(f->streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(f, apart[0], f->streams[0]);
	fixture_free(f, apart[2], f->streams[0]);
}

/* So many kernels, with an event behind each. */
static void run_kernels(struct pieces *p, int count)
{
	while (count--) {
		work(p->f.streams[0], VPMM_HOST_COMPUTE, 10);
		fixture_free(&p->f, p->churn, p->f.streams[0]);
		p->churn = fixture_malloc(&p->f, 1, p->f.streams[0]);
	}
}

/* A block of old pieces that lie apart, rather than what was freed just now in one piece. */
static void test_remaps_what_is_older(void)
{
	struct pieces p;

	open_pieces(&p, VPMM_REUSE_ASYNC);
	run_kernels(&p, 10);
	fixture_free(&p.f, p.whole, p.f.streams[0]);
	fixture_malloc(&p.f, 2, p.f.streams[1]);
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint(fixture_stats(&p.f).wait_ns, ==, 10 * MS);
	fixture_close(&p.f);
}

/* The pieces are complete; a kernel runs in the whole, and so many behind it. Return: how often it is waited for. */
static uint64_t waits_beside_pieces(enum vpmm_reuse reuse, int behind)
{
	struct pieces p;
	uint64_t waits;

	open_pieces(&p, reuse);
	assert_ok(vpmm_host_time_finish());
	work(p.f.streams[0], VPMM_HOST_COMPUTE, 10);
	fixture_free(&p.f, p.whole, p.f.streams[0]);
	run_kernels(&p, behind);
	waits = fixture_stats(&p.f).waits;
	fixture_malloc(&p.f, 2, p.f.streams[1]);
	waits = fixture_stats(&p.f).waits - waits;
	assert_ok(vpmm_host_time_finish());
	fixture_close(&p.f);
	return waits;
}

/* What is complete soon is waited for rather than remap; but not what has just begun, and not by the host itself. */
static void test_waits_for_what_is_nearly_complete(void)
{
	g_assert_cmpuint(waits_beside_pieces(VPMM_REUSE_ASYNC, 0), ==, 0);
	g_assert_cmpuint(waits_beside_pieces(VPMM_REUSE_ASYNC, 20), ==, 1);
	g_assert_cmpuint(waits_beside_pieces(VPMM_REUSE_BLOCK, 20), ==, 0);
}

/* Bytes that a random program of four streams has live at most, and what the pool held at most. */
static void run_random(struct fixture *f, GRand *rand, unsigned int steps)
{
	void *blocks[32] = { NULL };
	int owners[32];

	for (unsigned int i = 0; i < steps; i++) {
		int slot = g_rand_int_range(rand, 0, 32), s = g_rand_int_range(rand, 0, STREAMS);

		if (blocks[slot]) {
			fixture_free(f, blocks[slot], f->streams[owners[slot]]);
			blocks[slot] = NULL;
			continue;
		}
		blocks[slot] = fixture_malloc(f, (size_t)g_rand_int_range(rand, 1, 12), f->streams[s]);
		owners[slot] = s;
		work(f->streams[s], g_rand_boolean(rand) ? VPMM_HOST_COMPUTE : VPMM_HOST_COPY_IN, 1);
		if (!g_rand_int_range(rand, 0, 50))
			assert_ok(vpmm_host_time_pass(20 * MS));
	}
}

/* All blocks are of whole pages, so nothing but VPMM_OVERLAP has the pool hold more than its peak. */
static void test_holds_no_more_than_it_may(gconstpointer data)
{
	int overlap = GPOINTER_TO_INT(data);

	for (guint32 seed = 0; seed < setting_at_most("VPMM_TEST_SEEDS", 20); seed++) {
		GRand *rand = g_rand_new_with_seed(seed);
		struct vpmm_stats stats;
		struct fixture f;

		open_uncached(&f, overlap);
		run_random(&f, rand, 400);
		stats = fixture_stats(&f);
		g_test_message("seed %u: live %zu, held %zu", seed, (size_t)stats.peak_live, (size_t)stats.peak_mapped);
		g_assert_cmpuint(stats.peak_mapped, <=, stats.peak_live / 100 * (100 + (uint64_t)overlap) + PAGE);
		fixture_close(&f);
		g_rand_free(rand);
	}
}

/* Other streams' work is pending on what is free: a growable block takes more memory, too, and nothing is lost. */
static void test_growable(void)
{
	struct fixture f;
	void *ptr, *pending;

	open_uncached(&f, 100);
	pending = fixture_malloc(&f, 4, f.streams[1]);
	assert_ok(vpmm_malloc_growable(f.pool, &ptr, PAGE, 8 * PAGE, f.streams[0]));
	work(f.streams[1], VPMM_HOST_COMPUTE, 10);
	fixture_free(&f, pending, f.streams[1]);
	assert_ok(vpmm_realloc(f.pool, &ptr, 5 * PAGE, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 9 * PAGE);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, ptr, f.streams[0]);
	assert_ok(vpmm_host_time_finish());
	fixture_close(&f);
}

/*
 * How many extents are looked at while a stream is served ten times, beside so many that another stream has freed and
 * works on, and the first time apart, when these are new to the search.
 */
static uint64_t looks_beside(unsigned int extents)
{
	void **blocks = g_new(void *, extents), *ptr;
	const struct ready *ready;
	struct fixture f;
	uint64_t before;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .overlap = 50 });
	ready = &f.pool->core.extents.ready;
	for (unsigned int i = 0; i < extents; i++)
		assert_ok(vpmm_malloc(f.pool, &blocks[i], PAGE, f.streams[0]));
	assert_ok(vpmm_malloc(f.pool, &ptr, 1, f.streams[1]));
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	for (unsigned int i = 0; i < extents; i++)
		assert_ok(vpmm_free(f.pool, blocks[i], f.streams[0]));
	fixture_malloc_bytes(&f, PAGE + PAGE / 2, f.streams[1]);
	g_assert_cmpuint(ready->pending.length, >, extents / 2);
	before = ready->looks;
	for (unsigned int i = 1; i <= 10; i++)
		fixture_malloc_bytes(&f, PAGE + PAGE / 2 + i * 4096, f.streams[1]);
	before = ready->looks - before;
	fixture_complete(f.streams[0]);
	fixture_close(&f);
	g_free(blocks);
	return before;
}

static void test_looks_at_few(void)
{
	uint64_t few = looks_beside(40);

	g_assert_cmpuint(few, >, 0);
	g_assert_cmpuint(looks_beside(320), <=, few + 10);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/overlap/waits-instead", test_waits_instead);
	g_test_add_func("/overlap/takes-more", test_takes_more_instead);
	g_test_add_func("/overlap/trims", test_trims_add_nothing);
	g_test_add_func("/overlap/one-stream", test_one_stream_takes_no_more);
	g_test_add_func("/overlap/complete-first", test_complete_memory_is_taken_first);
	g_test_add_func("/overlap/oldest", test_waits_for_the_oldest);
	g_test_add_func("/overlap/neighbours", test_neighbours_serve_one_block);
	g_test_add_func("/overlap/remaps", test_remaps_what_is_older);
	g_test_add_func("/overlap/nearly-complete", test_waits_for_what_is_nearly_complete);
	g_test_add_func("/overlap/growable", test_growable);
	g_test_add_func("/overlap/looks-at-few", test_looks_at_few);
	g_test_add_data_func("/overlap/bound/1", GINT_TO_POINTER(1), test_holds_no_more_than_it_may);
	g_test_add_data_func("/overlap/bound/50", GINT_TO_POINTER(50), test_holds_no_more_than_it_may);
	g_test_add_data_func("/overlap/bound/1000", GINT_TO_POINTER(1000), test_holds_no_more_than_it_may);
	return g_test_run();
}
