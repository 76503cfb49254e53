// SPDX-License-Identifier: LGPL-2.1-or-later
#include <glib.h>
#include <string.h>
#include <unistd.h>

#include "trace/name.h"

const char *name_unknown(const char *name)
{
	for (const char *at = strchr(name, '%'); at; at = strchr(at + 2, '%')) {
		if (at[1] != 'p' && at[1] != '%')
			return at;
	}
	return NULL;
}

char *name_expand(const char *name)
{
	GString *text = g_string_new(NULL);

	for (const char *at = name; *at; at++) {
		if (*at != '%')
			g_string_append_c(text, *at);
		else if (*++at == 'p')
			g_string_append_printf(text, "%ld", (long)getpid());
		else
			g_string_append_c(text, '%');
	}
	return g_string_free(text, FALSE);
}
