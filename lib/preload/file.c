// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/file.h"

static bool expand(const char *name, char *to, size_t room)
{
	size_t used = 0;
	int n;

	for (; *name && used < room; name++) {
		if (*name != '%')
			n = snprintf(to + used, room - used, "%c", *name);
		else if (*++name == 'p')
			n = snprintf(to + used, room - used, "%ld", (long)getpid());
		else if (*name == '%')
			n = snprintf(to + used, room - used, "%%");
		else
			return false;
		used += (size_t)n;
	}
	return used < room;
}

FILE *file_open(const char *variable, const char *mode)
{
	const char *name = getenv(variable);
	char path[4096] = "";
	FILE *file;

	if (!name || !expand(name, path, sizeof(path))) {
		fprintf(stderr, "libvpmm-preload: %s=%s: not a name; behind a percent sign there can be p or another\n",
			variable, name ? name : "");
		return NULL;
	}
	file = fopen(path, mode);
	if (!file)
		fprintf(stderr, "libvpmm-preload: %s=%s: %m\n", variable, name);
	return file;
}
