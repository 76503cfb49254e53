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

#endif /* RECORD_FIXTURE_H */
