/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Limits of the process, for tests of what happens at them. */
#ifndef RLIMIT_H
#define RLIMIT_H

#include <sys/resource.h>

/* Sets the soft limit of a resource, which must succeed. Returns the one before. */
rlim_t rlimit_set(int resource, rlim_t soft);

#endif /* RLIMIT_H */
