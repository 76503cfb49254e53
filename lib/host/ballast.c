// SPDX-License-Identifier: LGPL-2.1-or-later
/* Mappings of the kernel in reserve. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/ballast.h"

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
