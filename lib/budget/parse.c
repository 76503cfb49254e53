// SPDX-License-Identifier: LGPL-2.1-or-later
/* What VPMM_BUDGET says. */
#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "budget/parse.h"
#include "util/text.h"

static bool is_budget_word(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (!g_ascii_isalnum(text[i]) && !strchr("._-", text[i]))
			return false;
	}
	return length && *text != '.';
}

static const char *judge_budget_name(const char *text, size_t length)
{
	if (memchr(text, '/', length))
		return *text == '/' && text[length - 1] != '/' ? NULL : "expected the absolute path of a file";
	if (length > BUDGET_NAME_MOST)
		return "the name has more than " G_STRINGIFY(BUDGET_NAME_MOST) " characters";
	if (is_budget_word(text, length))
		return NULL;
	return "expected NAME or NAME:SIZE, with a name of letters, digits, \".\", \"_\" and \"-\" that does not begin "
	       "with \".\", or an absolute path";
}

const char *budget_parse(const char *text, size_t *name, uint64_t *size)
{
	const char *colon = strrchr(text, ':'), *why;
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t bytes = 0;
	int err;

	why = judge_budget_name(text, length);
	if (why)
		return why;
	err = colon ? number_parse_scaled(colon + 1, &bytes) : 0;
	if (err == -ERANGE)
		return "larger than 64 bits can hold";
	if (err || (colon && !bytes))
		return "expected a number of bytes above 0 behind \":\", plain or with a suffix K, M, G or T";
	*name = length;
	*size = bytes;
	return NULL;
}
