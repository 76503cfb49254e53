/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of traces, for tests of VPMM_TRACE. */
#ifndef RECORD_FIXTURE_H
#define RECORD_FIXTURE_H

#include <glib.h>
#include <glib/gstdio.h>
#include <unistd.h>

#include "fail.h"
#include "trace.h"

/* Options for a pool that is recorded. */
#define RECORDED(name) FIXTURE_PACKED, .trace = (name)

/* The name of a file that does not exist. */
static inline char *new_name(const char *suffix)
{
	char *path, *name;
	int fd = g_file_open_tmp("vpmm-record-XXXXXX", &path, NULL);

	g_assert_cmpint(fd, >=, 0);
	close(fd);
	g_unlink(path);
	name = g_strconcat(path, suffix, NULL);
	g_free(path);
	return name;
}

static inline void remove_name(char *name)
{
	g_unlink(name);
	g_free(name);
}

static inline struct trace *load(const char *name)
{
	struct trace *trace = NULL;

	if (trace_load(name, NULL, NULL, &trace))
		g_error("%s", fail_text());
	return trace;
}

/* The text of a trace matches a regular expression. */
static inline void assert_lines(const char *name, const char *expected)
{
	char *text = NULL;

	g_assert_true(g_file_get_contents(name, &text, NULL, NULL));
	if (!g_regex_match_simple(expected, text, (GRegexCompileFlags)0, (GRegexMatchFlags)0))
		g_error("not as expected:\n%s", text);
	g_free(text);
}

#endif /* RECORD_FIXTURE_H */
