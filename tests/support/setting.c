// SPDX-License-Identifier: LGPL-2.1-or-later
#include "support/setting.h"

guint setting(const char *name, guint otherwise)
{
	const char *text = g_getenv(name);
	guint64 value;

	if (!text)
		return otherwise;
	if (!g_ascii_string_to_unsigned(text, 10, 1, G_MAXUINT32 / 2, &value, NULL))
		g_error("%s is \"%s\", and has to be a number, 1 or more", name, text);
	return (guint)value;
}

guint setting_at_most(const char *name, guint usual)
{
	return MIN(setting(name, usual), usual);
}

guint setting_sweep(guint otherwise)
{
	return g_strcmp0(g_getenv("VPMM_TEST_SWEEP"), "full") ? setting("VPMM_TEST_SWEEP", otherwise) : 1;
}

void setting_run_seeds(guint usual, void (*run)(guint seed))
{
	guint first = setting("VPMM_TEST_SEED", 1), seeds = setting("VPMM_TEST_SEEDS", usual);

	for (guint i = 0; i < seeds; i++)
		run(first + i);
}
