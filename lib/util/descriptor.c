// SPDX-License-Identifier: LGPL-2.1-or-later
/* File descriptors of the library's own, kept apart from standard input, output and error. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/descriptor.h"

int descriptor_raise(int fd)
{
	int raised, err;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	raised = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	errno = err;
	return raised;
}

uint64_t descriptor_most(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

bool descriptor_may_have(int fd, uint64_t size)
{
	struct stat st;

	if (size <= descriptor_most() || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return true;
	errno = EFBIG;
	return false;
}

struct descriptor descriptor_note(int fd)
{
	struct stat st = { 0 };

	/* Of one that cannot be asked nothing is its own. */
	fstat(fd, &st);
	return (struct descriptor){ fd, st.st_dev, st.st_ino };
}

bool descriptor_is_own(const struct descriptor *descriptor)
{
	struct stat st;

	return descriptor->fd >= 0 && !fstat(descriptor->fd, &st) && st.st_dev == descriptor->dev &&
	       st.st_ino == descriptor->ino;
}

void descriptor_close(struct descriptor *descriptor)
{
	if (descriptor_is_own(descriptor))
		close(descriptor->fd);
	descriptor->fd = -1;
}
