// SPDX-License-Identifier: LGPL-2.1-or-later
/* Any bytes as a trace: a sentence about what is wrong, or operations that make sense and can be written again. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <glib.h>
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

static void assert_op(const struct trace *trace, const struct trace_op *op, const struct trace_op **live)
{
	const struct trace_op *birth = live[op->slot];

	g_assert_cmpuint(op->slot, <, trace->slots);
	g_assert_cmpuint(op->stream, <, trace->streams);
	g_assert_cmpuint(op->bytes, <=, PTRDIFF_MAX);
	if (op > trace->ops) {
		g_assert_cmpuint(op->us, >=, op[-1].us);
		g_assert_cmpuint(op->line, >, op[-1].line);
	}
	if (op->alloc) {
		g_assert_null(birth);
		live[op->slot] = op;
	} else {
		g_assert_nonnull(birth);
		g_assert_cmpuint(birth->bytes, ==, op->bytes);
		live[op->slot] = NULL;
	}
}

static void assert_trace(const struct trace *trace)
{
	const struct trace_op **live = g_new0(const struct trace_op *, trace->slots + 1);
	size_t allocs = 0, alive = 0, most = 0;

	g_assert_cmpuint(trace->n_ops, >, 0);
	g_assert_cmpuint(trace->streams, >, 0);
	for (size_t i = 0; i < trace->n_ops; i++) {
		assert_op(trace, &trace->ops[i], live);
		allocs += trace->ops[i].alloc;
		alive += trace->ops[i].alloc ? 1 : (size_t)-1;
		most = MAX(most, alive);
	}
	g_assert_cmpuint(allocs, ==, trace->allocs);
	g_assert_cmpuint(most, ==, trace->slots);
	g_free(live);
}

/* Names an allocation by its slot, and lines by their order. */
static GString *write_trace(const struct trace *trace)
{
	GString *text = g_string_new(NULL);

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		g_string_append_printf(text, "%" G_GUINT64_FORMAT " %c %u %zu %u\n", (guint64)op->us,
				       op->alloc ? 'a' : 'f', op->slot, op->bytes, op->stream);
	}
	return text;
}

static void assert_same(const struct trace *a, const struct trace *b)
{
	g_assert_cmpuint(a->n_ops, ==, b->n_ops);
	g_assert_cmpuint(a->allocs, ==, b->allocs);
	g_assert_cmpuint(a->slots, ==, b->slots);
	g_assert_cmpuint(a->streams, ==, b->streams);
	for (size_t i = 0; i < a->n_ops; i++) {
		g_assert_cmpuint(a->ops[i].us, ==, b->ops[i].us);
		g_assert_cmpuint(a->ops[i].bytes, ==, b->ops[i].bytes);
		g_assert_cmpuint(a->ops[i].slot, ==, b->ops[i].slot);
		g_assert_cmpuint(a->ops[i].stream, ==, b->ops[i].stream);
		g_assert_true(a->ops[i].alloc == b->ops[i].alloc);
		g_assert_cmpuint(b->ops[i].line, ==, i + 1);
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
