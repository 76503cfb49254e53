// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which environment variables there are, and which one was meant by a name that is none of them. */
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "util/variables.h"

/* Whoever sets a longer name did not mistype one of these. */
#define LONGEST 64

const char *const variables_known[] = {
	"VPMM_BACKEND",
	"VPMM_EXTENT_MAX",
	"VPMM_FRAG_RATIO",
	"VPMM_HOST_CAPACITY",
	"VPMM_HOST_DEVICES",
	"VPMM_HOST_MAPPINGS",
	"VPMM_KEEP",
	"VPMM_LIMIT",
	"VPMM_LOG",
	"VPMM_OVERHEAD",
	"VPMM_PAGES",
	"VPMM_PAGE_SIZE",
	"VPMM_REUSE",
	"VPMM_SCRUB",
	"VPMM_SMALL",
	"VPMM_VA_SIZE",
	NULL,
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

const char *variables_nearest(const char *name)
{
	const char *nearest = variables_known[0];
	size_t least = SIZE_MAX;

	for (const char *const *known = variables_known; *known; known++) {
		size_t changes = distance(*known, name);

		if (changes < least) {
			least = changes;
			nearest = *known;
		}
	}
	return nearest;
}

static bool is_unknown(const char *name)
{
	return g_str_has_prefix(name, "VPMM_") && !g_str_has_prefix(name, "VPMM_TEST_") &&
	       !g_strv_contains(variables_known, name);
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
