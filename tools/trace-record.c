// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "trace-record.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "fail.h"
#include "trace.h"
#include "trace/layout.h"

#define VERSION_LINE "# vpmm-trace "

/* No machine has so many; a reader may have a list for each device up to the last. */
#define DEVICE_MOST 1023

static const struct record_layout first_version[] = {
	{ 'a', "ibs", NULL, "microseconds op id bytes stream" },
	{ 'f', "ibs", NULL, "microseconds op id bytes stream" },
};

int trace_damaged(const struct trace_place *place, const char *format, ...)
{
	va_list args;
	g_autofree char *what = NULL;

	va_start(args, format);
	what = g_strdup_vprintf(format, args);
	va_end(args);
	fail_set(-EBADMSG, "%s:%" G_GUINT32_FORMAT ": %s%s", place->name, place->line, what,
		 place->known ? "" : "; this is no trace: see vpmm-trace(5)");
	return -EBADMSG;
}

int trace_refuse(const struct trace_place *place, const char *before, const char *field, const char *after)
{
	g_autofree char *start = g_strndup(field, 40), *quoted = g_strescape(start, NULL);

	return trace_damaged(place, "%s\"%s\"%s", before, quoted, after);
}

/* The next field of the line, NULL at its end. */
static char *next_field(char **line)
{
	char *field;

	do
		field = strsep(line, " \t");
	while (field && !*field);
	return field;
}

/* For an id, also hexadecimal digits behind 0x. */
int trace_parse_number(const struct trace_place *p, const char *field, const char *what, uint64_t most, uint64_t *value)
{
	bool hexadecimal = p->hexadecimal && g_str_has_prefix(field, "0x") && field[2];
	g_autofree char *is = NULL;
	g_autoptr(GError) error = NULL;

	if (g_ascii_string_to_unsigned(hexadecimal ? field + 2 : field, hexadecimal ? 16 : 10, 0, most, value, &error))
		return 0;
	is = g_strdup_printf("the %s is ", what);
	if (g_error_matches(error, G_NUMBER_PARSER_ERROR, G_NUMBER_PARSER_ERROR_INVALID))
		return trace_refuse(p, is, field, ", which is no number");
	return trace_damaged(p, "the %s is %.40s, more than the %" PRIu64 " there can be", what, field, most);
}

static int missing(const struct trace_place *p, const char *what)
{
	return trace_damaged(p, "the %s is missing (%s)", what, p->fields);
}

static int parse_number(const struct trace_place *p, const char *field, const char *what, uint64_t most, uint64_t *value)
{
	return field ? trace_parse_number(p, field, what, most, value) : missing(p, what);
}

/* NULL: there is no such record, which is explained. */
static const struct record_layout *parse_op(struct trace_place *p, const char *field)
{
	const struct record_layout *layouts = p->version == 1 ? first_version : record_layouts;
	size_t count = p->version == 1 ? G_N_ELEMENTS(first_version) : G_N_ELEMENTS(record_layouts);

	if (!field) {
		missing(p, "op");
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		if (*field == layouts[i].letter && !field[1]) {
			p->fields = layouts[i].names;
			return &layouts[i];
		}
	}
	trace_refuse(p, "the op is ", field, p->version == 1 ? ", neither a (allocate) nor f (free)" :
		     ", which is no record of version 2");
	return NULL;
}

static int parse_field(const struct trace_place *p, const char *field, char letter, struct trace_record *record)
{
	switch (letter) {
	case 'i':
		return parse_number(p, field, "id", SIZE_MAX, &record->id);
	case 't':
		return parse_number(p, field, "new id", SIZE_MAX, &record->to);
	case 'b':
		return parse_number(p, field, "size", PTRDIFF_MAX, &record->bytes);
	/* What is not a block's: a program can ask for any number, and with the largest for a page there is no pool. */
	case 'B':
		return parse_number(p, field, "size", UINT64_MAX, &record->bytes);
	case 'S':
		if (g_strcmp0(field, "any") == 0) {
			record->stream = TRACE_ANY;
			return 0;
		}
		/* fall through */
	/* A small number, or in the second version what the driver calls the stream. */
	case 's':
		return parse_number(p, field, "stream", p->version == 1 ? UINT32_MAX : TRACE_ANY - 1, &record->stream);
	case 'p':
		return parse_number(p, field, "pool", UINT32_MAX, &record->pool);
	case 'c':
		return parse_number(p, field, "capture", UINT64_MAX, &record->capture);
	case 'n':
		return parse_number(p, field, "group", UINT64_MAX, &record->other);
	case 'd':
		return parse_number(p, field, "device", DEVICE_MOST, &record->other);
	default:
		return field ? 0 : missing(p, "backend");
	}
}

/* Returns the text behind a name in a field; NULL: the field begins with another name. */
static const char *behind(const char *field, const char *name)
{
	return g_str_has_prefix(field, name) ? field + strlen(name) : NULL;
}

/* What an attribute that is one word stands for; 0: there is no such. */
static unsigned int flag_of(const char *attributes, const char *field)
{
	static const struct {
		const char *word;
		unsigned int flag;
	} words[] = { { "zero", TRACE_ZERO }, { "idle", TRACE_IDLE }, { "copied", TRACE_COPIED },
		    { "used", TRACE_USED }, { "pausable", TRACE_PAUSABLE }, { "drop", TRACE_DROP },
		    { "stay", TRACE_STAY } };

	for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
		if (strchr(attributes, words[i].word[0]) && strcmp(field, words[i].word) == 0)
			return words[i].flag;
	}
	return 0;
}

static int parse_max(const struct trace_place *p, const char *field, struct trace_record *record)
{
	int err;

	err = trace_parse_number(p, field, "maximum", PTRDIFF_MAX, &record->max);
	if (!err && record->max < record->bytes)
		err = trace_damaged(p, "the maximum is %" PRIu64 ", less than the size", record->max);
	return err;
}

/* "%20" stands for a blank, and "%25" for "%". */
static bool decode_name(const char *field, char *name)
{
	size_t n = 0;

	for (; *field && n < TRACE_NAME_MOST; field++) {
		char c = *field;

		if (c == '%') {
			if (!g_str_has_prefix(field, "%20") && !g_str_has_prefix(field, "%25"))
				return false;
			field += 2;
			c = *field == '0' ? ' ' : '%';
		}
		if (g_ascii_iscntrl(c))
			return false;
		name[n++] = c;
	}
	name[n] = 0;
	return n && !*field;
}

static int parse_attribute(const struct trace_place *p, const struct record_layout *layout, const char *field,
			   struct trace_record *record)
{
	const char *attributes = layout->attributes, *value;
	unsigned int flag = attributes ? flag_of(attributes, field) : 0;
	g_autofree char *after = NULL;

	record->flags |= flag;
	if (flag)
		return 0;
	if (attributes && (value = behind(field, "pool=")))
		return trace_parse_number(p, value, "pool", UINT32_MAX, &record->pool);
	if (attributes && !strchr(layout->fields, 'c') && (value = behind(field, "capture=")))
		return trace_parse_number(p, value, "capture", UINT64_MAX, &record->capture);
	if (attributes && strchr(attributes, 'm') && (value = behind(field, "max=")))
		return parse_max(p, value, record);
	if (attributes && strchr(attributes, 't') && (value = behind(field, "tag=")))
		return decode_name(value, record->tag) ? 0 :
		       trace_refuse(p, "the tag is ", value, ", which is no name of one");
	if (attributes && strchr(attributes, 'M') && (value = behind(field, "moved=")))
		return trace_parse_number(p, value, "size", PTRDIFF_MAX, &record->moved);
	after = g_strdup_printf(" after the last field (%s)", p->fields);
	return trace_refuse(p, "", field, after);
}

int trace_parse_record(struct trace_place *place, char *line, struct trace_record *record)
{
	const struct record_layout *layout;
	const char *field;
	int err;

	*record = (struct trace_record){ .pool = 1 };
	place->fields = place->version == 1 ? first_version->names : "microseconds op ...";
	err = parse_number(place, next_field(&line), "time", INT64_MAX, &record->us);
	if (err)
		return err;
	layout = parse_op(place, next_field(&line));
	if (!layout)
		return -EBADMSG;
	record->op = layout->letter;
	for (const char *letter = layout->fields; *letter && !err; letter++)
		err = parse_field(place, next_field(&line), *letter, record);
	while (!err && (field = next_field(&line)))
		err = parse_attribute(place, layout, field, record);
	return err;
}

int trace_parse_version(struct trace_place *place, const char *line)
{
	const char *version = behind(line, VERSION_LINE);
	g_autofree char *word = NULL;

	place->version = 1;
	if (!version)
		return 0;
	place->known = true;
	version += strspn(version, " \t");
	word = g_strndup(version, strcspn(version, " \t"));
	if (strcmp(word, "1") != 0 && strcmp(word, "2") != 0)
		return trace_refuse(place, "the trace is of version ", word, ", and this program reads 1 and 2");
	place->version = (unsigned int)(*word - '0');
	place->hexadecimal = place->version == 2;
	return 0;
}
