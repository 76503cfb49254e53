// SPDX-License-Identifier: LGPL-2.1-or-later
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

static const struct record_layout first_version[] = {
	{ 'a', "ibs", NULL, "microseconds op id bytes stream" },
	{ 'f', "ibs", NULL, "microseconds op id bytes stream" },
};

/* Where the parser is in a line. */
struct cursor {
	const char *at;
	const char *end;
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

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The next field of the line, NULL and no length at its end. */
static const char *next_field(struct cursor *c, size_t *length)
{
	const char *start;

	while (c->at < c->end && is_blank(*c->at))
		c->at++;
	start = c->at;
	while (c->at < c->end && !is_blank(*c->at))
		c->at++;
	*length = (size_t)(c->at - start);
	return *length ? start : NULL;
}

char *trace_quote(const char *field, size_t length)
{
	g_autofree char *text = g_strndup(field, MIN(length, 40));
	char *escaped = g_strescape(text, NULL);

	return escaped;
}

static int missing(const struct trace_place *p, const char *what)
{
	return trace_damaged(p, "the %s is missing (%s)", what, p->fields);
}

/* Digits, and for an id hexadecimal ones behind 0x. */
static bool digit_value(char c, unsigned int base, unsigned int *digit)
{
	int value = base == 16 ? g_ascii_xdigit_value(c) : g_ascii_digit_value(c);

	*digit = (unsigned int)value;
	return value >= 0;
}

int trace_parse_number(const struct trace_place *p, const char *field, size_t length, const char *what, uint64_t most,
		       uint64_t *value)
{
	unsigned int base = length > 2 && p->hexadecimal && field[0] == '0' && field[1] == 'x' ? 16 : 10, digit;
	g_autofree char *quoted = NULL;
	uint64_t number = 0;

	for (size_t i = base == 16 ? 2 : 0; i < length; i++) {
		if (!digit_value(field[i], base, &digit)) {
			quoted = trace_quote(field, length);
			return trace_damaged(p, "the %s is \"%s\", which is no number", what, quoted);
		}
		if (number > (most - digit) / base) {
			quoted = trace_quote(field, length);
			return trace_damaged(p, "the %s is %s, more than the %" PRIu64 " there can be", what, quoted,
					     (uint64_t)most);
		}
		number = number * base + digit;
	}
	*value = number;
	return length ? 0 : trace_damaged(p, "the %s is \"\", which is no number", what);
}

static int parse_number(const struct trace_place *p, struct cursor *c, const char *what, uint64_t most, uint64_t *value)
{
	const char *field;
	size_t length;

	field = next_field(c, &length);
	return field ? trace_parse_number(p, field, length, what, most, value) : missing(p, what);
}

/* NULL: there is no such record, which is explained. */
static const struct record_layout *parse_op(struct trace_place *p, struct cursor *c)
{
	const struct record_layout *layouts = p->version == 1 ? first_version : record_layouts;
	size_t count = p->version == 1 ? G_N_ELEMENTS(first_version) : G_N_ELEMENTS(record_layouts);
	g_autofree char *quoted = NULL;
	const char *field;
	size_t length;

	field = next_field(c, &length);
	if (!field) {
		missing(p, "op");
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		if (length == 1 && *field == layouts[i].letter) {
			p->fields = layouts[i].names;
			return &layouts[i];
		}
	}
	quoted = trace_quote(field, length);
	if (p->version == 1)
		trace_damaged(p, "the op is \"%s\", neither a (allocate) nor f (free)", quoted);
	else
		trace_damaged(p, "the op is \"%s\", which is no record of version 2", quoted);
	return NULL;
}

static int parse_word(const struct trace_place *p, struct cursor *c, const char *what)
{
	size_t length;

	return next_field(c, &length) ? 0 : missing(p, what);
}

/* A small number, or in the second version what the driver calls the stream. */
static int parse_stream(const struct trace_place *p, struct cursor *c, uint64_t *stream)
{
	return parse_number(p, c, "stream", p->version == 1 ? UINT32_MAX : TRACE_ANY - 1, stream);
}

/* A stream, or "any". */
static int parse_any_stream(const struct trace_place *p, struct cursor *c, uint64_t *stream)
{
	struct cursor ahead = *c;
	const char *field;
	size_t length;

	field = next_field(&ahead, &length);
	if (!field || length != strlen("any") || memcmp(field, "any", length) != 0)
		return parse_stream(p, c, stream);
	*c = ahead;
	*stream = TRACE_ANY;
	return 0;
}

static int parse_field(const struct trace_place *p, struct cursor *c, char letter, struct trace_record *record)
{
	switch (letter) {
	case 'i':
		return parse_number(p, c, "id", SIZE_MAX, &record->id);
	case 't':
		return parse_number(p, c, "new id", SIZE_MAX, &record->to);
	case 'b':
		return parse_number(p, c, "size", PTRDIFF_MAX, &record->bytes);
	/* What is not a block's: a program can ask for any number, and with the largest for a page there is no pool. */
	case 'B':
		return parse_number(p, c, "size", UINT64_MAX, &record->bytes);
	case 's':
		return parse_stream(p, c, &record->stream);
	case 'S':
		return parse_any_stream(p, c, &record->stream);
	case 'p':
		return parse_number(p, c, "pool", UINT32_MAX, &record->pool);
	case 'c':
		return parse_number(p, c, "capture", UINT64_MAX, &record->capture);
	case 'n':
		return parse_number(p, c, "group", UINT64_MAX, &record->other);
	case 'd':
		return parse_number(p, c, "device", UINT32_MAX, &record->other);
	default:
		return parse_word(p, c, "backend");
	}
}

/* Whether a field has this name in front of a "="; then what is behind it. */
static bool is_named(const char *name, const char **field, size_t *length)
{
	size_t named = strlen(name);

	if (*length < named || memcmp(*field, name, named) != 0)
		return false;
	*field += named;
	*length -= named;
	return true;
}

/* What an attribute that is one word stands for; 0: there is no such. */
static unsigned int flag_of(const char *attributes, const char *field, size_t length)
{
	static const struct {
		const char *word;
		unsigned int flag;
	} words[] = { { "zero", TRACE_ZERO }, { "idle", TRACE_IDLE }, { "copied", TRACE_COPIED },
		    { "used", TRACE_USED }, { "pausable", TRACE_PAUSABLE }, { "drop", TRACE_DROP },
		    { "stay", TRACE_STAY } };

	for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
		if (strchr(attributes, words[i].word[0]) && length == strlen(words[i].word) &&
		    memcmp(field, words[i].word, length) == 0)
			return words[i].flag;
	}
	return 0;
}

static int parse_max(const struct trace_place *p, const char *field, size_t length, struct trace_record *record)
{
	int err;

	err = trace_parse_number(p, field, length, "maximum", PTRDIFF_MAX, &record->max);
	if (!err && record->max < record->bytes)
		err = trace_damaged(p, "the maximum is %" PRIu64 ", less than the size",
				    (uint64_t)record->max);
	return err;
}

/* "%20" stands for a blank, and "%25" for "%". */
static bool decode_name(const char *field, size_t length, char *name)
{
	const char *end = field + length;
	size_t n = 0;

	while (field < end && n < TRACE_NAME_MOST) {
		char c = *field++;

		if (c == '%') {
			if (end - field < 2 || field[0] != '2' || (field[1] != '0' && field[1] != '5'))
				return false;
			c = field[1] == '0' ? ' ' : '%';
			field += 2;
		}
		if ((unsigned char)c < ' ' || c == 0x7f)
			return false;
		name[n++] = c;
	}
	name[n] = 0;
	return n && field == end;
}

static int parse_tag(const struct trace_place *p, const char *field, size_t length, char *name)
{
	g_autofree char *quoted = NULL;

	if (decode_name(field, length, name))
		return 0;
	quoted = trace_quote(field, length);
	return trace_damaged(p, "the tag is \"%s\", which is no name of one", quoted);
}

static int parse_attribute(const struct trace_place *p, const struct record_layout *layout, const char *field,
			   size_t length, struct trace_record *record)
{
	const char *attributes = layout->attributes;
	unsigned int flag = attributes ? flag_of(attributes, field, length) : 0;
	g_autofree char *quoted = NULL;

	record->flags |= flag;
	if (flag)
		return 0;
	if (attributes && is_named("pool=", &field, &length))
		return trace_parse_number(p, field, length, "pool", UINT32_MAX, &record->pool);
	if (attributes && !strchr(layout->fields, 'c') && is_named("capture=", &field, &length))
		return trace_parse_number(p, field, length, "capture", UINT64_MAX, &record->capture);
	if (attributes && strchr(attributes, 'm') && is_named("max=", &field, &length))
		return parse_max(p, field, length, record);
	if (attributes && strchr(attributes, 't') && is_named("tag=", &field, &length))
		return parse_tag(p, field, length, record->tag);
	if (attributes && strchr(attributes, 'M') && is_named("moved=", &field, &length))
		return trace_parse_number(p, field, length, "size", PTRDIFF_MAX, &record->moved);
	quoted = trace_quote(field, length);
	return trace_damaged(p, "\"%s\" after the last field (%s)", quoted, p->fields);
}

int trace_parse_record(struct trace_place *place, const char *line, size_t length, struct trace_record *record)
{
	struct cursor c = { line, line + length };
	const struct record_layout *layout;
	const char *field;
	size_t width;
	int err;

	*record = (struct trace_record){ .pool = 1 };
	place->fields = place->version == 1 ? first_version->names : "microseconds op ...";
	err = parse_number(place, &c, "time", INT64_MAX, &record->us);
	if (err)
		return err;
	layout = parse_op(place, &c);
	if (!layout)
		return -EBADMSG;
	record->op = layout->letter;
	for (const char *letter = layout->fields; *letter && !err; letter++)
		err = parse_field(place, &c, *letter, record);
	while (!err && (field = next_field(&c, &width)))
		err = parse_attribute(place, layout, field, width, record);
	return err;
}

int trace_parse_version(struct trace_place *place, const char *line, size_t length)
{
	size_t named = strlen(VERSION_LINE), width;
	struct cursor c = { line, line + length };
	g_autofree char *quoted = NULL;
	const char *version;

	place->version = 1;
	if (length < named || memcmp(line, VERSION_LINE, named) != 0)
		return 0;
	place->known = true;
	c.at += named;
	version = next_field(&c, &width);
	if (version && width == 1 && (*version == '1' || *version == '2')) {
		place->version = (unsigned int)(*version - '0');
		place->hexadecimal = place->version == 2;
		return 0;
	}
	quoted = trace_quote(version ? version : "", width);
	return trace_damaged(place, "the trace is of version \"%s\", and this program reads 1 and 2", quoted);
}
