// SPDX-License-Identifier: LGPL-2.1-or-later
#include "trace.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "fail.h"
#include "input.h"

/* Also the longest line there can be. */
#define BLOCK (256 * 1024)

/* What is known while a trace is read; stands on the stack of trace_load(). */
struct reader {
	const char *name;		/* for messages */
	struct input *input;
	trace_progress_fn progress;
	void *progress_data;

	GArray *ops;			/* of struct trace_op */
	GHashTable *live;		/* id to the number of the operation that allocated it */
	GHashTable *streams;		/* number in the file to our number + 1 */
	GArray *spare_slots;		/* of uint32_t */
	uint32_t slots;
	size_t allocs;
	uint32_t line;
};

/* Where the parser is in a line. */
struct cursor {
	const char *at;
	const char *end;
};

static int damaged(const struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int damaged(const struct reader *r, const char *format, ...)
{
	va_list args;
	char *what;

	va_start(args, format);
	what = g_strdup_vprintf(format, args);
	va_end(args);
	fail_set(-EBADMSG, "%s:%" G_GUINT32_FORMAT ": %s", r->name, r->line, what);
	g_free(what);
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

/* Quotes a field for a message; what does not print is escaped. */
static char *quote(const char *field, size_t length)
{
	char *text = g_strndup(field, MIN(length, 40));
	char *escaped = g_strescape(text, NULL);

	g_free(text);
	return escaped;
}

static int parse_number(const struct reader *r, struct cursor *c, const char *what, uint64_t most, uint64_t *value)
{
	uint64_t number = 0;
	const char *field;
	size_t length, i;
	char *quoted;
	int err;

	field = next_field(c, &length);
	if (!field)
		return damaged(r, "the %s is missing (microseconds op id bytes stream)", what);
	for (i = 0; i < length; i++) {
		unsigned int digit = (unsigned int)(field[i] - '0');

		if (field[i] < '0' || field[i] > '9') {
			quoted = quote(field, length);
			err = damaged(r, "the %s is \"%s\", which is no number", what, quoted);
			g_free(quoted);
			return err;
		}
		if (number > (most - digit) / 10) {
			quoted = quote(field, length);
			err = damaged(r, "the %s is %s, more than the %" G_GUINT64_FORMAT " there can be", what,
				      quoted, (guint64)most);
			g_free(quoted);
			return err;
		}
		number = number * 10 + digit;
	}
	*value = number;
	return 0;
}

static int parse_op(const struct reader *r, struct cursor *c, bool *alloc)
{
	const char *field;
	size_t length;
	char *quoted;
	int err;

	field = next_field(c, &length);
	if (!field)
		return damaged(r, "the op is missing (microseconds op id bytes stream)");
	if (length == 1 && (*field == 'a' || *field == 'f')) {
		*alloc = *field == 'a';
		return 0;
	}
	quoted = quote(field, length);
	err = damaged(r, "the op is \"%s\", neither a (allocate) nor f (free)", quoted);
	g_free(quoted);
	return err;
}

static int parse_end(const struct reader *r, struct cursor *c)
{
	const char *field;
	size_t length;
	char *quoted;
	int err;

	field = next_field(c, &length);
	if (!field)
		return 0;
	quoted = quote(field, length);
	err = damaged(r, "\"%s\" after the last field (microseconds op id bytes stream)", quoted);
	g_free(quoted);
	return err;
}

static uint32_t stream_number(struct reader *r, uint64_t number)
{
	gpointer key = GSIZE_TO_POINTER((gsize)number);
	guint known = GPOINTER_TO_UINT(g_hash_table_lookup(r->streams, key));

	if (!known) {
		known = g_hash_table_size(r->streams) + 1;
		g_hash_table_insert(r->streams, key, GUINT_TO_POINTER(known));
	}
	return known - 1;
}

static uint32_t take_slot(struct reader *r)
{
	uint32_t slot;

	if (!r->spare_slots->len)
		return r->slots++;
	slot = g_array_index(r->spare_slots, uint32_t, r->spare_slots->len - 1);
	g_array_set_size(r->spare_slots, r->spare_slots->len - 1);
	return slot;
}

static int track(struct reader *r, struct trace_op *op, uint64_t id)
{
	gpointer key = GSIZE_TO_POINTER((gsize)id);
	const struct trace_op *birth = NULL;
	gpointer number;

	if (g_hash_table_lookup_extended(r->live, key, NULL, &number))
		birth = &g_array_index(r->ops, struct trace_op, GPOINTER_TO_SIZE(number));
	if (op->alloc) {
		if (birth)
			return damaged(r, "allocates %" G_GUINT64_FORMAT ", which line %" G_GUINT32_FORMAT
				       " did and nobody has freed", (guint64)id, birth->line);
		op->slot = take_slot(r);
		r->allocs++;
		g_hash_table_insert(r->live, key, GSIZE_TO_POINTER((gsize)r->ops->len));
		return 0;
	}
	if (!birth)
		return damaged(r, "frees %" G_GUINT64_FORMAT ", which is not allocated", (guint64)id);
	if (birth->bytes != op->bytes)
		return damaged(r, "frees %zu bytes of %" G_GUINT64_FORMAT ", for which line %" G_GUINT32_FORMAT
			       " allocated %zu", op->bytes, (guint64)id, birth->line, birth->bytes);
	op->slot = birth->slot;
	g_array_append_val(r->spare_slots, op->slot);
	g_hash_table_remove(r->live, key);
	return 0;
}

static int parse_line(struct reader *r, const char *line, size_t length)
{
	struct cursor c = { line, line + length };
	struct trace_op op = { 0 };
	uint64_t id, bytes, stream;
	int err;

	if (length && line[0] == '#')
		return 0;
	err = parse_number(r, &c, "time", INT64_MAX, &op.us);
	if (!err)
		err = parse_op(r, &c, &op.alloc);
	if (!err)
		err = parse_number(r, &c, "id", SIZE_MAX, &id);
	if (!err)
		err = parse_number(r, &c, "size", PTRDIFF_MAX, &bytes);
	if (!err)
		err = parse_number(r, &c, "stream", UINT32_MAX, &stream);
	if (!err)
		err = parse_end(r, &c);
	if (err)
		return err;
	if (r->ops->len) {
		uint64_t before = g_array_index(r->ops, struct trace_op, r->ops->len - 1).us;

		if (op.us < before)
			return damaged(r, "the time goes back from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT,
				       (guint64)before, (guint64)op.us);
	}
	op.bytes = (size_t)bytes;
	op.line = r->line;
	err = track(r, &op, id);
	if (err)
		return err;
	op.stream = stream_number(r, stream);
	g_array_append_val(r->ops, op);
	return 0;
}

/* Parses the whole lines of a buffer; what is left of it begins at *@rest. */
static int parse_lines(struct reader *r, const char *buffer, size_t length, size_t *rest)
{
	const char *end = buffer + length, *line = buffer, *newline;
	int err;

	while (line < end && (newline = memchr(line, '\n', (size_t)(end - line)))) {
		if (r->line == UINT32_MAX)
			return damaged(r, "there are more lines than this program can count");
		r->line++;
		err = parse_line(r, line, (size_t)(newline - line));
		if (err)
			return err;
		line = newline + 1;
	}
	*rest = (size_t)(line - buffer);
	return 0;
}

/* Tells what the input said of itself, with the name. */
static int read_failure(struct reader *r, int err)
{
	char *what = g_strdup(fail_text());

	r->line++;
	if (err == -EBADMSG)
		damaged(r, "%s", what);
	else
		fail_set(err, "%s: %s", r->name, what);
	g_free(what);
	return err;
}

/* Whether whoever hears of it would have it stop. */
static int show_progress(const struct reader *r)
{
	if (!r->progress || r->progress(r->progress_data, input_done(r->input), input_size(r->input)))
		return 0;
	return fail_set(-EINTR, "%s: interrupted while it was read", r->name);
}

/* A signal may come while the read waits, or right before it began to. */
static int read_some(struct reader *r, char *buffer, size_t size, size_t *got)
{
	int err;

	do {
		if (show_progress(r))
			return -EINTR;
		err = input_read(r->input, buffer, size, got);
	} while (err == -EINTR);
	if (show_progress(r))
		return -EINTR;
	return err ? read_failure(r, err) : 0;
}

static int read_all(struct reader *r, char *buffer)
{
	size_t held = 0, rest = 0, got = 0;
	int err;

	for (;;) {
		err = read_some(r, buffer + held, BLOCK - held, &got);
		if (err)
			return err;
		if (!got)
			break;
		held += got;
		err = parse_lines(r, buffer, held, &rest);
		if (err)
			return err;
		held -= rest;
		memmove(buffer, buffer + rest, held);
		if (held == BLOCK) {
			r->line++;
			return damaged(r, "the line is longer than %d bytes", BLOCK);
		}
	}
	r->line++;
	if (held)
		return damaged(r, "the last line has no newline: the trace is cut short");
	if (!r->ops->len)
		return damaged(r, "the trace ends before its first operation");
	return 0;
}

int trace_load(const char *name, trace_progress_fn progress, void *data, struct trace **trace)
{
	struct reader r = {
		.name = strcmp(name, "-") ? name : "standard input",
		.progress = progress,
		.progress_data = data,
	};
	char *buffer;
	int err;

	err = input_open(name, &r.input);
	if (err)
		return read_failure(&r, err);
	buffer = g_malloc(BLOCK);
	r.ops = g_array_new(FALSE, FALSE, sizeof(struct trace_op));
	r.spare_slots = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	r.live = g_hash_table_new(NULL, NULL);
	r.streams = g_hash_table_new(NULL, NULL);
	err = read_all(&r, buffer);
	if (!err) {
		*trace = g_new(struct trace, 1);
		**trace = (struct trace){
			.name = g_strdup(name),
			.n_ops = r.ops->len,
			.allocs = r.allocs,
			.slots = r.slots,
			.streams = g_hash_table_size(r.streams),
		};
		(*trace)->ops = (struct trace_op *)(void *)g_array_free(r.ops, FALSE);
	} else {
		g_array_free(r.ops, TRUE);
	}
	g_hash_table_destroy(r.streams);
	g_hash_table_destroy(r.live);
	g_array_free(r.spare_slots, TRUE);
	g_free(buffer);
	input_close(r.input);
	return err;
}

void trace_free(struct trace *trace)
{
	if (!trace)
		return;
	g_free(trace->ops);
	g_free(trace->name);
	g_free(trace);
}
