// SPDX-License-Identifier: LGPL-2.1-or-later
/* The hash table of the library against GLib's. */
#include <glib.h>

#include "util/table.h"

/* Keys that fall together: all of them are multiples of a page. */
static void test_keys_that_collide(void)
{
	GHashTable *model = g_hash_table_new(NULL, NULL);
	GRand *rand = g_rand_new_with_seed(7);
	struct table table;

	table_init(&table);
	for (int round = 0; round < 20000; round++) {
		uint64_t key = (uint64_t)g_rand_int_range(rand, 0, 200) << 21;
		gpointer at = (gpointer)(uintptr_t)key;

		g_assert_true(table_find(&table, key) == g_hash_table_lookup(model, at));
		if (g_hash_table_remove(model, at)) {
			table_remove(&table, key);
		} else {
			g_hash_table_insert(model, at, &table);
			table_insert(&table, key, &table);
		}
		g_assert_cmpuint(table.used, ==, g_hash_table_size(model));
	}
	table_clear(&table);
	g_rand_free(rand);
	g_hash_table_destroy(model);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/table/keys-that-collide", test_keys_that_collide);
	return g_test_run();
}
