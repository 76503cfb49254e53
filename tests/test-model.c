// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Random operations on four streams, with a plain model beside the pool. With faults, calls of the driver fail at
 * random besides.
 */
#include <errno.h>
#include <stdbool.h>

#include "model.h"

#define STEPS 4000
#define MOST_LIVE 60
#define MOST_PAGES 12

struct walk {
	struct model m;
	GRand *rand;
};

static struct CUstream_st *any_stream(struct walk *w)
{
	return w->m.f.streams[g_rand_int_range(w->rand, 0, STREAMS)];
}

/* Has the next call but a few of some operation fail, now and then, with an error that the operation can give. */
static void arm(struct walk *w)
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
	int i = g_rand_int_range(w->rand, 0, G_N_ELEMENTS(faults));

	if (w->m.faulty && !g_rand_int_range(w->rand, 0, 3))
		model_arm(&w->m, faults[i].op, (unsigned int)g_rand_int_range(w->rand, 0, 6), 1, faults[i].err);
}

static void step_malloc(struct walk *w)
{
	size_t size;

	if (g_rand_int_range(w->rand, 0, 5)) {
		size = (size_t)g_rand_int_range(w->rand, 1, MOST_PAGES + 1) * PAGE;
		size -= (size_t)g_rand_int_range(w->rand, 0, 2) * 4096;
	} else {
		size = (size_t)g_rand_int_range(w->rand, 8, 65536);
	}
	arm(w);
	model_malloc(&w->m, size, any_stream(w));
}

static void step_free(struct walk *w)
{
	guint index = (guint)g_rand_int_range(w->rand, 0, (gint)w->m.live->len);

	/* Now and then another stream has the last use, after waiting for the first. */
	if (!g_rand_int_range(w->rand, 0, 4))
		model_move(&w->m, index, any_stream(w));
	arm(w);
	model_free(&w->m, index);
}

static void run_model(struct vpmm_opts opts, guint32 seed, bool faulty)
{
	struct walk w = { .rand = g_rand_new_with_seed(seed) };

	model_open(&w.m, opts, faulty);
	for (int step = 0; step < STEPS; step++) {
		int what = g_rand_int_range(w.rand, 0, 10);

		if (what < 2)
			model_complete(&w.m, any_stream(&w), (unsigned int)g_rand_int_range(w.rand, 1, 6));
		else if (w.m.live->len && (what < 6 || w.m.live->len == MOST_LIVE))
			step_free(&w);
		else
			step_malloc(&w);
		model_check(&w.m);
	}
	while (w.m.live->len)
		step_free(&w);
	model_close(&w.m);
	g_rand_free(w.rand);
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
