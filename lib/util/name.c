// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/name.h"

const char *name_unknown(const char *name)
{
	for (const char *at = strchr(name, '%'); at; at = strchr(at + 2, '%')) {
		if (at[1] != 'p' && at[1] != '%')
			return at;
	}
	return NULL;
}

size_t name_expand(const char *name, char *to, size_t room)
{
	size_t used = 0;

	if (room)
		*to = '\0';
	for (; *name; name++) {
		char *end = used < room ? to + used : NULL;
		size_t left = used < room ? room - used : 0;

		if (*name != '%')
			used += (size_t)snprintf(end, left, "%c", *name);
		else if (*++name == 'p')
			used += (size_t)snprintf(end, left, "%ld", (long)getpid());
		else
			used += (size_t)snprintf(end, left, "%%");
	}
	return used;
}
