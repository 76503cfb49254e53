// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "run-report.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "util/text.h"

/* What % stands for in a name means nothing in ours. */
static char *escape(const char *name)
{
	char **parts = g_strsplit(name, "%", -1);
	char *escaped = g_strjoinv("%%", parts);

	g_strfreev(parts);
	return escaped;
}

/* Of a name in which % stands for nothing else. */
static char *unescape(const char *name)
{
	char **parts = g_strsplit(name, "%%", -1);
	char *unescaped = g_strjoinv("%", parts);

	g_strfreev(parts);
	return unescaped;
}

/* One that depends on the process is left to that. */
static int check_folder(const char *option, const char *pattern)
{
	g_autofree char *folder = g_path_get_dirname(pattern);
	int err = 0;

	if (!strchr(folder, '%') && access(folder, W_OK | X_OK)) {
		err = -errno;
		fail_set(err, "%s: %s: %s", option, folder, g_strerror(-err));
	}
	return err;
}

static bool names_process(const char *pattern)
{
	const char *at = strchr(pattern, '%');

	while (at && at[1] != 'p')
		at = strchr(at + 2, '%');
	return at;
}

/* A program finds that out too late: it would go on without libvpmm. */
static int check_name(const char *option, const char *name)
{
	int err = 0;

	if (g_file_test(name, G_FILE_TEST_IS_DIR))
		err = -EISDIR;
	else if (access(name, W_OK) && errno != ENOENT)
		err = -errno;
	return err ? fail_set(err, "%s: %s: %s", option, name, g_strerror(-err)) : 0;
}

static int check_file(const char *option, const char *pattern)
{
	g_autofree char *name = unescape(pattern);

	return names_process(pattern) ? 0 : check_name(option, name);
}

/* Whether a file of this name, if it is there, can be replaced: a device, a pipe or a folder must not be. */
static bool is_replaceable(const char *name)
{
	struct stat st;

	return g_stat(name, &st) || S_ISREG(st.st_mode);
}

int traces_replaceable(const char *option, const char *pattern)
{
	g_autofree char *name = unescape(pattern), *longest = g_strdup_printf("%s.%d", name, G_MAXINT);

	if (names_process(pattern))
		return 0;
	if (is_replaceable(name))
		return check_name(option, longest);
	return fail_set(-EINVAL, "%s: %s is no regular file, which with --monitor it has to be", option, name);
}

int traces_absolute(const char *option, const char *name, char **pattern)
{
	g_autofree char *here = NULL, *escaped = NULL, *absolute = NULL;
	int err;

	if (!*name)
		return fail_set(-EINVAL, "%s: expected the name of a file", option);
	if (name_unknown(name))
		return fail_set(-EINVAL, "%s: %s: behind a percent sign there can be p, for the process id, or another", option,
				name);
	here = g_get_current_dir();
	escaped = escape(here);
	absolute = g_canonicalize_filename(name, escaped);
	err = check_folder(option, absolute);
	if (!err)
		err = check_file(option, absolute);
	if (!err)
		*pattern = g_steal_pointer(&absolute);
	return err;
}

/* Whether a name is of the pattern, and of which process then. */
static bool matches(const char *pattern, const char *name, pid_t *pid)
{
	*pid = 0;
	for (; *pattern; pattern++) {
		if (*pattern == '%' && *++pattern == 'p') {
			guint64 number;
			char *end;

			if (!g_ascii_isdigit(*name))
				return false;
			number = g_ascii_strtoull(name, &end, 10);
			if (number > G_MAXINT || (*pid && number != (uint64_t)*pid))
				return false;
			*pid = (pid_t)number;
			name = end;
		} else if (*pattern != *name++) {
			return false;
		}
	}
	/* One that executed another program has a file for each, of which those that follow have a number. */
	if (*name == '.' && g_ascii_isdigit(name[1]))
		name += 1 + strspn(name + 1, "0123456789");
	return !*name;
}

static int64_t changed(const char *name)
{
	struct stat st;

	if (g_stat(name, &st) || !S_ISREG(st.st_mode))
		return -1;
	return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

/* All that have such a name. A folder that depends on the process is not looked for. */
static GArray *list_all(const char *pattern)
{
	GArray *files = g_array_new(FALSE, FALSE, sizeof(struct traces_file));
	g_autofree char *parent = g_path_get_dirname(pattern), *folder = unescape(parent);
	const char *entry;
	GDir *dir;

	dir = g_dir_open(folder, 0, NULL);
	while (dir && (entry = g_dir_read_name(dir))) {
		struct traces_file file = { .name = g_build_filename(folder, entry, NULL) };

		if (matches(pattern, file.name, &file.pid) && changed(file.name) >= 0)
			g_array_append_val(files, file);
		else
			g_free(file.name);
	}
	if (dir)
		g_dir_close(dir);
	return files;
}

static void clear_file(void *file)
{
	g_free(((struct traces_file *)file)->name);
}

static int compare_files(const void *a, const void *b)
{
	const struct traces_file *one = a, *other = b;

	if (one->pid != other->pid)
		return one->pid > other->pid ? 1 : -1;
	return strcmp(one->name, other->name);
}

GArray *traces_list(const struct traces *traces)
{
	GArray *files = list_all(traces->pattern);

	g_array_set_clear_func(files, clear_file);
	for (guint i = files->len; i-- > 0;) {
		const char *name = g_array_index(files, struct traces_file, i).name;
		const int64_t *before = g_hash_table_lookup(traces->before, name);

		if (before && *before == changed(name))
			g_array_remove_index(files, i);
	}
	g_array_sort(files, compare_files);
	return files;
}

static int begin_folder(struct traces *traces, const char *suffix)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *made = g_dir_make_tmp("vpmm-run-XXXXXX", &error), *escaped = NULL;

	if (!made)
		return fail_set(-EIO, "a folder for what is recorded: %s", error->message);
	/* TMPDIR may be relative, and the program may change its folder. */
	traces->folder = g_canonicalize_filename(made, NULL);
	escaped = escape(traces->folder);
	traces->pattern = g_strdup_printf("%s/%%p%s", escaped, suffix);
	return 0;
}

static void begin_named(struct traces *traces, const char *pattern)
{
	if (names_process(pattern)) {
		traces->pattern = g_strdup(pattern);
	} else {
		traces->pattern = g_strconcat(pattern, ".%p", NULL);
		traces->single = unescape(pattern);
	}
}

static void note_files_before(struct traces *traces)
{
	GArray *files = list_all(traces->pattern);

	traces->before = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	for (guint i = 0; i < files->len; i++) {
		struct traces_file *file = &g_array_index(files, struct traces_file, i);
		int64_t *time = g_new(int64_t, 1);

		*time = changed(file->name);
		g_hash_table_insert(traces->before, file->name, time);
	}
	g_array_free(files, TRUE);
}

int traces_begin(struct traces *traces, const char *pattern, const char *suffix)
{
	int err = 0;

	*traces = (struct traces){ 0 };
	if (pattern)
		begin_named(traces, pattern);
	else
		err = begin_folder(traces, suffix);
	if (!err)
		note_files_before(traces);
	return err;
}

static void remove_all(const GArray *files)
{
	for (guint i = 0; i < files->len; i++)
		g_unlink(g_array_index(files, struct traces_file, i).name);
}

void traces_end(struct traces *traces)
{
	GArray *files = traces_list(traces);

	if (traces->folder) {
		remove_all(files);
		g_rmdir(traces->folder);
	} else if (traces->single && files->len == 1 && is_replaceable(traces->single)) {
		g_rename(g_array_index(files, struct traces_file, 0).name, traces->single);
	}
	g_array_unref(files);
	g_hash_table_destroy(traces->before);
	g_free(traces->folder);
	g_free(traces->single);
	g_free(traces->pattern);
	*traces = (struct traces){ 0 };
}
