/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reading a trace, for tests of what the reader takes and what it says to what it does not. */
#ifndef TRACE_FIXTURE_H
#define TRACE_FIXTURE_H

#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "trace.h"

/* A file of one test, and what reading it gave. */
struct fixture {
	char *path;
	struct trace *trace;
	int err;
};

static inline void set_up(struct fixture *f, gconstpointer data)
{
	int fd = g_file_open_tmp("vpmm-trace-XXXXXX", &f->path, NULL);

	(void)data;
	g_assert_cmpint(fd, >=, 0);
	close(fd);
}

static inline void tear_down(struct fixture *f, gconstpointer data)
{
	(void)data;
	trace_free(f->trace);
	g_unlink(f->path);
	g_free(f->path);
}

static inline void read_bytes(struct fixture *f, const char *bytes, size_t length)
{
	g_assert_true(g_file_set_contents(f->path, bytes, (gssize)length, NULL));
	f->err = trace_load(f->path, NULL, NULL, &f->trace);
}

static inline void read_text(struct fixture *f, const char *text)
{
	read_bytes(f, text, strlen(text));
}

/* @complaint begins with the number of the line. Of a file without a single good line, the text says what it is not. */
static inline void expect_damage(struct fixture *f, const char *complaint)
{
	char *expected = g_strdup_printf("%s:%s", f->path, complaint);
	char *no_trace = g_strdup_printf("%s; this is no trace: see vpmm-trace(5)", expected);

	g_assert_cmpint(f->err, ==, -EBADMSG);
	g_assert_null(f->trace);
	if (strcmp(fail_text(), no_trace) != 0)
		g_assert_cmpstr(fail_text(), ==, expected);
	g_free(no_trace);
	g_free(expected);
}

/* A text, and the complaint with the number of its line. */
static inline void test_damage(struct fixture *f, gconstpointer data)
{
	const char *const *damage = data;

	read_text(f, damage[0]);

	expect_damage(f, damage[1]);
}

static inline void add(const char *path, gconstpointer data, void (*test)(struct fixture *, gconstpointer))
{
	g_test_add(path, struct fixture, data, set_up, test, tear_down);
}

/* Adds test_damage() for each text of a table, by its number. */
static inline void add_damages(const char *path, const char *const (*damages)[2], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *full = g_strdup_printf("%s/%zu", path, i);

		add(full, damages[i], test_damage);
		g_free(full);
	}
}

#endif /* TRACE_FIXTURE_H */
