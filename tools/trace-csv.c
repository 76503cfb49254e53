// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "trace-csv.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "trace.h"

#define US_PER_DAY (UINT64_C(24) * 60 * 60 * 1000 * 1000)

/* The columns that a table has to have; others are not looked at. */
enum { RMM_TIME, RMM_ACTION, RMM_POINTER, RMM_SIZE, RMM_STREAM };
enum { BUFFER_LOWER, BUFFER_UPPER, BUFFER_SIZE };

#define COLUMNS 5

/* A record, and the line that it comes from. */
struct entry {
	struct trace_record record;
	uint32_t line;
};

struct format {
	const char *columns[COLUMNS + 1];
	int (*add)(struct trace_csv *csv, const struct trace_place *place);
	bool sorted;			/* each line can be applied once it is read */
};

/**
 * struct trace_csv - a table
 * @format: what it is
 * @column: which column of the file has each that is needed
 * @fields: of the line, those that are needed
 * @entries: of struct entry
 * @next: the first of them that was not taken
 * @ready: those before can be
 * @us: the latest time of a log, without the days
 * @days: that have passed in it, in microseconds
 * @buffers: of a problem
 */
struct trace_csv {
	const struct format *format;
	unsigned int column[COLUMNS];
	char *fields[COLUMNS];
	GArray *entries;
	guint next;
	guint ready;
	uint64_t us;
	uint64_t days;
	uint64_t buffers;
};

static void add_record(struct trace_csv *csv, const struct trace_place *place, const struct trace_record *record)
{
	struct entry entry = { .record = *record, .line = place->line };

	entry.record.pool = 1;
	g_array_append_val(csv->entries, entry);
	if (csv->format->sorted)
		csv->ready = csv->entries->len;
}

/* Digits, of which there are some and not more than @most; moves *@at behind them. */
static bool read_digits(const char **at, unsigned int most, uint64_t *value)
{
	const char *start = *at;

	for (*value = 0; g_ascii_isdigit(**at); (*at)++)
		*value = *value * 10 + (uint64_t)g_ascii_digit_value(**at);
	return *at > start && *at - start <= (ptrdiff_t)most;
}

/* "10:00:00.000001", of older versions with a colon for the point. A time of the day: it goes back at midnight. */
static bool read_clock(const char *at, uint64_t *us)
{
	uint64_t part, total = 0;
	const char *fraction;

	for (unsigned int i = 0; i < 3; i++) {
		if (!read_digits(&at, 2, &part))
			return false;
		total = total * 60 + part;
		if (!*at && i == 2)
			break;
		if (*at != ':' && !(i == 2 && *at == '.'))
			return false;
		at++;
	}
	total *= 1000 * 1000;
	fraction = at;
	if (*at && (!read_digits(&at, 6, &part) || *at))
		return false;
	for (ptrdiff_t digits = at - fraction; at > fraction && digits < 6; digits++)
		part *= 10;
	*us = total + (at > fraction ? part : 0);
	return *us < US_PER_DAY;
}

/* Threads note the time before they agree on an order, so it can go back a little. */
static int read_time(struct trace_csv *csv, const struct trace_place *place, uint64_t *us)
{
	if (!read_clock(csv->fields[RMM_TIME], us))
		return trace_refuse(place, "the time is ", csv->fields[RMM_TIME],
				    ", expected hours:minutes:seconds.microseconds");
	if (*us < csv->us && csv->us - *us > US_PER_DAY / 2)
		csv->days += US_PER_DAY;
	else if (*us < csv->us)
		*us = csv->us;
	csv->us = *us;
	*us += csv->days;
	return 0;
}

/* An allocation of no bytes has no pointer, and is nothing to a pool. */
static int read_pointer(const struct trace_place *place, const char *field, uint64_t *value)
{
	*value = 0;
	return strcmp(field, "(nil)") == 0 ? 0 : trace_parse_number(place, field, "pointer", SIZE_MAX, value);
}

static int add_call(struct trace_csv *csv, const struct trace_place *place)
{
	const char *action = csv->fields[RMM_ACTION];
	struct trace_record record = { .op = 'a' };
	int err;

	if (strcmp(action, "free") == 0) {
		record.op = 'f';
	} else if (strcmp(action, "allocate failure") == 0) {
		record.op = 'x';
	} else if (strcmp(action, "allocate") != 0) {
		return trace_refuse(place, "the action is ", action, ", none of allocate, free and allocate failure");
	}
	err = read_time(csv, place, &record.us);
	if (!err)
		err = read_pointer(place, csv->fields[RMM_POINTER], &record.id);
	if (!err)
		err = trace_parse_number(place, csv->fields[RMM_SIZE], "size",
				  record.op == 'x' ? UINT64_MAX : PTRDIFF_MAX, &record.bytes);
	if (!err)
		err = trace_parse_number(place, csv->fields[RMM_STREAM], "stream", TRACE_ANY - 1, &record.stream);
	if (!err && (record.id || record.op == 'x'))
		add_record(csv, place, &record);
	return err;
}

/* A buffer is not there any more at the time of its end. */
static int add_buffer(struct trace_csv *csv, const struct trace_place *place)
{
	struct trace_record begin = { .op = 'a', .id = ++csv->buffers }, end;
	int err;

	err = trace_parse_number(place, csv->fields[BUFFER_LOWER], "lower time", INT64_MAX, &begin.us);
	if (!err)
		err = trace_parse_number(place, csv->fields[BUFFER_SIZE], "size", PTRDIFF_MAX, &begin.bytes);
	end = begin;
	end.op = 'f';
	if (!err)
		err = trace_parse_number(place, csv->fields[BUFFER_UPPER], "upper time", INT64_MAX, &end.us);
	if (!err && end.us <= begin.us)
		err = trace_damaged(place, "the upper time %" PRIu64 " is not above the lower, %"
				    PRIu64, end.us, begin.us);
	if (err)
		return err;
	add_record(csv, place, &begin);
	add_record(csv, place, &end);
	return 0;
}

static const struct format formats[] = {
	{ { "Time", "Action", "Pointer", "Size", "Stream", NULL }, add_call, true },
	{ { "lower", "upper", "size", NULL }, add_buffer, false },
};

/* Whether a header has the columns of a format; notes where they are. */
static bool find_columns(const struct format *format, const char *line, unsigned int *column)
{
	g_auto(GStrv) names = g_strsplit(line, ",", -1);

	for (unsigned int i = 0; format->columns[i]; i++) {
		unsigned int n = 0;

		while (names[n] && strcmp(g_strstrip(names[n]), format->columns[i]) != 0)
			n++;
		if (!names[n])
			return false;
		column[i] = n;
	}
	return true;
}

int trace_csv_begin(struct trace_place *place, const char *line, struct trace_csv **csv)
{
	unsigned int column[COLUMNS] = { 0 };

	*csv = NULL;
	if (!strchr(line, ',') || line[0] == '#')
		return 0;
	for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
		if (!find_columns(&formats[i], line, column))
			continue;
		*csv = g_new0(struct trace_csv, 1);
		(*csv)->format = &formats[i];
		memcpy((*csv)->column, column, sizeof(column));
		(*csv)->entries = g_array_new(FALSE, FALSE, sizeof(struct entry));
		place->version = 1;
		place->hexadecimal = true;
		place->known = true;
		return 0;
	}
	return trace_damaged(place, "a table without the columns Time, Action, Pointer, Size and Stream of RMM's logs, "
			     "or lower, upper and size of minimalloc's problems");
}

int trace_csv_add(struct trace_csv *csv, const struct trace_place *place, char *line)
{
	const char *const *columns = csv->format->columns;
	char *field;

	memset(csv->fields, 0, sizeof(csv->fields));
	for (unsigned int number = 0; (field = strsep(&line, ",")); number++) {
		for (unsigned int i = 0; columns[i]; i++) {
			if (csv->column[i] == number)
				csv->fields[i] = g_strstrip(field);
		}
	}
	for (unsigned int i = 0; columns[i]; i++) {
		if (!csv->fields[i])
			return trace_damaged(place, "the column %s is missing", columns[i]);
	}
	return csv->format->add(csv, place);
}

/* What ends comes before what begins at the same time. */
static int compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	if (left->record.us != right->record.us)
		return left->record.us < right->record.us ? -1 : 1;
	if (left->record.op != right->record.op)
		return left->record.op == 'f' ? -1 : 1;
	return (left->line > right->line) - (left->line < right->line);
}

void trace_csv_end(struct trace_csv *csv)
{
	if (!csv->format->sorted)
		g_array_sort(csv->entries, compare);
	csv->ready = csv->entries->len;
}

bool trace_csv_next(struct trace_csv *csv, struct trace_place *place, struct trace_record *record)
{
	const struct entry *entry;

	if (csv->next == csv->ready) {
		if (csv->ready)
			g_array_set_size(csv->entries, 0);
		csv->next = 0;
		csv->ready = 0;
		return false;
	}
	entry = &g_array_index(csv->entries, struct entry, csv->next++);
	*record = entry->record;
	place->line = entry->line;
	return true;
}

void trace_csv_free(struct trace_csv *csv)
{
	if (!csv)
		return;
	g_array_free(csv->entries, TRUE);
	g_free(csv);
}

const char *trace_strange(const char *start, size_t length)
{
	static const struct {
		const char *magic;
		size_t length;
		const char *what;
	} kinds[] = {
#define MAGIC(text) (text), sizeof(text) - 1
		{ MAGIC("\200\002"), "a pickle of Python, of which python3 -m vpmm.convert makes a trace if it is a "
		  "snapshot of PyTorch" },
		{ MAGIC("\200\003"), NULL },
		{ MAGIC("\200\004"), NULL },
		{ MAGIC("\200\005"), NULL },
		{ MAGIC("PK\003\004"), "a zip archive, as torch.save() writes it" },
		{ MAGIC("{"), "JSON" },
		{ MAGIC("["), "JSON" },
		{ MAGIC("\177ELF"), "a program" },
		{ MAGIC("SQLite format 3"), "a database of SQLite" },
		{ MAGIC("(\265/\375"), "compressed by zstd" },
		{ MAGIC("\3757zXZ"), "compressed by xz" },
		{ MAGIC("BZh"), "compressed by bzip2" },
#undef MAGIC
	};
	const char *what = NULL;

	for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
		what = kinds[i].what ? kinds[i].what : what;
		if (length >= kinds[i].length && memcmp(start, kinds[i].magic, kinds[i].length) == 0)
			return what;
	}
	return NULL;
}
