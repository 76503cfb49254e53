// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Whether another file may take the place of what is there: not that of a device or a pipe, nor that of an open
 * descriptor; and the new one has to have the owner, and all the names, that the old one had.
 */
static bool is_replaceable(const char *name, const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_nlink == 1 && st->st_uid == geteuid() && !access(name, W_OK) &&
	       !g_str_has_prefix(name, "/dev/") && !g_str_has_prefix(name, "/proc/");
}

/* NULL: there is no room for it beside the file. */
static FILE *open_beside(struct output *output, const struct stat *before)
{
	char *folder = g_path_get_dirname(output->name);
	FILE *file = NULL;
	int fd;

	/* The name of the file may be as long as there can be. */
	output->beside = g_strdup_printf("%s/.vpmm-output.%ld.XXXXXX", folder, (long)getpid());
	g_free(folder);
	fd = g_mkstemp_full(output->beside, O_WRONLY | O_CLOEXEC, 0666);
	if (fd >= 0 && (!before || !fchmod(fd, before->st_mode & 0777)))
		file = fdopen(fd, "w");
	if (file) {
		/* There is a file to remove, so whoever has read enough must not end the process. */
		signal(SIGPIPE, SIG_IGN);
		return file;
	}
	if (fd >= 0) {
		close(fd);
		unlink(output->beside);
	}
	g_clear_pointer(&output->beside, g_free);
	return NULL;
}

int output_begin(struct output *output, const char *name)
{
	char *real = realpath(name, NULL);
	struct stat before;
	bool there = lstat(name, &before) == 0;
	int err;

	/* A link to a file stays. */
	*output = (struct output){ .name = g_strdup(real ? real : name) };
	/* A file beside the empty name could not get that name later. */
	if (*name && (!there || (real && !stat(name, &before) && is_replaceable(name, &before))))
		output->file = open_beside(output, there ? &before : NULL);
	free(real);
	if (!output->file)
		output->file = fopen(name, "we");
	if (output->file)
		return 0;
	err = -errno;
	output_drop(output);
	return err;
}

int output_finish(struct output *output)
{
	int err = 0;

	if (ferror(output->file))
		err = errno ? -errno : -EIO;
	if (fclose(output->file) && !err)
		err = -errno;
	output->file = NULL;
	if (!err && output->beside && rename(output->beside, output->name))
		err = -errno;
	if (!err)
		g_clear_pointer(&output->beside, g_free);
	output_drop(output);
	return err;
}

void output_drop(struct output *output)
{
	if (output->file)
		fclose(output->file);
	if (output->beside)
		unlink(output->beside);
	g_free(output->beside);
	g_free(output->name);
	*output = (struct output){ 0 };
}
