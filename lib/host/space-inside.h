/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an address space of the host backend has in it. */
#ifndef HOST_SPACE_INSIDE_H
#define HOST_SPACE_INSIDE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/lock.h"

struct host_device;

/* Addresses, the first member of what a tree by address holds. */
struct span {
	uint64_t va;
	uint64_t size;
};

struct reservation {
	struct span span;
};

/* Device memory: it exists as long as its handle or a mapping does. */
struct memory {
	uint64_t handle;
	uint64_t offset;
	int fd;				/* of a file of its own, which can be exported; -1: in the device's */
	bool imported;
	uint64_t size;
	uint64_t mappings;
	bool released;
};

struct mapping {
	struct span span;
	struct memory *memory;
	uint64_t devices;		/* that can access it, as bits by ordinal; 0: nothing can */
};

struct host_space {
	struct lock lock;
	struct host_device *dev;
	GTree *reservations;
	GTree *mappings;
	GHashTable *handles;		/* memory that is not released, by handle */
	char *ballast;			/* see file.h */
};

/**
 * host_space_last_before() - the last of a tree by address that starts before an address
 * @tree: the tree, under the lock of its space
 * @va: the address
 *
 * Return: what it is, or NULL.
 */
void *host_space_last_before(GTree *tree, uint64_t va);

#endif /* HOST_SPACE_INSIDE_H */
