// SPDX-License-Identifier: LGPL-2.1-or-later
/* Texts of settings and messages: numbers, byte counts and names of files. */
#define _GNU_SOURCE 1
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/text.h"

int number_parse(const char *text, const char **end, uint64_t *value)
{
	int before = errno;
	uint64_t number;
	int err;

	/* strtoull takes white space and a minus sign, which no number here has. */
	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, (char **)end, 10);
	err = errno ? -ERANGE : 0;
	errno = before;
	if (!err)
		*value = number;
	return err;
}

int number_parse_scaled(const char *text, uint64_t *value)
{
	static const char suffixes[] = "KMGT";
	unsigned int shift = 0;
	const char *end, *suffix;
	uint64_t number;
	int err;

	err = number_parse(text, &end, &number);
	if (err)
		return err;
	if (*end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (!suffix || end[1])
			return -EINVAL;
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
	}
	if (number > UINT64_MAX >> shift)
		return -ERANGE;
	*value = number << shift;
	return 0;
}

int number_parse_switch(const char *text, bool *on)
{
	bool set = !strcmp(text, "on") || !strcmp(text, "1");

	if (!set && strcmp(text, "off") && strcmp(text, "none") && strcmp(text, "0"))
		return -EINVAL;
	*on = set;
	return 0;
}

#define MIB (UINT64_C(1) << 20)

struct amount amount(uint64_t bytes)
{
	struct amount amount;

	if (bytes && bytes < MIB)
		snprintf(amount.text, sizeof(amount.text), "%" PRIu64 " bytes", bytes);
	else if (bytes % MIB)
		snprintf(amount.text, sizeof(amount.text), "%.1f MiB", (double)bytes / (double)MIB);
	else
		snprintf(amount.text, sizeof(amount.text), "%" PRIu64 " MiB", bytes / MIB);
	return amount;
}

void text_warn(const char *format, ...)
{
	va_list args;
	char *text;
	int size;

	va_start(args, format);
	size = vasprintf(&text, format, args);
	va_end(args);
	if (size < 0)
		return;
	fputs(text, stderr);
	free(text);
}

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
