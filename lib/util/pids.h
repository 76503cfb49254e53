/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Process ids are of a namespace: two containers can have the same id for a process of each. */
#ifndef PIDS_H
#define PIDS_H

#include <stdint.h>
#include <sys/stat.h>

/* The inode of this process's namespace of processes; 0: /proc does not tell. */
static inline uint64_t pids_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

#endif /* PIDS_H */
