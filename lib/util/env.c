// SPDX-License-Identifier: LGPL-2.1-or-later
/* Variables of the environment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"
#include "util/error.h"
#include "util/text.h"

const char *env_get(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

int env_too_large(const char *name, const char *text)
{
	return error_set(-EINVAL, "%s=%.200s: larger than 64 bits can hold", name, text);
}

int env_parse_number(const char *name, const char *text, const char *what, uint64_t *value)
{
	int err = number_parse_scaled(text, value);

	if (err == -ERANGE)
		return env_too_large(name, text);
	if (err)
		return error_set(-EINVAL, "%s=%.200s: expected %s, plain or with a suffix K, M, G or T", name, text,
				 what);
	return 0;
}

int env_switch(const char *name, bool *on)
{
	const char *text = env_get(name);

	*on = false;
	if (!text || !number_parse_switch(text, on))
		return 0;
	return error_set(-EINVAL, "%s=%.200s: expected off, on, none, 0 or 1", name, text);
}

int env_number(const char *name, const char *what, uint64_t fallback, uint64_t *value)
{
	const char *text = env_get(name);

	if (text)
		return env_parse_number(name, text, what, value);
	*value = fallback;
	return 0;
}

int env_keep(const char *name, uint64_t *bytes)
{
	const char *text = env_get(name);

	if (!text || strcmp(text, "none"))
		return env_number(name, "none or a number of bytes", UINT64_MAX, bytes);
	*bytes = 0;
	return 0;
}
