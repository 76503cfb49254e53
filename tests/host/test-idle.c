// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_IDLE: memory that any stream may use at once, as no work is pending on it. */
#include <errno.h>
#include <string.h>

#include "calls/pool.h"
#include "host/host-streams.h"
#include "support/fault.h"
#include "support/kinds.h"

/* What would be the driver's is the pool's here, as the driver orders memory. */
static const struct kind kinds[] = { KINDS_EACH, KIND_BLOCK(FIXTURE_OPTS) };

/* Those that have few ways to serve it. */
static const struct kind large_kinds[] = { KIND_PACKED, KIND_PAGED, KIND_BLOCK(FIXTURE_OPTS) };

static char *idle_malloc(struct fixture *f, size_t size, struct CUstream_st *stream)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc_flags(f->pool, &ptr, size, stream, VPMM_IDLE));
	assert_ok(vpmm_pool_check(f->pool));
	return ptr;
}

static bool overlap(const char *a, const char *b, size_t size)
{
	return a < b + size && b < a + size;
}

/* A block whose stream is at work on it, freed. */
static char *freed_at_work(struct fixture *f, size_t size, struct CUstream_st *stream)
{
	char *ptr = fixture_malloc_bytes(f, size, stream);

	submit(stream);
	fixture_free(f, ptr, stream);
	return ptr;
}

/* Nobody gets what is pending: not another stream, and not the one that freed it. Nobody waits either. */
static void test_leaves_pending_alone(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b, *c;

	fixture_open(&f, kind->opts);
	a = freed_at_work(&f, kind->size, f.streams[0]);

	b = idle_malloc(&f, kind->size, f.streams[1]);
	c = idle_malloc(&f, kind->size, f.streams[0]);

	g_assert_false(overlap(a, b, kind->size));
	g_assert_false(overlap(a, c, kind->size));
	g_assert_false(overlap(b, c, kind->size));
	g_assert_cmpuint(pending(f.streams[0]), ==, 1);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_complete(f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	fixture_free(&f, c, VPMM_STREAM_ANY);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* What is complete comes before what is new, though nobody has looked since it completed. */
static void test_prefers_complete(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	uint64_t mapped;
	char *a;

	fixture_open(&f, kind->opts);
	a = freed_at_work(&f, kind->size, f.streams[0]);
	mapped = fixture_stats(&f).mapped;
	fixture_complete(f.streams[0]);

	g_assert_true(overlap(a, idle_malloc(&f, kind->size, f.streams[1]), kind->size));

	g_assert_cmpuint(fixture_stats(&f).mapped, ==, mapped);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

/* One of two free blocks is complete: it is used, and no more is created than the other would have been. */
static void test_takes_complete_parts(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b, *wall;

	fixture_open(&f, kind->opts);
	a = fixture_malloc(&f, 2, f.streams[0]);
	wall = fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[1]);
	submit(f.streams[0]);
	submit(f.streams[1]);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	fixture_complete(f.streams[1]);

	idle_malloc(&f, 4 * PAGE, f.streams[2]);

	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 7 * PAGE);
	g_assert_cmpuint(pending(f.streams[0]), ==, 1);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_complete(f.streams[0]);
	fixture_free(&f, wall, f.streams[0]);
	fixture_close(&f);
}

/* A slab has room where work is pending, so a new one is made. */
static void test_leaves_pending_slab_alone(void)
{
	const size_t size = 100 << 10;
	struct fixture f;
	char *blocks[20];

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
		blocks[i] = fixture_malloc_bytes(&f, size, f.streams[0]);
	submit(f.streams[0]);
	for (size_t i = 0; i < 5; i++)
		fixture_free(&f, blocks[i], f.streams[0]);

	idle_malloc(&f, size, f.streams[1]);

	g_assert_cmpuint(pending(f.streams[0]), ==, 1);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

/* There can be no more, so the host waits for what there is. */
static void test_waits_if_nothing_else_is_left(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	struct fixture f;

	opts.limit = kind->size;
	fixture_open(&f, opts);
	freed_at_work(&f, kind->size, f.streams[0]);

	idle_malloc(&f, kind->size, f.streams[1]);

	g_assert_cmpuint(pending(f.streams[0]), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, kind->size);
	fixture_close(&f);
}

static void test_exhausted(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	void *ptr = NULL;
	struct fixture f;

	opts.limit = 4 * PAGE;
	fixture_open(&f, opts);
	fixture_malloc(&f, 2, f.streams[0]);

	assert_error(vpmm_malloc_flags(f.pool, &ptr, 3 * PAGE, f.streams[0], VPMM_IDLE), ENOMEM, "vpmm_malloc_flags");
	assert_error(vpmm_malloc_flags(f.pool, &ptr, SIZE_MAX / 2, f.streams[0], VPMM_IDLE), ENOMEM, "address");

	g_assert_null(ptr);
	assert_ok(vpmm_pool_check(f.pool));
	idle_malloc(&f, 2 * PAGE, f.streams[0]);
	fixture_close(&f);
}

/* Afterwards it is a block as others are: its stream's cache takes it back and serves it. */
static void test_is_cached(void)
{
	struct fixture f;
	uint64_t reuses;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, f.streams[0]);
	a = idle_malloc(&f, 3 * PAGE, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	reuses = fixture_stats(&f).reuses;

	b = fixture_malloc(&f, 3, f.streams[0]);

	g_assert_true(a == b);
	g_assert_cmpuint(fixture_stats(&f).reuses, ==, reuses + 1);
	fixture_close(&f);
}

static void clears(struct fixture *f, const struct kind *kind, unsigned int flags)
{
	void *ptr = NULL;

	fixture_leave_secret(f, kind->size, f->streams[0]);
	submit(f->streams[1]);

	assert_ok(vpmm_malloc_flags(f->pool, &ptr, kind->size, f->streams[1], flags));

	g_assert_true(fixture_is_clear(ptr, kind->size));
	g_assert_cmpuint(pending(f->streams[1]), ==, 0);
	assert_ok(vpmm_pool_check(f->pool));
	fixture_free(f, ptr, f->streams[2]);
}

/* Cleared before the call returns, as there is no stream to order it on. */
static void test_cleared(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	struct fixture f;

	fixture_open(&f, opts);
	clears(&f, kind, VPMM_IDLE | VPMM_ZERO);
	fixture_close(&f);
	for (int scrub = VPMM_SCRUB_STREAM; scrub <= VPMM_SCRUB_ALWAYS; scrub++) {
		opts.scrub = scrub;
		fixture_open(&f, opts);
		clears(&f, kind, VPMM_IDLE);
		clears(&f, kind, VPMM_IDLE | VPMM_ZERO);
		fixture_close(&f);
	}
}

/* Whatever fails on the way, the block is free again. */
static void test_clear_fails(gconstpointer data)
{
	static const enum backend_op ops[] = { BACKEND_OP_clear, BACKEND_OP_event_record, BACKEND_OP_event_sync };
	const struct kind *kind = data;
	void *ptr = NULL;
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		fixture_open_faulty(&f, kind->opts);
		backend_fault_arm(f.pool->core.backend, ops[i], 0, 1, -EIO);

		assert_error(vpmm_malloc_flags(f.pool, &ptr, kind->size, f.streams[0], VPMM_IDLE | VPMM_ZERO), EIO,
			     "vpmm_malloc_flags");

		g_assert_null(ptr);
		assert_ok(vpmm_pool_check(f.pool));
		ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).requested, ==, kind->size);
		fixture_free(&f, ptr, f.streams[0]);
		ptr = NULL;
		fixture_close(&f);
	}
}

/* Under capture, and on the default stream beside one, it is no graph's. */
static void test_beside_capture(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graph;
	struct fixture f;
	char *a, *b;
	void *none = NULL;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_capture_begin(f.streams[0]));

	a = idle_malloc(&f, kind->size, f.streams[0]);
	b = idle_malloc(&f, kind->size, NULL);

	assert_error(vpmm_malloc_flags(f.pool, &none, kind->size, f.streams[0], VPMM_IDLE | VPMM_ZERO), EBUSY, "cleared");
	memset(a, 1, kind->size);
	memset(b, 2, kind->size);
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	vpmm_host_graph_destroy(graph);
	assert_ok(vpmm_realloc(f.pool, (void **)&a, 2 * kind->size, f.streams[0]));
	g_assert_cmpint(a[kind->size - 1], ==, 1);
	fixture_free(&f, a, f.streams[0]);
	assert_ok(vpmm_use(f.pool, b, f.streams[2]));
	fixture_free(&f, b, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

static void test_wrong(void)
{
	void *ptr = &ptr;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_malloc_flags(f.pool, &ptr, 1, f.streams[0], 8), EINVAL, "VPMM_IDLE");
	assert_error(vpmm_malloc_flags(f.pool, &ptr, 1, VPMM_STREAM_ANY, VPMM_IDLE), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_malloc_flags(f.pool, &ptr, 1, (struct CUstream_st *)&f, VPMM_IDLE), EINVAL, "not a stream");
	g_assert_true(ptr == &ptr);
	assert_ok(vpmm_malloc_flags(f.pool, &ptr, 0, f.streams[0], VPMM_IDLE));
	g_assert_null(ptr);
	fixture_close(&f);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .page_size = SIZE_MAX });
	assert_error(vpmm_malloc_flags(f.pool, &ptr, 1, f.streams[0], VPMM_IDLE), ENOTSUP, "driver");
	fixture_close(&f);
}

struct use {
	char *ptr;
	size_t size;
};

static void write_late(void *data)
{
	struct use *use = data;

	memset(use->ptr, 0xdd, use->size);
	g_free(use);
}

/* Work writes to a block when it completes, which may be long after the block's free. */
static void work_and_free(struct fixture *f, char *ptr, size_t size, struct CUstream_st *stream)
{
	struct use *use = g_new(struct use, 1);

	*use = (struct use){ ptr, size };
	assert_ok(vpmm_host_stream_launch(stream, write_late, use));
	fixture_free(f, ptr, stream);
}

#define BLOCKS 12

/* An idle block is written to at once; whatever completes later, it keeps what was written. */
static void test_nobody_writes_to_it(gconstpointer data)
{
	const struct kind *kind = data;
	struct use blocks[BLOCKS] = { { NULL, 0 } };
	GRand *rand = g_rand_new_with_seed(23);
	struct fixture f;

	fixture_open(&f, kind->opts);
	for (int i = 0; i < 400; i++) {
		struct use *use = &blocks[g_rand_int_range(rand, 0, BLOCKS)];
		struct CUstream_st *stream = f.streams[g_rand_int_range(rand, 0, STREAMS)];
		size_t units = (size_t)g_rand_int_range(rand, 1, 5);

		vpmm_host_stream_complete(f.streams[g_rand_int_range(rand, 0, STREAMS)], (unsigned int)units);
		if (!use->ptr) {
			use->size = units * kind->size / 4;
			use->ptr = idle_malloc(&f, use->size, stream);
			memset(use->ptr, i % 100, use->size);
			continue;
		}
		for (size_t at = 1; at < use->size; at++)
			g_assert_cmpint(use->ptr[at], ==, use->ptr[0]);
		g_assert_cmpint(use->ptr[0], !=, (char)0xdd);
		work_and_free(&f, use->ptr, use->size, stream);
		use->ptr = NULL;
	}
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(f.streams[i]);
	g_rand_free(rand);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/idle/leaves-pending-alone", kinds, test_leaves_pending_alone);
	fixture_add_rows("/idle/prefers-complete", large_kinds, test_prefers_complete);
	fixture_add_rows("/idle/takes-complete-parts", large_kinds, test_takes_complete_parts);
	g_test_add_func("/idle/leaves-pending-slab-alone", test_leaves_pending_slab_alone);
	fixture_add_rows("/idle/waits-if-nothing-else-is-left", large_kinds, test_waits_if_nothing_else_is_left);
	fixture_add_rows("/idle/exhausted", large_kinds, test_exhausted);
	g_test_add_func("/idle/is-cached", test_is_cached);
	fixture_add_rows("/idle/cleared", kinds, test_cleared);
	fixture_add_rows("/idle/clear-fails", kinds, test_clear_fails);
	fixture_add_rows("/idle/beside-capture", kinds, test_beside_capture);
	g_test_add_func("/idle/wrong", test_wrong);
	fixture_add_rows("/idle/nobody-writes-to-it", kinds, test_nobody_writes_to_it);
	return g_test_run();
}
