// SPDX-License-Identifier: LGPL-2.1-or-later
#include "save.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "fail.h"

static char *file_of(const struct trace *trace, const char *folder)
{
	GString *name = g_string_new(NULL);
	char *file, *path;

	for (const char *c = trace->name; *c; c++) {
		if (g_ascii_isalnum(*c) || *c == '_')
			g_string_append_c(name, *c);
		else if (name->len && name->str[name->len - 1] != '-')
			g_string_append_c(name, '-');
	}
	file = g_strdup_printf("%s.trace.gz", name->str);
	path = g_build_filename(folder, file, NULL);
	g_free(file);
	g_string_free(name, TRUE);
	return path;
}

/* A slot names its allocation for as long as that lives, which is all that an id has to do. */
static bool write_ops(gzFile out, const struct trace *trace)
{
	if (gzprintf(out, "# vpmm-trace 1 source=tune workload=%s\n", trace->name) <= 0)
		return false;
	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		if (gzprintf(out, "%" PRIu64 " %c %" G_GUINT32_FORMAT " %zu %" G_GUINT32_FORMAT "\n",
			     (uint64_t)op->us, op->kind == TRACE_ALLOC ? 'a' : 'f', op->slot, op->bytes,
			     op->stream) <= 0)
			return false;
	}
	return true;
}

static int save_failure(const char *path)
{
	int err = errno ? errno : EIO;

	return fail_set(-err, "%s: %s", path, g_strerror(err));
}

int save_trace(const struct trace *trace, const char *folder)
{
	char *path = file_of(trace, folder);
	bool written;
	int err = 0;
	gzFile out;

	errno = 0;
	if (g_mkdir_with_parents(folder, 0777)) {
		err = save_failure(folder);
		goto out;
	}
	out = gzopen(path, "wb9");
	if (!out) {
		err = save_failure(path);
		goto out;
	}
	written = write_ops(out, trace);
	if (!written)
		err = save_failure(path);
	if (gzclose(out) != Z_OK && written)
		err = save_failure(path);
out:
	g_free(path);
	return err;
}
