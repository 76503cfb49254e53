// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "preload/file.h"
#include "util/name.h"

static bool expand(const char *variable, const char *name, char *path, size_t size)
{
	const char *unknown;

	unknown = name_unknown(name);
	if (unknown) {
		fprintf(stderr, "libvpmm-preload: %s=%s: what \"%.2s\" stands for is not known: expected %%p or %%%%\n",
			variable, name, unknown);
		return false;
	}
	if (name_expand(name, path, size) >= size) {
		fprintf(stderr, "libvpmm-preload: %s=%s: the name is too long\n", variable, name);
		return false;
	}
	return true;
}

/* To open a pipe would wait for its other end, and take from what it has. */
static bool begins_with(const char *path, const char *line)
{
	char found[256];
	struct stat st;
	FILE *file;
	bool same;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	same = fgets(found, sizeof(found), file) && !strcmp(found, line);
	fclose(file);
	return same;
}

/* With a number behind it, the first name whose file does not begin with the line. */
static void pass_over(char *path, size_t size, const char *line)
{
	const size_t length = strlen(path);
	unsigned int number = 0;

	while (begins_with(path, line))
		snprintf(path + length, size - length, ".%u", ++number);
}

FILE *file_open(const char *variable, const char *mode, const char *line)
{
	const char *name = getenv(variable);
	char path[4096];
	FILE *file;

	/* There is room for a number. */
	if (!name || !expand(variable, name, path, sizeof(path) - 16))
		return NULL;
	if (line)
		pass_over(path, sizeof(path), line);
	file = fopen(path, mode);
	if (!file)
		fprintf(stderr, "libvpmm-preload: %s=%s: %m\n", variable, name);
	return file;
}
