// SPDX-License-Identifier: LGPL-2.1-or-later
/* The environment takes each value that vpmm-info prints, and means the same by it. */
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "choose.h"
#include "pool-settings.h"

/* Values of any variable; most variables refuse most of them. The words of the option itself are tried too. */
static const char *const texts[] = {
	"", "none", "all", "auto", "0", "1", "3", "50%", "100%", "4M", "64M", "3G", "1,3", "18446744073709551615",
	"some.trace",
};

static void begin(void)
{
	for_each_option(option) {
		if (option->variable && option->type != OPTION_IS_HOST)
			g_unsetenv(option->variable);
	}
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
}

/* All settings in force; false: one was refused. */
static bool collect(struct pool_settings *settings)
{
	struct choice choice;

	if (choose_backend(NULL, &choice))
		return false;
	pool_settings_collect(settings, &choice, false);
	g_free(choice.why);
	return true;
}

static const char *find(const struct pool_settings *settings, const char *variable)
{
	for (unsigned int i = 0; i < settings->n; i++) {
		if (!strcmp(settings->all[i].variable, variable))
			return settings->all[i].value;
	}
	g_assert_not_reached();
}

/* Whether the variable takes the text; if so, what is printed then has the same effect. */
static bool try(const char *variable, const char *text)
{
	struct pool_settings first, second;

	begin();
	g_setenv(variable, text, TRUE);
	if (!collect(&first))
		return false;
	g_test_message("%s=%s is %s", variable, text, find(&first, variable));
	begin();
	g_setenv(variable, find(&first, variable), TRUE);
	g_assert_true(collect(&second));
	for (unsigned int i = 0; i < first.n; i++)
		g_assert_cmpstr(second.all[i].value, ==, first.all[i].value);
	return true;
}

static void test_each(void)
{
	for_each_option(option) {
		unsigned int taken = 0;

		if (!option->variable || option->type == OPTION_IS_HOST)
			continue;
		for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
			taken += try(option->variable, texts[i]);
		for (const struct option_word *word = option->words; word && word->name; word++)
			taken += try(option->variable, word->name);
		/* The default, and another value. */
		g_assert_cmpuint(taken, >=, 2);
	}
}

/* Where there can be none of something, it is said by that word; but for a mode that is on or off. */
static void test_none(void)
{
	static const char *const variables[] = {
		"VPMM_PAGES", "VPMM_FRAG_RATIO", "VPMM_OVERLAP", "VPMM_LIMIT", "VPMM_KEEP", "VPMM_SCRUB", "VPMM_EXPORT",
		"VPMM_PEERS", "VPMM_LOG", "VPMM_TRACE", "VPMM_BUDGET", "VPMM_BUDGET_FLOOR", "VPMM_BUDGET_WAIT",
		"VPMM_STACKS", "VPMM_OOM_DUMP", "VPMM_TOP",
	};

	for (size_t i = 0; i < G_N_ELEMENTS(variables); i++)
		g_assert_true(try(variables[i], "none"));
}

/* A number of 0 means the same as the word, or is refused: it never means all. */
static void test_zero(void)
{
	for_each_option(option) {
		struct pool_settings zero, none;

		if (!option->variable || option->type == OPTION_IS_HOST || option->type == OPTION_IS_FILE ||
		    option->type == OPTION_IS_BUDGET)
			continue;
		begin();
		g_setenv(option->variable, "0", TRUE);
		if (!collect(&zero) || option->type == OPTION_IS_DEVICES)
			continue;
		g_setenv(option->variable, "none", TRUE);
		g_assert_true(collect(&none));
		g_assert_cmpstr(find(&zero, option->variable), ==, find(&none, option->variable));
	}
}

int main(int argc, char **argv)
{
	char *folder = g_dir_make_tmp("vpmm-round-trip-XXXXXX", NULL), *remove;
	int result;

	g_test_init(&argc, &argv, NULL);
	/* Of budgets. */
	g_setenv("XDG_RUNTIME_DIR", folder, TRUE);
	g_test_add_func("/round-trip/each", test_each);
	g_test_add_func("/round-trip/none", test_none);
	g_test_add_func("/round-trip/zero", test_zero);
	result = g_test_run();
	remove = g_strdup_printf("rm -r '%s'", folder);
	g_spawn_command_line_sync(remove, NULL, NULL, NULL, NULL);
	g_free(remove);
	g_free(folder);
	return result;
}
