// SPDX-License-Identifier: LGPL-2.1-or-later
/* Known environment variables, and the nearest one to an unknown name. */
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "settings/options.h"
#include "settings/variables.h"

/* A name longer than this is no misspelling of a known one. */
#define LONGEST 64

/* Those of shared ranges, of tags, of pausing, of PyTorch's plug-in and of vLLM's, which are no options of a pool. */
static const char *const others[] = {
	"VPMM_HOST_KEEP", "VPMM_PAUSABLE", "VPMM_PAUSE_HOST", "VPMM_PAUSE_POISON", "VPMM_SHARED_TOUCH", "VPMM_TAG",
	"VPMM_TORCH_BUILD", "VPMM_TORCH_CLASS", "VPMM_VLLM"
};

/* Levenshtein's distance, one row of the table at a time. */
static size_t distance(const char *a, const char *b)
{
	size_t row[LONGEST + 1], length = MIN(strlen(b), LONGEST);

	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < length; j++) {
			size_t replaced = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = MIN(replaced, MIN(row[j], row[j + 1]) + 1);
		}
	}
	return row[length];
}

static void keep_nearer(const char *variable, const char *name, size_t *least, const char **nearest)
{
	size_t changes = distance(variable, name);

	if (changes < *least) {
		*least = changes;
		*nearest = variable;
	}
}

const char *variables_nearest(const char *name)
{
	const char *nearest = NULL;
	size_t least = SIZE_MAX;

	for_each_option(option) {
		if (option->variable)
			keep_nearer(option->variable, name, &least, &nearest);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		keep_nearer(others[i], name, &least, &nearest);
	return nearest;
}

bool variables_is_known(const char *name)
{
	for_each_option(option) {
		if (!g_strcmp0(option->variable, name))
			return true;
	}
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
		if (!strcmp(others[i], name))
			return true;
	}
	return false;
}

static bool is_unknown(const char *name)
{
	return g_str_has_prefix(name, "VPMM_") && !g_str_has_prefix(name, "VPMM_TEST_") &&
	       !g_str_has_prefix(name, "VPMM_PRELOAD") && !variables_is_known(name);
}

void variables_each_unknown(void (*fn)(void *data, const char *name), void *data)
{
	char **names = g_listenv();

	for (char **name = names; *name; name++) {
		if (is_unknown(*name))
			fn(data, *name);
	}
	g_strfreev(names);
}
