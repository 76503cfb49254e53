// SPDX-License-Identifier: LGPL-2.1-or-later
/* Finds, creates and opens the file of a budget. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "budget/file.h"
#include "util/descriptor.h"
#include "util/error.h"

_Static_assert(sizeof(struct budget_slot) == 128, "other builds of the library have slots of 128 bytes");

/* Joining takes microseconds; a process that was stopped meanwhile keeps others out. */
#define JOIN_WAIT_MS 5000

/* Permissions of the group and of others. */
#define NOT_MINE (S_IRWXG | S_IRWXO)

static bool is_folder_mine(const char *folder)
{
	struct stat st;

	return !stat(folder, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

char *budget_path(const char *name, const unsigned char uuid[BUDGET_UUID])
{
	const char *runtime = g_getenv("XDG_RUNTIME_DIR");
	char hex[2 * BUDGET_UUID + 1];

	for (size_t i = 0; i < BUDGET_UUID; i++)
		sprintf(hex + 2 * i, "%02x", uuid[i]);
	if (strchr(name, '/'))
		return g_strdup_printf("%s.%s", name, hex);
	/* After sudo it is the folder of somebody else. */
	if (runtime && *runtime == '/' && is_folder_mine(runtime))
		return g_strdup_printf("%s/vpmm/%s.%s", runtime, name, hex);
	return g_strdup_printf("/dev/shm/vpmm-%u/%s.%s", geteuid(), name, hex);
}

int budget_lock_byte(int fd, off_t byte, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

int budget_lock_join(int fd, const char *name)
{
	int err;

	for (int ms = 0; ms < JOIN_WAIT_MS; ms++) {
		err = budget_lock_byte(fd, BUDGET_BYTE_JOIN, F_WRLCK);
		if (err != -EAGAIN && err != -EACCES && err != -EINTR)
			return err ? error_set(err, "%s: cannot be locked: %s", name, g_strerror(-err)) : 0;
		g_usleep(1000);
	}
	return error_set(-EBUSY, "%s: another process has been joining it for %d s: it may be stopped", name,
			 JOIN_WAIT_MS / 1000);
}

static int fail_file(const char *path, const char *what)
{
	int err = -errno;

	return error_set(err, "%s: %s: %s", path, what, g_strerror(-err));
}

/* Record locks are slow there, or not those of other machines. */
static bool is_file_remote(int fd)
{
	static const unsigned long remote[] = { 0x6969, 0x517b, 0xfe534d42, 0xff534d42, 0x65735546, 0x00c36400 };
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	for (size_t i = 0; i < G_N_ELEMENTS(remote); i++) {
		if ((unsigned long)fs.f_type == remote[i])
			return true;
	}
	return false;
}

/* What is found has to be a folder that nobody else can put a file in. */
static int open_budget_folder(const char *path, bool own)
{
	char *name = g_path_get_dirname(path);
	struct stat st;
	int fd = -1, err = 0;

	if (own && mkdir(name, S_IRWXU) && errno != EEXIST) {
		err = fail_file(name, "cannot be created");
		goto out;
	}
	fd = descriptor_raise(open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0) {
		err = fail_file(name, "cannot be opened");
		goto out;
	}
	if (fstat(fd, &st))
		err = fail_file(name, "cannot be examined");
	else if (st.st_uid != geteuid())
		err = error_set(-EINVAL, "%s: belongs to user %u: expected a folder of user %u", name, st.st_uid,
				geteuid());
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		err = error_set(-EINVAL, "%s: others can write there, as its mode is %#o: expected 0700", name,
				st.st_mode & 07777);
	else if (is_file_remote(fd))
		err = error_set(-EINVAL, "%s: is on a network or in user space, where locks do not do: expected a "
				"local file system", name);
	if (err)
		close(fd);
out:
	g_free(name);
	return err ? err : fd;
}

static int judge_budget_file(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return fail_file(path, "cannot be examined");
	if (!S_ISREG(st.st_mode))
		return error_set(-EINVAL, "%s: is no regular file", path);
	if (st.st_uid != geteuid())
		return error_set(-EINVAL, "%s: belongs to user %u: expected a file of user %u", path, st.st_uid,
				 geteuid());
	if (st.st_mode & NOT_MINE)
		return error_set(-EINVAL, "%s: others can open it, as its mode is %#o: expected 0600", path,
				 st.st_mode & 07777);
	if (st.st_nlink != 1)
		return error_set(-EINVAL, "%s: has %lu names: expected 1", path, (unsigned long)st.st_nlink);
	if (st.st_size && st.st_size != sizeof(struct budget_file))
		return error_set(-EINVAL, "%s: has %lld bytes: expected %zu. It is no file of a budget, or one of "
				 "another version", path, (long long)st.st_size, sizeof(struct budget_file));
	return 0;
}

/* A process whose files may not become as large creates none: it would leave an empty one. */
static int open_budget_file(int folder, const char *path, const char *name)
{
	const bool create = descriptor_most() >= sizeof(struct budget_file);
	int fd, err;

	fd = descriptor_raise(openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (create ? O_CREAT : 0),
				     S_IRUSR | S_IWUSR));
	if (fd < 0 && !create && errno == ENOENT)
		errno = EFBIG;
	if (fd < 0)
		return errno == ELOOP ? error_set(-EINVAL, "%s: is a symbolic link: expected a file", path) :
		       fail_file(path, "cannot be opened");
	err = judge_budget_file(fd, path);
	if (err)
		close(fd);
	return err ? err : fd;
}

/* An empty file is new, or the process that created it was killed before it came here. */
static int fill_budget_file(int fd, const char *path)
{
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return fail_file(path, "cannot be examined");
	if (st.st_size)
		return 0;
	if (fchmod(fd, S_IRUSR | S_IWUSR) || !descriptor_may_have(fd, sizeof(struct budget_file)))
		return fail_file(path, "cannot be created");
	/* Otherwise a full file system would be a signal later. */
	err = posix_fallocate(fd, 0, sizeof(struct budget_file));
	if (!err)
		return 0;
	if (ftruncate(fd, 0))
		err = errno;
	return error_set(-err, "%s: cannot be created: %s", path, g_strerror(err));
}

/*
 * The mapping keeps the locks, as a program may close descriptors that it does not know. A child of the process has no
 * mapping, and no lock once it has closed its descriptor.
 */
static int map_budget_file(int fd, const char *path, struct budget_file **file)
{
	static const char none[sizeof((*file)->magic)];
	struct budget_file *at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return fail_file(path, "cannot be mapped");
	madvise(at, sizeof(*at), MADV_DONTFORK);
	if (!memcmp(at->magic, none, sizeof(none)))
		memcpy(at->magic, BUDGET_MAGIC, sizeof(BUDGET_MAGIC));
	if (memcmp(at->magic, BUDGET_MAGIC, sizeof(BUDGET_MAGIC))) {
		munmap(at, sizeof(*at));
		return error_set(-EINVAL, "%s: does not begin as a file of a budget does, or is of another version",
				 path);
	}
	*file = at;
	return 0;
}

/* With the lock of joining held, so that another process can complete what one that was killed has begun. */
static int begin_budget_file(int fd, const char *path, struct budget_file **file)
{
	int err;

	err = budget_lock_join(fd, path);
	if (err)
		return err;
	err = fill_budget_file(fd, path);
	if (!err)
		err = map_budget_file(fd, path, file);
	budget_lock_byte(fd, BUDGET_BYTE_JOIN, F_UNLCK);
	return err;
}

int budget_open(const char *path, bool own, struct descriptor *locks, struct budget_file **file)
{
	char *name = g_path_get_basename(path);
	int folder, fd, err;

	folder = open_budget_folder(path, own);
	if (folder < 0) {
		err = folder;
		goto out;
	}
	fd = open_budget_file(folder, path, name);
	err = fd < 0 ? fd : begin_budget_file(fd, path, file);
	if (!err)
		*locks = descriptor_note(fd);
	else if (fd >= 0)
		close(fd);
	close(folder);
out:
	g_free(name);
	return err;
}

void budget_close(struct descriptor *locks, struct budget_file *file)
{
	munmap(file, sizeof(*file));
	descriptor_close(locks);
}
