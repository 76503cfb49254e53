// SPDX-License-Identifier: LGPL-2.1-or-later
#include "run-preload.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

#define OBJECT "libvpmm-preload.so"
#define VARIABLE "VPMM_PRELOAD_OBJECT"

/* The object of the build tree that this program is in: both are in a folder .libs. NULL: it is in no build tree. */
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

static char *find_object(void)
{
	const char *named = g_getenv(VARIABLE);
	char *object;

	if (named && *named)
		return complete(named);
	object = find_built();
	return object ? object : g_build_filename(PRELOAD_DIR, OBJECT, NULL);
}

static int check_object(const char *object)
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
	g_autofree char *object = find_object(), *list = NULL;
	int err = check_object(object);

	list = before && *before ? g_strconcat(before, ":", object, NULL) : g_strdup(object);
	if (!err)
		g_setenv("LD_PRELOAD", list, TRUE);
	return err;
}

/* How much of a script's first line the kernel reads, and how many interpreters it follows. */
#define LINE 256
#define INTERPRETERS 5

/* With the rights of another user or group the linker trusts the environment no more. */
static int check_rights(int fd, const char *path)
{
	const mode_t group = S_ISGID | S_IXGRP;
	struct stat st;

	if (fstat(fd, &st))
		return 0;
	if ((st.st_mode & S_ISUID && st.st_uid != getuid()) || ((st.st_mode & group) == group && st.st_gid != getgid()))
		return fail_set(-EINVAL, "%s is a set-%s-ID program, for which the dynamic linker ignores LD_PRELOAD",
				path, st.st_mode & S_ISUID ? "user" : "group");
	return 0;
}

static bool read_at(int fd, void *to, size_t size, off_t at)
{
	return pread(fd, to, size, at) == (ssize_t)size;
}

static int check_elf(int fd, const char *path)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (!read_at(fd, &header, sizeof(header), 0))
		return 0;
	if (header.e_ident[EI_CLASS] != ELFCLASS64)
		return fail_set(-EINVAL, "%s is a 32-bit program, and libvpmm is for 64 bits", path);
	for (unsigned int i = 0; i < header.e_phnum; i++) {
		if (!read_at(fd, &segment, sizeof(segment), (off_t)(header.e_phoff + i * sizeof(segment))))
			return 0;
		if (segment.p_type == PT_INTERP)
			return 0;
	}
	return fail_set(-EINVAL, "%s is linked statically: there is no dynamic linker to preload libvpmm", path);
}

/* What "#!" names; NULL: nothing. */
static char *interpreter(const char *line)
{
	const char *name = line + 2 + strspn(line + 2, " \t");
	size_t length = strcspn(name, " \t\n");

	return length ? g_strndup(name, length) : NULL;
}

static int check_target(const char *path, unsigned int depth);

static int check_contents(int fd, const char *path, unsigned int depth)
{
	g_autofree char *name = NULL;
	char line[LINE] = "";

	if (pread(fd, line, sizeof(line) - 1, 0) < 2)
		return 0;
	if (memcmp(line, ELFMAG, SELFMAG) == 0)
		return check_elf(fd, path);
	if (strncmp(line, "#!", 2) != 0 || depth == INTERPRETERS)
		return 0;
	name = interpreter(line);
	return name ? check_target(name, depth + 1) : 0;
}

/* The kernel ignores the bits of a script. */
static int check_target(const char *path, unsigned int depth)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	char magic[2] = "";

	if (fd < 0)
		return 0;
	if (pread(fd, magic, sizeof(magic), 0) == 2 && memcmp(magic, "#!", 2) == 0)
		err = 0;
	else
		err = check_rights(fd, path);
	if (!err)
		err = check_contents(fd, path, depth);
	close(fd);
	return err;
}

int target_check(const char *path)
{
	return check_target(path, 0);
}
