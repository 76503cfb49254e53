/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which backend a tool works on, and what is there. */
#ifndef CHOOSE_H
#define CHOOSE_H

#include <stdbool.h>

#include "vpmm.h"

/**
 * struct choice - what was chosen
 * @opts: the options of the environment, with the backend that was taken: "cuda" or "host"
 * @info: what a pool with these options stands on; its pages are those of @opts, which were not created
 * @why: why this backend, as half a sentence; its own memory, for g_free()
 */
struct choice {
	struct vpmm_opts opts;
	struct vpmm_info info;
	char *why;
};

/**
 * choose_backend() - take a backend
 * @name: "cuda", "host" or "auto"; NULL: what VPMM_BACKEND says, or auto
 * @choice: receives it
 *
 * Auto is cuda where there is a device and a driver, and host elsewhere.
 *
 * Return: 0, or explained by fail_set():
 *	-EINVAL @name or a variable of the environment has a bad value,
 *	another negative errno value: there can be no pool on this backend.
 */
int choose_backend(const char *name, struct choice *choice);

/**
 * choose_driver_serves_small() - whether requests below a page are left to the driver's stream-ordered allocator
 * @info: what a pool stands on
 */
bool choose_driver_serves_small(const struct vpmm_info *info);

/**
 * choose_describe_pool() - in what a pool takes memory
 * @info: what the pool stands on
 *
 * Return: such as "in extents of 2.00 MiB to 1.00 GiB", for g_free().
 */
char *choose_describe_pool(const struct vpmm_info *info);

#endif /* CHOOSE_H */
