// SPDX-License-Identifier: LGPL-2.1-or-later
#include "top-print.h"

#include <glib.h>
#include <stdio.h>
#include <string.h>

uint64_t top_number(const void *structure, size_t offset)
{
	uint64_t number;

	memcpy(&number, (const char *)structure + offset, sizeof(number));
	return number;
}

void top_print_label(const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);

	putchar('"');
	for (const char *c = valid; *c; c++) {
		if (*c == '"' || *c == '\\')
			putchar('\\');
		putchar(*c);
	}
	putchar('"');
}

void top_print_family(const char *name, const char *unit, const char *help, bool counter)
{
	g_autofree char *whole = g_strconcat("vpmm_", name, unit ? "_" : NULL, unit, NULL);

	printf("# TYPE %s %s\n", whole, counter ? "counter" : "gauge");
	if (unit)
		printf("# UNIT %s %s\n", whole, unit);
	printf("# HELP %s %s\n", whole, help);
}
