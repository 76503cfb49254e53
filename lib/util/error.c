// SPDX-License-Identifier: LGPL-2.1-or-later
/* The text of each thread's last error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/error.h"

/* Of fixed size, so that it needs no memory to report an error, and no clean-up when a thread ends. */
static _Thread_local char sentence[ERROR_SENTENCE_MAX];

int (error_set)(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	errno = -err;
	return err;
}

int (error_add)(int err, const char *format, ...)
{
	char doing[256];
	size_t used, kept;
	va_list args;

	va_start(args, format);
	vsnprintf(doing, sizeof(doing) - 2, format, args);
	va_end(args);
	strcat(doing, ": ");
	used = strlen(doing);
	kept = strnlen(sentence, sizeof(sentence) - used - 1);
	memmove(sentence + used, sentence, kept);
	memcpy(sentence, doing, used);
	sentence[used + kept] = '\0';
	errno = -err;
	return err;
}

int (error_hint)(int err, const char *format, ...)
{
	size_t used = strlen(sentence);
	va_list args;

	if (used + 2 < sizeof(sentence)) {
		sentence[used++] = '\n';
		va_start(args, format);
		vsnprintf(sentence + used, sizeof(sentence) - used, format, args);
		va_end(args);
	}
	errno = -err;
	return err;
}

/* Copies only as much as there is: nearly always nothing. */
void error_keep(struct error_kept *kept)
{
	if (*sentence)
		memcpy(kept->sentence, sentence, strlen(sentence) + 1);
	else
		*kept->sentence = '\0';
}

void error_restore(const struct error_kept *kept)
{
	memcpy(sentence, kept->sentence, strlen(kept->sentence) + 1);
}

const char *error_get(void)
{
	return sentence;
}
