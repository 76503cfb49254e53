// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory that is a sealed memfd, to be shared with other processes. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/device.h"
#include "host/file.h"
#include "util/descriptor.h"
#include "util/error.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SEALS_READ_ONLY (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

static int make_export_file(size_t size, int *fd)
{
	int made = descriptor_raise(memfd_create("vpmm-export", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (made < 0)
		return error_set(-ENOMEM, "memfd_create for memory to export: %s", g_strerror(errno));
	if (!descriptor_may_have(made, size)) {
		error_set(-ENOMEM, "file size: memory to export is a file, and %zu bytes would exceed the file size "
			  "limit, RLIMIT_FSIZE, of %" PRIu64, size, descriptor_most());
		goto err_close;
	}
	if (ftruncate(made, (off_t)size) || fcntl(made, F_ADD_SEALS, SEALS)) {
		error_set(-ENOMEM, "a file of %zu bytes for memory to export: %s", size, g_strerror(errno));
		goto err_close;
	}
	*fd = made;
	return 0;

err_close:
	close(made);
	return -ENOMEM;
}

int host_file_create(struct host_device *dev, size_t size, int *fd)
{
	int ret = host_device_take(dev, size);

	if (ret)
		return ret;
	ret = make_export_file(size, fd);
	if (ret)
		host_device_give(dev, size);
	return ret;
}

void host_file_free(struct host_device *dev, size_t size, int fd)
{
	close(fd);
	host_device_give(dev, size);
}

int host_file_dup(int fd, int *dup)
{
	int made = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (made < 0)
		return error_set(-EMFILE, "another descriptor of memory: %s (RLIMIT_NOFILE)", g_strerror(errno));
	*dup = made;
	return 0;
}

/* Huge pages are refused, as an access is a SIGBUS where the system has none to spare. */
static bool is_exported(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
	struct statfs system;

	return seals >= 0 && (seals & (SEALS | SEALS_READ_ONLY)) == SEALS &&
	       flags >= 0 && (flags & O_ACCMODE) == O_RDWR &&
	       !fstatfs(fd, &system) && system.f_type == TMPFS_MAGIC;
}

int host_file_check(int fd, size_t size)
{
	struct stat stat;

	if (!is_exported(fd) || fstat(fd, &stat))
		return error_set(-EINVAL, "import: the descriptor is not of memory that the host backend has exported");
	if ((uint64_t)stat.st_size != size)
		return error_set(-EINVAL, "import: %zu bytes of memory that has %" PRId64, size,
				 (int64_t)stat.st_size);
	return 0;
}

#define BALLAST_PAGES 16

bool ballast_load(char **ballast)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
	char *pages;

	if (*ballast)
		return true;
	pages = mmap(NULL, BALLAST_PAGES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pages == MAP_FAILED)
		return false;
	for (i = 0; i < BALLAST_PAGES; i += 2) {
		if (mprotect(pages + i * page, page, PROT_READ)) {
			munmap(pages, BALLAST_PAGES * page);
			errno = ENOMEM;
			return false;
		}
	}
	*ballast = pages;
	return true;
}

bool ballast_drop(char **ballast)
{
	if (!*ballast || munmap(*ballast, BALLAST_PAGES * (size_t)sysconf(_SC_PAGESIZE)))
		return false;
	*ballast = NULL;
	return true;
}
