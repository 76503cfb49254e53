// SPDX-License-Identifier: LGPL-2.1-or-later
/* File descriptors of the library's own, kept apart from standard input, output and error. */
#include <errno.h>
#include <fcntl.h>
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
