// SPDX-License-Identifier: LGPL-2.1-or-later
/* The map of a replay's picture, from dumps in the format of vpmm_pool_dump(3). */
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "picture-map.h"

static void assert_drawn(const struct map *map, unsigned int rows, const char *expected)
{
	unsigned char *cells = map_draw(map, rows);
	/* By enum map_state. */
	static const char signs[] = "*~-pX";

	for (size_t i = 0; i < strlen(expected); i++)
		g_assert_cmpint(signs[cells[i]], ==, expected[i]);
	g_free(cells);
}

static void test_states(void)
{
	struct map map;

	map_init(&map);

	g_assert_cmpint(map_add(&map, "regions: 5\nchunk 0x1000: [1]\n"
				"  0x1000 256 malloc stream 1 pending\n"
				"  0x1100 256 free stream 1 pending\n"
				"  0x1200 256 free stream 1,2 passed\n"
				"  0x1300 256 free unused\n"
				"  0x1400 256 zombie\n"
				"  0x1500 256 unmapped\n"), ==, 0);

	g_assert_cmpuint(map.used, ==, 5 * 256);
	assert_drawn(&map, 5, "~--pX");
	map_clear(&map);
}

static void test_unused_addresses_are_left_out(void)
{
	struct map map;

	map_init(&map);
	g_assert_cmpint(map_add(&map, "  0x9000 256 malloc stream 1 passed\n  0x1000 256 zombie\n"), ==, 0);

	g_assert_cmpint(map_add(&map, "  0x1000 256 unmapped\n  0x5000 512 free unused\n"), ==, 0);

	g_assert_cmpuint(map.used, ==, 4 * 256);
	assert_drawn(&map, 4, "X*" "*-" "*-" "~*");
	map_clear(&map);
}

static void test_cell_has_the_state_of_most_bytes(void)
{
	struct map map;

	map_init(&map);
	g_assert_cmpint(map_add(&map, "  0x1000 300 malloc stream 1 passed\n  0x112c 212 free unused\n"
				"  0x1200 200 malloc stream 1 passed\n  0x12c8 312 free unused\n"), ==, 0);

	map_repeat(&map);

	assert_drawn(&map, 2, "--" "XX");
	map_clear(&map);
}

static void test_damaged_dump_is_refused(void)
{
	static const char *const damaged[] = {
		"  0x1000\n",
		"  0x1000 0 malloc stream 1 passed\n",
		"  0x1000 256 other\n",
		"  0xfffffffffffffff0 256 malloc stream 1 passed\n",
	};

	for (unsigned int i = 0; i < G_N_ELEMENTS(damaged); i++) {
		struct map map;

		map_init(&map);
		g_assert_cmpint(map_add(&map, damaged[i]), ==, -EBADMSG);
		map_clear(&map);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/picture/states", test_states);
	g_test_add_func("/picture/unused_addresses_are_left_out", test_unused_addresses_are_left_out);
	g_test_add_func("/picture/cell_has_the_state_of_most_bytes", test_cell_has_the_state_of_most_bytes);
	g_test_add_func("/picture/damaged_dump_is_refused", test_damaged_dump_is_refused);
	return g_test_run();
}
