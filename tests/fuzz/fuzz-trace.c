// SPDX-License-Identifier: LGPL-2.1-or-later
/* Any bytes as a trace: a sentence about what is wrong, or operations that make sense and can be written again. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"
#include "fuzz.h"
#include "trace.h"

struct source {
	int fd;
	char name[32];
};

static void source_open(struct source *source, const void *data, size_t size)
{
	source->fd = memfd_create("trace", MFD_CLOEXEC);
	g_assert_cmpint(source->fd, >=, 0);
	while (size) {
		ssize_t written = write(source->fd, data, size);

		g_assert_cmpint(written, >, 0);
		data = (const char *)data + written;
		size -= (size_t)written;
	}
	g_snprintf(source->name, sizeof(source->name), "/proc/self/fd/%d", source->fd);
}

static bool progress(void *data, uint64_t done, uint64_t total)
{
	uint64_t *last = data;

	g_assert_cmpuint(done, >=, *last);
	g_assert_cmpuint(done, <=, total);
	*last = done;
	return true;
}

/* @live: the latest operation that allocated or resized each slot; NULL: it is free. */
static void assert_kind(const struct trace *trace, const struct trace_op *op, const struct trace_op **live)
{
	const struct trace_op *birth = op->kind <= TRACE_USE ? live[op->slot] : NULL;

	switch (op->kind) {
	case TRACE_ALLOC:
		g_assert_null(birth);
		g_assert_true(!op->max || op->max >= op->bytes);
		live[op->slot] = op;
		break;
	case TRACE_RESIZE:
		g_assert_nonnull(birth);
		g_assert_cmpuint(op->bytes, >, 0);
		live[op->slot] = op;
		break;
	case TRACE_FREE:
	case TRACE_USE:
		g_assert_true(birth && birth->bytes == op->bytes);
		if (op->kind == TRACE_FREE)
			live[op->slot] = NULL;
		break;
	case TRACE_GROUP:
	case TRACE_RETIRE_GRAPH:
		g_assert_cmpuint(op->capture, >, 0);
		break;
	case TRACE_PAUSE:
	case TRACE_RESUME:
		g_assert_cmpuint(op->tag, >, 0);
		break;
	default:
		g_assert_cmpuint(op->kind, <=, TRACE_RETIRE_STREAM);
	}
	g_assert_cmpuint(op->capture, <=, trace->captures);
	g_assert_cmpuint(op->tag, <=, trace->n_tags);
}

static void assert_op(const struct trace *trace, const struct trace_op *op, const struct trace_op **live)
{
	g_assert_cmpuint(op->slot, <, trace->slots);
	g_assert_cmpuint(op->stream, <, trace->streams);
	g_assert_cmpuint(op->bytes, <=, PTRDIFF_MAX);
	/* Lines of a table of minimalloc can have any order. */
	g_assert_cmpuint(op->line, >, 0);
	if (op > trace->ops)
		g_assert_cmpuint(op->us, >=, op[-1].us);
	assert_kind(trace, op, live);
}

/* Each capture is begun, ends once, and is named by nothing but its end behind that. */
static void assert_captures(const struct trace *trace)
{
	bool *ended = g_new0(bool, trace->captures + 1);
	size_t ends = 0;

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		if (!op->capture)
			continue;
		if (op->kind != TRACE_GROUP)
			g_assert_true(ended[op->capture] == (op->kind == TRACE_RETIRE_GRAPH));
		ended[op->capture] |= op->flags & TRACE_LAST;
		ends += op->flags & TRACE_LAST ? 1 : 0;
	}
	g_assert_cmpuint(ends, ==, trace->captures);
	g_free(ended);
}

static void assert_trace(const struct trace *trace)
{
	const struct trace_op **live = g_new0(const struct trace_op *, trace->slots + 1);
	size_t allocs = 0, alive = 0, most = 0;

	g_assert_cmpuint(trace->allocs, >, 0);
	g_assert_cmpuint(trace->streams, >, 0);
	for (size_t i = 0; i < trace->n_ops; i++) {
		assert_op(trace, &trace->ops[i], live);
		allocs += trace->ops[i].kind == TRACE_ALLOC;
		alive += trace->ops[i].kind == TRACE_ALLOC;
		alive -= trace->ops[i].kind == TRACE_FREE;
		most = MAX(most, alive);
	}
	g_assert_cmpuint(allocs, ==, trace->allocs);
	g_assert_cmpuint(most, ==, trace->slots);
	g_free(live);
	assert_captures(trace);
}

static void write_tag(GString *text, const struct trace *trace, const struct trace_op *op)
{
	const struct trace_tag *tag = &trace->tags[op->tag - 1];

	g_string_append(text, " tag=");
	for (const char *c = tag->name; *c; c++) {
		if (*c == ' ' || *c == '%')
			g_string_append(text, *c == ' ' ? "%20" : "%25");
		else
			g_string_append_c(text, *c);
	}
	if (tag->pausable && op->kind == TRACE_ALLOC)
		g_string_append(text, " pausable");
}

static void write_attributes(GString *text, const struct trace *trace, const struct trace_op *op)
{
	if (op->tag)
		write_tag(text, trace, op);
	if (op->flags & TRACE_DROP)
		g_string_append(text, " drop");
	if (op->flags & TRACE_STAY)
		g_string_append(text, " stay");
	if (op->flags & TRACE_ZERO)
		g_string_append(text, " zero");
	if (op->flags & TRACE_IDLE)
		g_string_append(text, " idle");
	if (op->flags & TRACE_COPIED)
		g_string_append(text, " copied");
	if (op->flags & TRACE_USED)
		g_string_append(text, " used");
	if (op->max && op->kind == TRACE_FREE)
		g_string_append_printf(text, " moved=%zu", op->max);
	if (op->max && op->kind == TRACE_ALLOC)
		g_string_append_printf(text, " max=%zu", op->max);
	if (op->capture && op->kind < TRACE_TRIM)
		g_string_append_printf(text, " capture=%u", op->capture);
	g_string_append_c(text, '\n');
}

static void write_op(GString *text, const struct trace *trace, const struct trace_op *op)
{
	static const char letters[] = "famutrcgsw";

	g_string_append_printf(text, "%" PRIu64 " %c", (uint64_t)op->us, letters[op->kind]);
	if (op->kind <= TRACE_USE)
		g_string_append_printf(text, " %u", op->slot);
	if (op->kind == TRACE_RESIZE)
		g_string_append_printf(text, " %u", op->slot);
	if (op->kind == TRACE_ALLOC || op->kind == TRACE_RESIZE || op->kind == TRACE_TRIM)
		g_string_append_printf(text, " %zu", op->bytes);
	if (op->kind == TRACE_RETIRE_GRAPH || op->kind == TRACE_GROUP)
		g_string_append_printf(text, " %u", op->capture);
	if (op->kind == TRACE_GROUP)
		g_string_append_printf(text, " %zu", op->max);
	if (op->flags & TRACE_ON_ANY)
		g_string_append(text, " any");
	else if (op->kind != TRACE_TRIM && op->kind != TRACE_GROUP && op->kind < TRACE_PAUSE)
		g_string_append_printf(text, " %u", op->stream);
	write_attributes(text, trace, op);
}

/* What write_trace() puts before the operations. */
#define HEAD "# vpmm-trace 2\n0 p 1 host 0 4096\n"
#define HEAD_LINES 2

/* Names an allocation by its slot, a capture by its number, and lines by their order. */
static GString *write_trace(const struct trace *trace)
{
	GString *text = g_string_new(HEAD);

	for (size_t i = 0; i < trace->n_ops; i++)
		write_op(text, trace, &trace->ops[i]);
	return text;
}

static void assert_same(const struct trace *a, const struct trace *b)
{
	g_assert_cmpuint(a->n_ops, ==, b->n_ops);
	g_assert_cmpuint(a->allocs, ==, b->allocs);
	g_assert_cmpuint(a->slots, ==, b->slots);
	g_assert_cmpuint(a->streams, ==, b->streams);
	g_assert_cmpuint(a->captures, ==, b->captures);
	g_assert_cmpuint(a->n_tags, ==, b->n_tags);
	for (size_t i = 0; i < a->n_ops; i++) {
		g_assert_cmpuint(a->ops[i].us, ==, b->ops[i].us);
		g_assert_cmpuint(a->ops[i].bytes, ==, b->ops[i].bytes);
		g_assert_cmpuint(a->ops[i].max, ==, b->ops[i].max);
		g_assert_cmpuint(a->ops[i].slot, ==, b->ops[i].slot);
		g_assert_cmpuint(a->ops[i].stream, ==, b->ops[i].stream);
		g_assert_cmpuint(a->ops[i].capture, ==, b->ops[i].capture);
		g_assert_cmpuint(a->ops[i].kind, ==, b->ops[i].kind);
		g_assert_cmpuint(a->ops[i].flags, ==, b->ops[i].flags);
		g_assert_cmpuint(a->ops[i].tag, ==, b->ops[i].tag);
		g_assert_cmpuint(b->ops[i].line, ==, i + 1 + HEAD_LINES);
	}
}

static void assert_again(const struct trace *trace)
{
	GString *text = write_trace(trace);
	struct trace *again = NULL;
	struct source source;

	source_open(&source, text->str, text->len);
	if (trace_load(source.name, NULL, NULL, &again))
		g_error("what was read and written again is damaged: %s", fail_text());
	assert_same(trace, again);
	trace_free(again);
	close(source.fd);
	g_string_free(text, TRUE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace *trace = NULL;
	struct source source;
	uint64_t last = 0;
	int err;

	source_open(&source, data, size);
	err = trace_load(source.name, progress, &last, &trace);
	if (err) {
		g_assert_cmpint(err, ==, -EBADMSG);
		g_assert_null(trace);
		g_assert_true(g_str_has_prefix(fail_text(), source.name));
		g_assert_true(g_utf8_validate(fail_text(), -1, NULL));
	} else {
		for (const struct trace *pool = trace; pool; pool = pool->next) {
			g_assert_true(g_str_has_prefix(pool->name, source.name));
			g_assert_true(!pool->next || pool->next->pool > pool->pool);
			assert_trace(pool);
			assert_again(pool);
		}
	}
	trace_free(trace);
	close(source.fd);
	return 0;
}
