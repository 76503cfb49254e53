// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What blocks hold when work runs, against a model of the program: contents.h says how. VPMM_TEST_SEEDS is how many
 * seeds each case takes, VPMM_TEST_SEED the first of them, VPMM_TEST_STEPS how long each goes on.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "model/contents-run.h"
#include "support/fixture.h"
#include "support/setting.h"

#define SEEDS 12
#define STEPS 1500

static void report(const struct contents_counts *counts)
{
	g_test_message("%" PRIu64 " seeds, %" PRIu64 " steps, %" PRIu64
		       " words looked at by %" PRIu64 " pieces of work", counts->seeds, counts->steps,
		       counts->words, counts->works);
	g_assert_cmpuint(counts->words, >, 0);
}

static void run_seeds(unsigned int seeds, unsigned int workers)
{
	struct contents_counts counts = { 0 };
	unsigned int first = setting("VPMM_TEST_SEED", 1), steps = setting("VPMM_TEST_STEPS", STEPS) / MAX(workers, 1);

	seeds = setting("VPMM_TEST_SEEDS", seeds);
	for (unsigned int i = 0; i < seeds; i++)
		contents_run(first + i, MAX(1, steps), workers, &counts);
	report(&counts);
}

static void test_alone(void)
{
	run_seeds(SEEDS, 1);
}

static void test_one_stream(void)
{
	run_seeds(SEEDS, CONTENTS_ONE_STREAM);
}

static void test_threads(gconstpointer workers)
{
	run_seeds(SEEDS, GPOINTER_TO_UINT(workers));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	contents_freeing = fixture_freeing;
	g_test_add_func("/contents/one-thread", test_alone);
	g_test_add_func("/contents/one-stream", test_one_stream);
	g_test_add_data_func("/contents/threads/2", GUINT_TO_POINTER(2), test_threads);
	g_test_add_data_func("/contents/threads/4", GUINT_TO_POINTER(CONTENTS_WORKERS), test_threads);
	return g_test_run();
}
