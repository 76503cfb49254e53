// SPDX-License-Identifier: LGPL-2.1-or-later
#include "trace.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "fail.h"
#include "input.h"
#include "trace-csv.h"
#include "trace-record.h"
#include "trace-tags.h"

/* Also the longest line there can be. */
#define BLOCK (256 * 1024)

/* What is known of one pool while a trace is read. */
struct pool {
	GArray *ops;			/* of struct trace_op */
	GHashTable *live;		/* id to the number of the operation that allocated it, or resized it last */
	GHashTable *streams;		/* number in the file to our number + 1 */
	GHashTable *captures;		/* id to our number, of those that are not retired */
	GArray *last_ops;		/* of size_t: the last operation of each capture */
	GArray *spare_slots;		/* of uint32_t */
	GArray *tags;			/* of struct trace_tag */
	uint32_t slots;
	size_t allocs;
	unsigned int device;
	bool over;			/* it was destroyed */
};

/* What is known while a trace is read; stands on the stack of trace_load(). */
struct reader {
	struct trace_place place;
	struct input *input;
	trace_progress_fn progress;
	void *progress_data;
	bool so_far;			/* more of it may follow */
	struct trace_csv *csv;		/* that the file is; NULL: it is one of ours */

	GPtrArray *pools;		/* of struct pool; that with the number 1 comes first */
	uint64_t us;			/* of the line before */
};

static uint32_t stream_number(struct pool *p, uint64_t number)
{
	gpointer key = GSIZE_TO_POINTER((gsize)number);
	guint known = GPOINTER_TO_UINT(g_hash_table_lookup(p->streams, key));

	if (!known) {
		known = g_hash_table_size(p->streams) + 1;
		g_hash_table_insert(p->streams, key, GUINT_TO_POINTER(known));
	}
	return known - 1;
}

static uint32_t take_slot(struct pool *p)
{
	uint32_t slot;

	if (!p->spare_slots->len)
		return p->slots++;
	slot = g_array_index(p->spare_slots, uint32_t, p->spare_slots->len - 1);
	g_array_set_size(p->spare_slots, p->spare_slots->len - 1);
	return slot;
}

/* The operation that allocated or resized what is live under this id; NULL: nothing is. */
static const struct trace_op *find_birth(const struct pool *p, uint64_t id)
{
	gpointer number;

	if (!g_hash_table_lookup_extended(p->live, GSIZE_TO_POINTER((gsize)id), NULL, &number))
		return NULL;
	return &g_array_index(p->ops, struct trace_op, GPOINTER_TO_SIZE(number));
}

static uint32_t capture_number(struct pool *p, uint64_t id)
{
	gpointer key = GSIZE_TO_POINTER((gsize)id);
	guint number = GPOINTER_TO_UINT(g_hash_table_lookup(p->captures, key));
	size_t next = p->ops->len;

	if (!number) {
		g_array_append_val(p->last_ops, next);
		number = p->last_ops->len;
		g_hash_table_insert(p->captures, key, GUINT_TO_POINTER(number));
	}
	return number;
}

static void add_op(struct pool *p, struct trace_op *op, const struct trace_record *record)
{
	op->us = record->us;
	if (op->kind != TRACE_TRIM && op->kind != TRACE_GROUP && op->kind < TRACE_PAUSE && record->stream != TRACE_ANY)
		op->stream = stream_number(p, record->stream);
	if (op->kind < TRACE_TRIM && record->capture) {
		op->capture = capture_number(p, record->capture);
		g_array_index(p->last_ops, size_t, op->capture - 1) = p->ops->len;
	}
	g_array_append_val(p->ops, *op);
}

static int apply_alloc(struct reader *r, struct pool *p, const struct trace_record *record)
{
	const struct trace_op *birth = find_birth(p, record->id);
	struct trace_op op = { .bytes = (size_t)record->bytes, .id = record->id, .max = (size_t)record->max,
			       .line = r->place.line, .kind = TRACE_ALLOC, .flags = (uint8_t)record->flags };
	int err;

	if (birth)
		return trace_damaged(&r->place, "allocates %" PRIu64 ", which line %" G_GUINT32_FORMAT
			       " did and nobody has freed", record->id, birth->line);
	err = trace_tags_number(&r->place, p->tags, record, &op.tag);
	if (err)
		return err;
	op.slot = take_slot(p);
	p->allocs++;
	g_hash_table_insert(p->live, GSIZE_TO_POINTER((gsize)record->id), GSIZE_TO_POINTER((gsize)p->ops->len));
	add_op(p, &op, record);
	return 0;
}

static int apply_free(struct reader *r, struct pool *p, const struct trace_record *record)
{
	const struct trace_op *birth = find_birth(p, record->id);
	struct trace_op op = { .line = r->place.line };

	if (!birth)
		return trace_damaged(&r->place, "frees %" PRIu64 ", which is not allocated", record->id);
	if (r->place.version == 1 && birth->bytes != record->bytes)
		return trace_damaged(&r->place, "frees %" PRIu64 " bytes of %" PRIu64 ", for which line %"
				     G_GUINT32_FORMAT " allocated %zu", record->bytes, record->id, birth->line,
				     birth->bytes);
	if (record->moved > birth->bytes)
		return trace_damaged(&r->place, "moved %" PRIu64 " bytes of %zu", record->moved, birth->bytes);
	op.bytes = birth->bytes;
	op.slot = birth->slot;
	op.stream = birth->stream;
	op.max = (size_t)record->moved;
	op.flags = (uint8_t)(record->flags | (record->stream == TRACE_ANY ? TRACE_ON_ANY : 0));
	g_array_append_val(p->spare_slots, op.slot);
	g_hash_table_remove(p->live, GSIZE_TO_POINTER((gsize)record->id));
	add_op(p, &op, record);
	return 0;
}

static int apply_resize(struct reader *r, struct pool *p, const struct trace_record *record)
{
	const struct trace_op *birth = find_birth(p, record->id), *other = find_birth(p, record->to);
	struct trace_op op = { .bytes = (size_t)record->bytes, .line = r->place.line, .kind = TRACE_RESIZE,
			       .flags = (uint8_t)record->flags };

	if (!birth)
		return trace_damaged(&r->place, "resizes %" PRIu64 ", which is not allocated", record->id);
	if (other && record->to != record->id)
		return trace_damaged(&r->place, "moves %" PRIu64 " to %" PRIu64 ", which line %"
				     G_GUINT32_FORMAT " allocated and nobody has freed", record->id, record->to, other->line);
	if (!record->bytes)
		return trace_damaged(&r->place, "resizes %" PRIu64 " to 0 bytes, which would free it", record->id);
	op.slot = birth->slot;
	g_hash_table_remove(p->live, GSIZE_TO_POINTER((gsize)record->id));
	g_hash_table_insert(p->live, GSIZE_TO_POINTER((gsize)record->to), GSIZE_TO_POINTER((gsize)p->ops->len));
	add_op(p, &op, record);
	return 0;
}

static int apply_use(struct reader *r, struct pool *p, const struct trace_record *record)
{
	const struct trace_op *birth = find_birth(p, record->id);
	struct trace_op op = { .line = r->place.line, .kind = TRACE_USE };

	if (!birth)
		return trace_damaged(&r->place, "uses %" PRIu64 ", which is not allocated", record->id);
	op.bytes = birth->bytes;
	op.slot = birth->slot;
	add_op(p, &op, record);
	return 0;
}

static int apply_other(struct reader *r, struct pool *p, const struct trace_record *record, enum trace_kind kind)
{
	struct trace_op op = { .bytes = (size_t)record->bytes, .line = r->place.line, .kind = (uint8_t)kind };

	add_op(p, &op, record);
	return 0;
}

static int apply_pause(struct reader *r, struct pool *p, const struct trace_record *record, enum trace_kind kind)
{
	struct trace_op op = { .line = r->place.line, .kind = (uint8_t)kind, .flags = (uint8_t)record->flags };
	int err;

	err = trace_tags_number(&r->place, p->tags, record, &op.tag);
	if (!err)
		add_op(p, &op, record);
	return err;
}

/* A capture can join a group before anything else, and after it has ended. */
static int apply_group(struct reader *r, struct pool *p, const struct trace_record *record)
{
	struct trace_op op = { .line = r->place.line, .kind = TRACE_GROUP, .max = (size_t)record->other };

	op.capture = capture_number(p, record->capture);
	add_op(p, &op, record);
	return 0;
}

/* A graph of which the pool has nothing makes no difference to it. */
static int apply_graph(struct reader *r, struct pool *p, const struct trace_record *record)
{
	gpointer key = GSIZE_TO_POINTER((gsize)record->capture);
	struct trace_op op = { .line = r->place.line, .kind = TRACE_RETIRE_GRAPH };

	op.capture = GPOINTER_TO_UINT(g_hash_table_lookup(p->captures, key));
	if (!op.capture)
		return 0;
	g_hash_table_remove(p->captures, key);
	add_op(p, &op, record);
	return 0;
}

static void clear_tag(void *tag)
{
	g_free(((struct trace_tag *)tag)->name);
}

static void pool_free(void *data)
{
	struct pool *p = data;

	g_hash_table_destroy(p->captures);
	g_hash_table_destroy(p->streams);
	g_hash_table_destroy(p->live);
	g_array_free(p->tags, TRUE);
	g_array_free(p->spare_slots, TRUE);
	g_array_free(p->last_ops, TRUE);
	g_array_free(p->ops, TRUE);
	g_free(p);
}

static void begin_pool(struct reader *r)
{
	struct pool *p = g_new0(struct pool, 1);

	p->ops = g_array_new(FALSE, FALSE, sizeof(struct trace_op));
	p->spare_slots = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	p->tags = g_array_new(FALSE, FALSE, sizeof(struct trace_tag));
	g_array_set_clear_func(p->tags, clear_tag);
	p->live = g_hash_table_new(NULL, NULL);
	p->streams = g_hash_table_new(NULL, NULL);
	p->captures = g_hash_table_new(NULL, NULL);
	p->last_ops = g_array_new(FALSE, FALSE, sizeof(size_t));
	g_ptr_array_add(r->pools, p);
}

static int apply_begin(struct reader *r, const struct trace_record *record)
{
	if (record->pool != r->pools->len + 1)
		return trace_damaged(&r->place, "pool %" PRIu64 " begins, where the next is %u", record->pool,
			       r->pools->len + 1);
	begin_pool(r);
	((struct pool *)r->pools->pdata[r->pools->len - 1])->device = (unsigned int)record->other;
	return 0;
}

static int apply(struct reader *r, const struct trace_record *record)
{
	struct pool *p;

	if (record->op == 'p')
		return apply_begin(r, record);
	p = record->pool && record->pool <= r->pools->len ? r->pools->pdata[record->pool - 1] : NULL;
	if (!p || p->over)
		return trace_damaged(&r->place, "pool %" PRIu64 " %s", record->pool,
			       p ? "was destroyed before" : "has not begun");
	switch (record->op) {
	case 'a':
		return apply_alloc(r, p, record);
	case 'f':
		return apply_free(r, p, record);
	case 'm':
		return apply_resize(r, p, record);
	case 'u':
		return apply_use(r, p, record);
	case 'r':
		return apply_other(r, p, record, TRACE_RETIRE_STREAM);
	case 't':
		return apply_other(r, p, record, TRACE_TRIM);
	case 's':
		return apply_pause(r, p, record, TRACE_PAUSE);
	case 'w':
		return apply_pause(r, p, record, TRACE_RESUME);
	case 'c':
		return apply_group(r, p, record);
	case 'g':
		return apply_graph(r, p, record);
	case 'e':
		p->over = true;
		return 0;
	default:
		return 0;
	}
}

/* A file of the first version is one pool's, which has no record of its beginning. */
static int begin_trace(struct reader *r, const char *line)
{
	int err;

	err = trace_parse_version(&r->place, line);
	if (!err)
		err = trace_csv_begin(&r->place, line, &r->csv);
	if (!err && r->place.version == 1)
		begin_pool(r);
	return err;
}

static int apply_in_time(struct reader *r, const struct trace_record *record)
{
	if (record->us < r->us)
		return trace_damaged(&r->place, "the time goes back from %" PRIu64 " to %" PRIu64, r->us, record->us);
	r->us = record->us;
	return apply(r, record);
}

/* Applies what can be of a table. */
static int apply_csv(struct reader *r)
{
	uint32_t line = r->place.line;
	struct trace_record record;
	int err = 0;

	while (!err && trace_csv_next(r->csv, &r->place, &record))
		err = apply_in_time(r, &record);
	if (!err)
		r->place.line = line;
	return err;
}

static int parse_line(struct reader *r, char *line)
{
	struct trace_record record;
	int err;

	err = r->place.line == 1 ? begin_trace(r, line) : 0;
	if (err || line[0] == '#' || (r->csv && r->place.line == 1))
		return err;
	if (r->csv) {
		err = trace_csv_add(r->csv, &r->place, line);
		return err ? err : apply_csv(r);
	}
	err = trace_parse_record(&r->place, line, &record);
	if (err)
		return err;
	r->place.known = true;
	return apply_in_time(r, &record);
}

/* Parses the whole lines of a buffer; what is left of it begins at *@rest. */
static int parse_lines(struct reader *r, char *buffer, size_t length, size_t *rest)
{
	char *end = buffer + length, *line = buffer, *newline;
	int err;

	while (line < end && (newline = memchr(line, '\n', (size_t)(end - line)))) {
		if (r->place.line == UINT32_MAX)
			return trace_damaged(&r->place, "there are more lines than this program can count");
		r->place.line++;
		if (memchr(line, '\0', (size_t)(newline - line)))
			return trace_damaged(&r->place, "there is a byte of 0");
		*newline = '\0';
		err = parse_line(r, line);
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
	g_autofree char *what = g_strdup(fail_text());

	r->place.line++;
	if (err == -EBADMSG)
		trace_damaged(&r->place, "%s", what);
	else
		fail_set(err, "%s: %s", r->place.name, what);
	return err;
}

/* Whether whoever hears of it would have it stop. */
static int show_progress(const struct reader *r)
{
	if (!r->progress || r->progress(r->progress_data, input_done(r->input), input_size(r->input)))
		return 0;
	return fail_set(-EINTR, "%s: interrupted while it was read", r->place.name);
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

/* Nothing of the file was parsed yet. */
static int refuse_strange(struct reader *r, const char *start, size_t length)
{
	const char *what = trace_strange(start, length);

	if (!what)
		return 0;
	r->place.line = 1;
	return trace_damaged(&r->place, "the file is %s", what);
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
		err = r->place.line ? 0 : refuse_strange(r, buffer, held);
		if (err)
			return err;
		err = parse_lines(r, buffer, held, &rest);
		if (err)
			return err;
		held -= rest;
		memmove(buffer, buffer + rest, held);
		if (held == BLOCK) {
			r->place.line++;
			return trace_damaged(&r->place, "the line is longer than %d bytes", BLOCK);
		}
	}
	r->place.line++;
	if (held && !r->so_far)
		return trace_damaged(&r->place, "the last line has no newline: the trace is cut short");
	if (r->csv) {
		trace_csv_end(r->csv);
		err = apply_csv(r);
		if (err)
			return err;
	}
	for (guint i = 0; i < r->pools->len; i++) {
		if (((struct pool *)r->pools->pdata[i])->allocs)
			return 0;
	}
	return r->so_far ? 0 : trace_damaged(&r->place, "the trace ends before its first allocation");
}

/* What was read of a pool, which keeps nothing of it. */
static struct trace *trace_of(struct pool *p)
{
	struct trace *trace = g_new0(struct trace, 1);

	for (guint i = 0; i < p->last_ops->len; i++)
		g_array_index(p->ops, struct trace_op, g_array_index(p->last_ops, size_t, i)).flags |= TRACE_LAST;
	*trace = (struct trace){
		.n_ops = p->ops->len,
		.allocs = p->allocs,
		.slots = p->slots,
		.streams = g_hash_table_size(p->streams),
		.captures = p->last_ops->len,
	};
	trace->ops = g_array_steal(p->ops, NULL);
	trace->n_tags = p->tags->len;
	trace->tags = g_array_steal(p->tags, NULL);
	return trace;
}

/* The pools that did anything, each a trace of its own. */
static struct trace *traces_of(const struct reader *r, const char *name)
{
	struct trace *first = NULL, **next = &first;

	for (guint i = 0; i < r->pools->len; i++) {
		struct pool *p = r->pools->pdata[i];

		if (!p->allocs)
			continue;
		*next = trace_of(p);
		(*next)->pool = i + 1;
		(*next)->device = p->device;
		next = &(*next)->next;
	}
	for (struct trace *trace = first; trace; trace = trace->next)
		trace->name = first->next ? g_strdup_printf("%s#%u", name, trace->pool) : g_strdup(name);
	return first;
}

static int load(const char *name, bool so_far, trace_progress_fn progress, void *data, struct trace **trace)
{
	struct reader r = {
		.place.name = strcmp(name, "-") ? name : "standard input",
		.progress = progress,
		.progress_data = data,
		.so_far = so_far,
	};
	char *buffer;
	int err;

	err = input_open(name, &r.input);
	if (err)
		return read_failure(&r, err);
	buffer = g_malloc(BLOCK);
	r.pools = g_ptr_array_new_with_free_func(pool_free);
	err = read_all(&r, buffer);
	if (!err)
		*trace = traces_of(&r, name);
	g_ptr_array_free(r.pools, TRUE);
	trace_csv_free(r.csv);
	g_free(buffer);
	input_close(r.input);
	return err;
}

int trace_load(const char *name, trace_progress_fn progress, void *data, struct trace **trace)
{
	return load(name, false, progress, data, trace);
}

int trace_load_so_far(const char *name, trace_progress_fn progress, void *data, struct trace **trace)
{
	return load(name, true, progress, data, trace);
}

void trace_free(struct trace *trace)
{
	while (trace) {
		struct trace *next = trace->next;

		trace_tags_clear(trace);
		g_free(trace->ops);
		g_free(trace->name);
		g_free(trace);
		trace = next;
	}
}
