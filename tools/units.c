// SPDX-License-Identifier: LGPL-2.1-or-later
#include "units.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

#include "fail.h"
#include "util/text.h"

/* Columns of a line. */
#define WIDTH 79

/* Of Unicode. What GLib returns for a byte that begins none is larger. */
#define MAX_CHARACTER 0x10ffff

/* Longer spans would leave no room to add them to a time of the trace. */
#define LONGEST_SECONDS 1e9

int units_parse_bytes(const char *name, const char *text, uint64_t *bytes)
{
	int err = number_parse_scaled(text, bytes);

	if (err == -ERANGE)
		return fail_set(-EINVAL, "%s: %s is larger than 64 bits can hold", name, text);
	if (err)
		return fail_set(-EINVAL, "%s: \"%s\" is no number of bytes, such as 512, 64K, 2M, 8G or 1T", name,
				text);
	return 0;
}

int units_parse_count(const char *name, const char *text, unsigned int least, unsigned int most, unsigned int *count)
{
	guint64 number;

	if (!text)
		return 0;
	if (!g_ascii_string_to_unsigned(text, 10, least, most, &number, NULL))
		return fail_set(-EINVAL, "%s: expected a number from %u to %u", name, least, most);
	*count = (unsigned int)number;
	return 0;
}

int units_parse_time(const char *name, const char *text, uint64_t *us)
{
	double number, unit;
	char *end;

	if (!g_ascii_isdigit(text[0]) || strspn(text, "0123456789.") != strcspn(text, "ums"))
		goto bad;
	number = g_ascii_strtod(text, &end);
	if (strcmp(end, "us") == 0)
		unit = 1e-6;
	else if (strcmp(end, "ms") == 0)
		unit = 1e-3;
	else if (strcmp(end, "s") == 0)
		unit = 1;
	else
		goto bad;
	if (number * unit > LONGEST_SECONDS)
		return fail_set(-EINVAL, "%s: %s is longer than %.0fs, the most there can be", name, text,
				LONGEST_SECONDS);
	*us = (uint64_t)(number * unit * 1e6 + 0.5);
	return 0;
bad:
	return fail_set(-EINVAL, "%s: \"%s\" is no time with a unit, such as 50us, 1.5ms or 2s", name, text);
}

char *units_trace_name(const char *trace)
{
	static const char *const suffixes[] = { ".gz", ".trace" };
	char *name = strcmp(trace, "-") ? g_path_get_basename(trace) : g_strdup("standard input");

	for (unsigned int i = 0; i < G_N_ELEMENTS(suffixes); i++) {
		if (g_str_has_suffix(name, suffixes[i]))
			name[strlen(name) - strlen(suffixes[i])] = '\0';
	}
	return units_printable(name);
}

char *units_printable(char *text)
{
	const char *odd;

	while (!g_utf8_validate(text, -1, &odd))
		text[odd - text] = '?';
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		/* Those of ISO 8859-1 have two bytes in UTF-8. */
		if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			*c = c[1] = '?';
		else if (*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	return text;
}

size_t units_fit(const char *text, unsigned int columns, unsigned int *left)
{
	const char *at = text;

	while (*at) {
		gunichar c = g_utf8_get_char_validated(at, -1);
		bool valid = c <= MAX_CHARACTER;
		unsigned int width = valid && g_unichar_iszerowidth(c) ? 0 : valid && g_unichar_iswide(c) ? 2 : 1;

		if (width > columns)
			break;
		columns -= width;
		at += valid ? g_unichar_to_utf8(c, NULL) : 1;
	}
	*left = columns;
	return (size_t)(at - text);
}

void units_print_cell(FILE *out, const char *text, unsigned int width)
{
	unsigned int left;
	size_t length = units_fit(text, width, &left);

	fprintf(out, "%.*s%*s", (int)length, text, (int)left, "");
}

void units_print_padded(FILE *out, const char *text, unsigned int width)
{
	unsigned int left;

	units_fit(text, width, &left);
	fprintf(out, "%s%*s", text, (int)left, "");
}

unsigned int units_terminal(int fd, unsigned int *lines)
{
	struct winsize size = { 0 };

	if (ioctl(fd, TIOCGWINSZ, &size))
		size = (struct winsize){ 0 };
	if (lines)
		*lines = size.ws_row ? size.ws_row : UINT_MAX;
	return size.ws_col ? size.ws_col : UINT_MAX;
}

void units_format_bytes(char text[UNITS_TEXT], uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double number = (double)bytes;
	unsigned int unit;

	if (bytes < 1024) {
		snprintf(text, UNITS_TEXT, "%u B", (unsigned int)bytes);
		return;
	}
	for (unit = 0, number /= 1024; number >= 1024 && unit + 1 < G_N_ELEMENTS(units); unit++)
		number /= 1024;
	snprintf(text, UNITS_TEXT, "%.*f %s", number < 10 ? 2 : number < 100 ? 1 : 0, number, units[unit]);
}

void units_format_count(char text[UNITS_TEXT], uint64_t count)
{
	char digits[UNITS_TEXT];
	size_t length, from, to = 0;

	length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, (uint64_t)count);
	for (from = 0; from < length; from++) {
		if (from && (length - from) % 3 == 0)
			text[to++] = ',';
		text[to++] = digits[from];
	}
	text[to] = '\0';
}

void units_format_seconds(char text[UNITS_TEXT], double seconds)
{
	static const struct {
		double least;
		double factor;
		const char *name;
	} units[] = {
		{ 1, 1, "s" },
		{ 1e-3, 1e3, "ms" },
		{ 0, 1e6, "us" },
	};
	unsigned int unit = 0;
	double number;

	while (seconds < units[unit].least)
		unit++;
	number = seconds * units[unit].factor;
	snprintf(text, UNITS_TEXT, "%.*f %s", number < 10 ? 2 : number < 100 ? 1 : 0, number, units[unit].name);
}

/* A line of the text, which begins behind @at columns. */
static void print_line(FILE *out, unsigned int indent, const char *line, size_t at)
{
	const char *space, *start = line;

	for (; at + strlen(line) > WIDTH; line = space + 1, at = indent) {
		space = g_strrstr_len(line, (gssize)(WIDTH - at) + 1, " ");
		/* No break inside what stands in the first line before the indent, nor inside a word. */
		if (!space || (!at && space < start + indent))
			space = strchr(at ? line : line + indent, ' ');
		if (!space)
			break;
		fprintf(out, "%.*s\n%*s", (int)(space - line), line, (int)indent, "");
	}
	fprintf(out, "%s\n", line);
}

void units_print_wrapped(FILE *out, unsigned int indent, const char *format, ...)
{
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;
	va_list args;

	va_start(args, format);
	text = g_strdup_vprintf(format, args);
	va_end(args);
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		if (line != lines)
			fprintf(out, "%*s", (int)indent, "");
		print_line(out, indent, *line, line == lines ? 0 : indent);
	}
}
