// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdlib.h>

#include "preload/file.h"
#include "util/name.h"

FILE *file_open(const char *variable, const char *mode)
{
	const char *name = getenv(variable), *unknown;
	char path[4096];
	FILE *file;

	if (!name)
		return NULL;
	unknown = name_unknown(name);
	if (unknown) {
		fprintf(stderr, "libvpmm-preload: %s=%s: what \"%.2s\" stands for is not known: expected %%p or %%%%\n",
			variable, name, unknown);
		return NULL;
	}
	if (name_expand(name, path, sizeof(path)) >= sizeof(path)) {
		fprintf(stderr, "libvpmm-preload: %s=%s: the name is too long\n", variable, name);
		return NULL;
	}
	file = fopen(path, mode);
	if (!file)
		fprintf(stderr, "libvpmm-preload: %s=%s: %m\n", variable, name);
	return file;
}
