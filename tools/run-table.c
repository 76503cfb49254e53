// SPDX-License-Identifier: LGPL-2.1-or-later
#include "run-report.h"

#include <glib.h>
#include <stdarg.h>
#include <stdbool.h>

#include "units.h"

/* Columns of a label. */
#define LABEL 34

void table_begin(const struct run_report *report, pid_t pid, unsigned int device, const char *what)
{
	g_autofree char *program = g_path_get_basename(report->program), *who = NULL;

	if (!pid)
		who = g_strdup(program);
	else if (pid == report->main)
		who = g_strdup_printf("%s, process %ld", program, (long)pid);
	else
		who = g_strdup_printf("process %ld of %s", (long)pid, program);
	units_print_wrapped(report->out, 2, "%s: %s, device %u: %s", g_get_prgname(), who, device, what);
	fputc('\n', report->out);
}

void table_count(FILE *out, const char *label, uint64_t count, const char *remark, ...)
{
	char number[UNITS_TEXT];
	va_list args;
	g_autofree char *text = NULL;

	va_start(args, remark);
	text = g_strdup_vprintf(remark, args);
	va_end(args);
	units_format_count(number, count);
	fprintf(out, "  %-20s %11s%s%s\n", label, number, *text ? "  " : "", text);
}

void table_memory_begin(FILE *out)
{
	fprintf(out, "\n  %-*s %12s %7s\n", LABEL, "", "most at once", "ratio");
}

void table_memory(FILE *out, const char *label, uint64_t bytes, uint64_t requested)
{
	char size[UNITS_TEXT] = "-";
	const bool known = bytes != TABLE_UNKNOWN;

	if (known)
		units_format_bytes(size, bytes);
	fprintf(out, "  %-*s %12s", LABEL, label, size);
	if (requested && known)
		fprintf(out, " %7.3f", (double)bytes / (double)requested);
	fputc('\n', out);
}
