// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Random operations on four streams, with a plain model beside the pool: a list of what is allocated. The model knows
 * what must hold whatever the pool decides: allocations do not overlap, keep their bytes although work runs late, and
 * the pool never holds more than the most that was ever allocated at once. With faults, calls of the driver fail at
 * random besides, and whatever fails has changed nothing.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "fixture.h"
#include "pool.h"

#define STEPS 4000
#define MOST_LIVE 60
#define MOST_PAGES 12

struct allocation {
	char *ptr;
	size_t size;
	size_t pages;		/* 0 for a small one */
	struct CUstream_st *stream;
	uint64_t pattern;
};

struct model {
	struct fixture f;
	bool faulty;
	GRand *rand;
	GPtrArray *live;	/* of struct allocation */
	uint64_t patterns;
	uint64_t bytes;
	uint64_t peak;
};

/* What a piece of work does to one allocation: write its pattern at both ends of every page, or find it there. */
struct work {
	char *ptr;
	size_t size;
	uint64_t pattern;
};

static void each_spot(const struct work *work, void (*visit)(uint64_t *spot, uint64_t value))
{
	for (size_t at = 0; at + 8 <= work->size; at += PAGE) {
		visit((uint64_t *)(void *)(work->ptr + at), work->pattern + at);
		if (at + PAGE <= work->size)
			visit((uint64_t *)(void *)(work->ptr + at + PAGE - 8), ~(work->pattern + at));
	}
}

static void write_spot(uint64_t *spot, uint64_t value)
{
	*spot = value;
}

static void check_spot(uint64_t *spot, uint64_t value)
{
	g_assert_cmphex(*spot, ==, value);
}

static void fill(void *data)
{
	each_spot(data, write_spot);
	g_free(data);
}

static void verify(void *data)
{
	each_spot(data, check_spot);
	g_free(data);
}

static void launch(const struct allocation *a, struct CUstream_st *stream, vpmm_host_fn fn)
{
	struct work *work = g_new(struct work, 1);

	*work = (struct work){ .ptr = a->ptr, .size = a->size, .pattern = a->pattern };
	assert_ok(vpmm_host_stream_launch(stream, fn, work));
}

static struct CUstream_st *any_stream(struct model *m)
{
	return m->f.streams[g_rand_int_range(m->rand, 0, STREAMS)];
}

/* Has the next call but a few of some operation fail, now and then, with an error that the operation can give. */
static void arm(struct model *m)
{
	static const struct {
		enum backend_op op;
		int err;
	} faults[] = {
		{ BACKEND_OP_enter, -EIO }, { BACKEND_OP_reserve, -ENOMEM }, { BACKEND_OP_create, -ENOMEM },
		{ BACKEND_OP_create, -EIO }, { BACKEND_OP_map, -ENOMEM }, { BACKEND_OP_access, -ENOMEM },
		{ BACKEND_OP_unmap, -EIO }, { BACKEND_OP_stream_id, -EBUSY }, { BACKEND_OP_stream_wait, -EIO },
		{ BACKEND_OP_event_create, -EIO }, { BACKEND_OP_event_record, -EIO }, { BACKEND_OP_event_query, -EIO },
		{ BACKEND_OP_event_sync, -EIO }, { BACKEND_OP_small_alloc, -ENOMEM }, { BACKEND_OP_small_free, -EIO },
	};
	int i = g_rand_int_range(m->rand, 0, G_N_ELEMENTS(faults));

	if (m->faulty && !g_rand_int_range(m->rand, 0, 3))
		backend_fault_arm(m->f.pool->backend, faults[i].op, (unsigned int)g_rand_int_range(m->rand, 0, 6), 1,
				  faults[i].err);
}

static void disarm(struct model *m)
{
	for (int op = 0; m->faulty && op < BACKEND_OP_COUNT; op++)
		backend_fault_arm(m->f.pool->backend, (enum backend_op)op, 0, 0, 0);
}

/* Calls as vpmm_malloc() does; what fails changes nothing, and succeeds when the fault is gone. */
static void *model_malloc(struct model *m, size_t size, struct CUstream_st *stream)
{
	void *ptr = NULL;
	int err;

	arm(m);
	err = vpmm_malloc(m->f.pool, &ptr, size, stream);
	disarm(m);
	if (err) {
		g_assert_true(m->faulty);
		g_assert_null(ptr);
		assert_ok(vpmm_pool_check(m->f.pool));
		g_assert_cmpuint(fixture_stats(&m->f).live, ==, m->bytes);
		assert_ok(vpmm_malloc(m->f.pool, &ptr, size, stream));
	}
	return ptr;
}

static void model_free(struct model *m, void *ptr, struct CUstream_st *stream)
{
	int err;

	arm(m);
	err = vpmm_free(m->f.pool, ptr, stream);
	disarm(m);
	if (err) {
		g_assert_true(m->faulty);
		assert_ok(vpmm_pool_check(m->f.pool));
		g_assert_cmpuint(fixture_stats(&m->f).live, ==, m->bytes);
		assert_ok(vpmm_free(m->f.pool, ptr, stream));
	}
}

static void assert_apart(const struct model *m, const struct allocation *a)
{
	for (guint i = 0; i < m->live->len; i++) {
		const struct allocation *b = m->live->pdata[i];

		g_assert_true(a->ptr + a->size <= b->ptr || b->ptr + b->size <= a->ptr);
	}
}

static void step_malloc(struct model *m)
{
	struct allocation *a = g_new0(struct allocation, 1);
	void *ptr;

	if (g_rand_int_range(m->rand, 0, 5)) {
		a->pages = (size_t)g_rand_int_range(m->rand, 1, MOST_PAGES + 1);
		a->size = a->pages * PAGE - (size_t)g_rand_int_range(m->rand, 0, 2) * 4096;
	} else {
		a->size = (size_t)g_rand_int_range(m->rand, 8, 65536);
	}
	a->stream = any_stream(m);
	a->pattern = ++m->patterns << 32;
	a->ptr = ptr = model_malloc(m, a->size, a->stream);
	/* One page less 4 KiB is no page: it is the driver's. */
	if (a->size < PAGE)
		a->pages = 0;
	g_assert_cmpuint((uintptr_t)ptr % (a->pages ? PAGE : 256), ==, 0);
	assert_apart(m, a);
	launch(a, a->stream, fill);
	g_ptr_array_add(m->live, a);
	m->bytes += a->pages * PAGE;
	m->peak = MAX(m->peak, m->bytes);
}

static void step_free(struct model *m)
{
	struct allocation *a = g_ptr_array_steal_index_fast(m->live, (guint)g_rand_int_range(m->rand, 0,
											     (gint)m->live->len));
	struct CUstream_st *stream = a->stream;

	/* Now and then another stream has the last use, after waiting for the first. */
	if (!g_rand_int_range(m->rand, 0, 4)) {
		stream = any_stream(m);
		if (stream != a->stream)
			assert_ok(vpmm_host_stream_wait(stream, a->stream));
	}
	launch(a, stream, verify);
	model_free(m, a->ptr, stream);
	m->bytes -= a->pages * PAGE;
	g_free(a);
}

static void step_complete(struct model *m)
{
	int err = vpmm_host_stream_complete(any_stream(m), (unsigned int)g_rand_int_range(m->rand, 1, 6));

	/* What waits for another stream does not complete now; that is an outcome like others. */
	g_assert_true(err == 0 || err == -EBUSY);
}

static void assert_model(struct model *m)
{
	struct vpmm_stats stats = fixture_stats(&m->f);

	assert_ok(vpmm_pool_check(m->f.pool));
	g_assert_cmpuint(stats.live, ==, m->bytes);
	g_assert_cmpuint(stats.peak_live, ==, m->peak);
	g_assert_cmpuint(stats.mapped, ==, m->peak);
	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped);
	g_assert_cmpuint(stats.live + stats.free + stats.holes + stats.zombies, ==, stats.reserved);
}

/* Completes everything, through streams that wait for each other. */
static void complete_all(struct model *m)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (int i = 0; i < STREAMS; i++)
			busy |= vpmm_host_stream_complete(m->f.streams[i], UINT_MAX) == -EBUSY;
	}
}

static void run_model(struct vpmm_opts opts, guint32 seed, bool faulty)
{
	struct model m = { .rand = g_rand_new_with_seed(seed), .live = g_ptr_array_new(), .faulty = faulty };

	if (faulty)
		fixture_open_faulty(&m.f, opts);
	else
		fixture_open(&m.f, opts);
	for (int step = 0; step < STEPS; step++) {
		int what = g_rand_int_range(m.rand, 0, 10);

		if (what < 2)
			step_complete(&m);
		else if (m.live->len && (what < 6 || m.live->len == MOST_LIVE))
			step_free(&m);
		else
			step_malloc(&m);
		assert_model(&m);
	}
	while (m.live->len)
		step_free(&m);
	complete_all(&m);
	assert_model(&m);
	fixture_close(&m.f);
	g_ptr_array_free(m.live, TRUE);
	g_rand_free(m.rand);
}

static void test_async(gconstpointer seed)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS }, GPOINTER_TO_UINT(seed), false);
}

static void test_block(void)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, 5, false);
}

/* Chunks so small that allocations are larger and holes are short. */
static void test_chunks(void)
{
	run_model((struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE }, 6, false);
}

static void test_faults(gconstpointer seed)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS }, GPOINTER_TO_UINT(seed), true);
}

static void test_faults_block(void)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, 9, true);
}

static void test_faults_chunks(void)
{
	run_model((struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE }, 10, true);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/model/async/1", GUINT_TO_POINTER(1), test_async);
	g_test_add_data_func("/model/async/2", GUINT_TO_POINTER(2), test_async);
	g_test_add_data_func("/model/async/3", GUINT_TO_POINTER(3), test_async);
	g_test_add_func("/model/block", test_block);
	g_test_add_func("/model/chunks", test_chunks);
	g_test_add_data_func("/model/faults/7", GUINT_TO_POINTER(7), test_faults);
	g_test_add_data_func("/model/faults/8", GUINT_TO_POINTER(8), test_faults);
	g_test_add_func("/model/faults/block", test_faults_block);
	g_test_add_func("/model/faults/chunks", test_faults_chunks);
	return g_test_run();
}
