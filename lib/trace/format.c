// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "trace/format.h"
#include "trace/layout.h"
#include "util/tag.h"

/* By hand: of a program that makes a call each microsecond, printf() would take a core of its own. */
static char *put_number(char *at, uint64_t number, unsigned int base)
{
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	while (n)
		*at++ = digits[--n];
	return at;
}

static char *put_field(char *at, uint64_t number)
{
	*at++ = ' ';
	return put_number(at, number, 10);
}

static char *put_text(char *at, const char *text)
{
	return stpcpy(at, text);
}

static char *put_address(char *at, uint64_t addr)
{
	return put_number(put_text(at, " 0x"), addr, 16);
}

/* A blank would end the field, and "%" begins what stands for a byte. */
static char *put_name(char *at, const char *name)
{
	for (; *name; name++) {
		if (*name == ' ' || *name == '%')
			at = put_text(at, *name == ' ' ? "%20" : "%25");
		else
			*at++ = *name;
	}
	return at;
}

size_t format_head(char *text)
{
	return (size_t)snprintf(text, FORMAT_MOST, "# vpmm-trace 2 source=libvpmm-%s\n", PACKAGE_VERSION);
}

/* Streams are numbered in the order in which they appear. */
static char *put_stream(struct format *format, char *at, uint64_t stream)
{
	gpointer key = GSIZE_TO_POINTER(stream);
	guint known = format->last_number;

	if (!known || stream != format->last)
		known = GPOINTER_TO_UINT(g_hash_table_lookup(format->streams, key));
	if (!known) {
		known = g_hash_table_size(format->streams) + 1;
		g_hash_table_insert(format->streams, key, GUINT_TO_POINTER(known));
	}
	format->last = stream;
	format->last_number = known;
	return put_field(at, known - 1);
}

/* A field, by its letter in struct record_layout. */
static char *put_letter(struct format *format, const struct record *record, char *at, char letter)
{
	switch (letter) {
	case 'i':
		return put_address(at, record->addr);
	case 't':
		return put_address(at, record->to);
	case 'b':
	case 'B':
		return put_field(at, record->bytes);
	case 'S':
		if (record->flags & RECORD_ANY)
			return put_text(at, " any");
		/* fall through */
	case 's':
		return put_stream(format, at, record->stream);
	case 'p':
		return put_field(at, record->pool);
	case 'w':
		return put_text(put_text(at, " "), record->text);
	case 'c':
		return put_field(at, record->capture);
	default:
		return put_field(at, record->addr);
	}
}

static char *put_tag(const struct record *record, char *at)
{
	at = put_name(put_text(at, " tag="), tag_name(record->tag));
	if (record->op == RECORD_MALLOC && tag_pausable(record->tag))
		at = put_text(at, " pausable");
	if (record->flags & RECORD_DROP)
		at = put_text(at, " drop");
	if (record->flags & RECORD_STAY)
		at = put_text(at, " stay");
	return at;
}

static char *put_attributes(const struct record *record, char *at)
{
	if (record->flags & RECORD_ZERO)
		at = put_text(at, " zero");
	if (record->flags & RECORD_IDLE)
		at = put_text(at, " idle");
	if (record->flags & RECORD_COPIED)
		at = put_text(at, " copied");
	if (record->tag)
		at = put_tag(record, at);
	if (record->op == RECORD_MALLOC && record->max)
		at = put_number(put_text(at, " max="), record->max, 10);
	if (record->capture && record->op != RECORD_GRAPH_RETIRE && record->op != RECORD_CAPTURE_GROUP)
		at = put_number(put_text(at, " capture="), record->capture, 10);
	if (record->pool != 1)
		at = put_number(put_text(at, " pool="), record->pool, 10);
	return at;
}

size_t format_record(struct format *format, const struct record *record, char *text)
{
	const struct record_layout *layout = &record_layouts[record->op];
	uint64_t us = record->time > format->start ? (record->time - format->start) / 1000 : 0;
	char *at = text;

	/* A thread may have looked at the clock before another that has a smaller number. */
	format->us = MAX(format->us, us);
	at = put_number(at, format->us, 10);
	*at++ = ' ';
	*at++ = layout->letter;
	for (const char *letter = layout->fields; *letter; letter++)
		at = put_letter(format, record, at, *letter);
	if (layout->attributes)
		at = put_attributes(record, at);
	*at++ = '\n';
	return (size_t)(at - text);
}
