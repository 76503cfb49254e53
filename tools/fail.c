// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[1024];

int (fail_set)(int err, const char *format, ...)
{
	char text[sizeof(sentence)];
	va_list args;

	/* The sentence so far may be among the arguments. */
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(sentence, text, sizeof(sentence));
	return err;
}

const char *fail_text(void)
{
	return sentence;
}
