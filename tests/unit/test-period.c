// SPDX-License-Identifier: LGPL-2.1-or-later
/* After how many requests a program makes the same ones again. */
#include <glib.h>

#include "policy/period.h"

#define LONGEST (PERIOD_KEYS / 2)

static guint find(const struct period *period)
{
	bool exact;

	return period_find(period, &exact);
}

/* Notes @length random keys, again and again. Each @odd-th is random every time; 0: none is. */
static void note_repeated(struct period *period, guint length, guint requests, guint odd)
{
	uint32_t *keys = g_new(uint32_t, length);

	for (guint i = 0; i < length; i++)
		keys[i] = (uint32_t)g_test_rand_int();
	for (guint i = 0; i < requests; i++)
		period_note(period, odd && i % odd == 0 ? (uint32_t)g_test_rand_int() : keys[i % length]);
	g_free(keys);
}

static void test_repeated(gconstpointer data)
{
	guint length = GPOINTER_TO_UINT(data);
	struct period period = { .count = 0 };

	note_repeated(&period, length, 3 * PERIOD_KEYS, 0);
	g_assert_cmpuint(find(&period), ==, length);
}

static void test_random(void)
{
	struct period period = { .count = 0 };

	for (guint i = 0; i < 3 * PERIOD_KEYS; i++) {
		period_note(&period, (uint32_t)g_test_rand_int());
		g_assert_cmpuint(find(&period), ==, 0);
	}
}

/* What came before does not count, once the program has repeated itself often enough. */
static void test_random_before(void)
{
	struct period period = { .count = 0 };

	note_repeated(&period, PERIOD_KEYS, PERIOD_KEYS, 0);
	note_repeated(&period, 100, 100 + PERIOD_COMPARED, 0);
	g_assert_cmpuint(find(&period), ==, 100);
}

/* A program has no period before it has made each request twice, however few there are. */
static void test_too_few(void)
{
	struct period period = { .count = 0 };

	g_assert_cmpuint(find(&period), ==, 0);
	note_repeated(&period, 40, 79, 0);
	g_assert_cmpuint(find(&period), ==, 0);
	period = (struct period){ .count = 0 };
	note_repeated(&period, 4, 4 + PERIOD_COMPARED_LEAST - 1, 0);
	g_assert_cmpuint(find(&period), ==, 0);
}

/* Nor later than that. */
static void test_enough(void)
{
	struct period period = { .count = 0 };

	note_repeated(&period, 40, 80, 0);
	g_assert_cmpuint(find(&period), ==, 40);
}

/* A step of 64 requests, all but four of which alternate between two. */
static void test_loop_within(void)
{
	struct period period = { .count = 0 };

	for (guint i = 0; i < 3 * PERIOD_KEYS; i++)
		period_note(&period, i % 64 < 60 ? i % 2 : i % 64);
	g_assert_cmpuint(find(&period), ==, 64);
}

/* A whole step apart is as good as two, although by chance one request more may differ. */
static void test_shortest(void)
{
	struct period period = { .count = 0 };

	note_repeated(&period, 32, 3 * PERIOD_KEYS, 61);
	g_assert_cmpuint(find(&period), ==, 32);
}

/* A request that differs is compared twice: with the one before it, and with the one behind. */
static void test_some_differ(void)
{
	struct period period = { .count = 0 };

	note_repeated(&period, 64, 3 * PERIOD_KEYS, 17);
	g_assert_cmpuint(find(&period), ==, 64);
}

static void test_too_many_differ(void)
{
	struct period period = { .count = 0 };

	note_repeated(&period, 64, 3 * PERIOD_KEYS, 5);
	g_assert_cmpuint(find(&period), ==, 0);
}

/* The count of requests begins anew at 0 after four billion. */
static void test_count_overflows(void)
{
	struct period period = { .count = (guint)-PERIOD_KEYS };

	note_repeated(&period, 10, 2 * PERIOD_KEYS, 0);
	g_assert_cmpuint(find(&period), ==, 10);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/period/repeated/1", GUINT_TO_POINTER(1), test_repeated);
	g_test_add_data_func("/period/repeated/2", GUINT_TO_POINTER(2), test_repeated);
	g_test_add_data_func("/period/repeated/37", GUINT_TO_POINTER(37), test_repeated);
	g_test_add_data_func("/period/repeated/longest", GUINT_TO_POINTER(LONGEST), test_repeated);
	g_test_add_func("/period/random", test_random);
	g_test_add_func("/period/random-before", test_random_before);
	g_test_add_func("/period/too-few", test_too_few);
	g_test_add_func("/period/enough", test_enough);
	g_test_add_func("/period/loop-within", test_loop_within);
	g_test_add_func("/period/shortest", test_shortest);
	g_test_add_func("/period/some-differ", test_some_differ);
	g_test_add_func("/period/too-many-differ", test_too_many_differ);
	g_test_add_func("/period/count-overflows", test_count_overflows);
	return g_test_run();
}
