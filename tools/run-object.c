// SPDX-License-Identifier: LGPL-2.1-or-later
#include "run-object.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"

#define OBJECT "libvpmm-preload.so"
#define VARIABLE "VPMM_PRELOAD_OBJECT"

/* What was built is in .libs, both this program and the object. NULL: this is no build tree. */
static char *find_built(void)
{
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	char *built = self ? g_strrstr(self, "/tools/.libs/") : NULL;

	if (!built || strchr(built + strlen("/tools/.libs/"), '/'))
		return NULL;
	*built = '\0';
	return g_build_filename(self, "lib", ".libs", OBJECT, NULL);
}

static bool is_divided(const char *name)
{
	return strpbrk(name, " \t\n:");
}

/* The program may change its folder and start another one; but a name that cannot be in LD_PRELOAD is of no use. */
static char *complete(const char *named)
{
	g_autofree char *object = g_canonicalize_filename(named, NULL);

	return !is_divided(object) || is_divided(named) ? g_steal_pointer(&object) : g_strdup(named);
}

static char *find(void)
{
	const char *named = g_getenv(VARIABLE);
	char *object;

	if (named && *named)
		return complete(named);
	object = find_built();
	return object ? object : g_build_filename(PRELOAD_DIR, OBJECT, NULL);
}

static int check(const char *object)
{
	if (is_divided(object))
		return fail_set(-EINVAL, "LD_PRELOAD cannot have a name with a space or a colon: %s; " VARIABLE
				" can name it in another way", object);
	if (access(object, R_OK)) {
		int err = errno;

		return fail_set(-err, "the object to preload, %s: %s", object, g_strerror(err));
	}
	return 0;
}

int object_preload(void)
{
	const char *before = g_getenv("LD_PRELOAD");
	g_autofree char *object = find(), *list = NULL;
	int err = check(object);

	list = before && *before ? g_strconcat(before, ":", object, NULL) : g_strdup(object);
	if (!err)
		g_setenv("LD_PRELOAD", list, TRUE);
	return err;
}
