// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The same programs as in test-contents, while calls of the driver fail: a call of the program that fails has changed
 * nothing, and what blocks hold stays as it was.
 */
#include "backend/backend.h"
#include "calls/pool.h"
#include "model/contents-run.h"
#include "support/assert.h"
#include "support/fault.h"
#include "support/setting.h"

#define SEEDS 10
#define STEPS 1500
/* So many failures in a row leave no page of a range without memory. */
#define PUT_BACK 3

static int create(struct vpmm_pool **pool, const struct vpmm_opts *opts)
{
	struct settings settings;
	struct backend *host, *be;

	assert_ok(settings_from_opts(&settings, opts));
	assert_ok(backend_open("host", NULL, &host));
	assert_ok(backend_fault_wrap(host, &be));
	assert_ok(be->ops->enter(be));
	assert_ok(pool_new(pool, be, &settings));
	be->ops->leave(be);
	return 0;
}

/*
 * Any call, or any of some operation; once, a few times, or until the call of the program is over. The last not beside
 * ranges: memory for a block may come from their pages, and work that uses one faults if the driver refuses to put it
 * back, again and again. See vpmm_migrate(3).
 */
static void arm(struct vpmm_pool *pool, bool ranges, GRand *rand)
{
	static const unsigned int counts[] = { 1, 1, 2, 3, UINT_MAX };
	enum backend_op op = g_rand_boolean(rand) ? BACKEND_OP_COUNT :
			     (enum backend_op)g_rand_int_range(rand, 0, BACKEND_OP_COUNT);
	unsigned int count = counts[g_rand_int_range(rand, 0, G_N_ELEMENTS(counts))];
	unsigned int most = ranges ? PUT_BACK : UINT_MAX, more = 0;

	/* One call, and some behind it: what is to undo what was done fails too. */
	if (g_rand_boolean(rand)) {
		more = MIN(count, most - 1);
		count = 1;
	}
	backend_fault_arm_next(pool->core.backend, (unsigned int)g_rand_int_range(rand, 0, 6), more, -EIO);
	backend_fault_arm(pool->core.backend, op, (unsigned int)g_rand_int_range(rand, 0, 6), MIN(count, most),
			  g_rand_boolean(rand) ? -EIO : -ENOMEM);
}

static void disarm(struct vpmm_pool *pool)
{
	backend_fault_arm_next(pool->core.backend, 0, 0, 0);
	for (int op = 0; op <= BACKEND_OP_COUNT; op++)
		backend_fault_arm(pool->core.backend, (enum backend_op)op, 0, 0, 0);
}

static void test_faults(gconstpointer workers)
{
	unsigned int first = setting("VPMM_TEST_SEED", 1), seeds = setting("VPMM_TEST_SEEDS", SEEDS);
	struct contents_counts counts = { 0 };

	for (unsigned int i = 0; i < seeds; i++)
		contents_run(first + i, setting("VPMM_TEST_STEPS", STEPS), GPOINTER_TO_UINT(workers), &counts);
	g_assert_cmpuint(counts.words, >, 0);
}

int main(int argc, char **argv)
{
	static const struct contents_faults faults = { .create = create, .arm = arm, .disarm = disarm };

	g_test_init(&argc, &argv, NULL);
	contents_faults = &faults;
	g_test_add_data_func("/contents/faults", GUINT_TO_POINTER(1), test_faults);
	g_test_add_data_func("/contents/one-stream-faults", GUINT_TO_POINTER(CONTENTS_ONE_STREAM), test_faults);
	return g_test_run();
}
