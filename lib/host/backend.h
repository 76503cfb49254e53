/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests: whether everything that the host backend gave out was given back. */
#ifndef HOST_BACKEND_H
#define HOST_BACKEND_H

#include <stdint.h>

/**
 * struct host_left - what exists in the process, on all devices
 * @opens: open backends
 * @reservations: reservations of address space
 * @handles: pieces of memory, released ones that are still mapped included
 * @mappings: mappings
 * @events: events
 * @small: small allocations
 * @abandoned: how many of the above still existed when their backend was closed
 */
struct host_left {
	uint64_t opens;
	uint64_t reservations;
	uint64_t handles;
	uint64_t mappings;
	uint64_t events;
	uint64_t small;
	uint64_t abandoned;
};

/**
 * backend_host_left() - count what was not given back
 * @left: receives the numbers
 *
 * Context: any thread.
 */
void backend_host_left(struct host_left *left);

#endif /* HOST_BACKEND_H */
