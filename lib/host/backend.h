/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The host backend as a whole: its reset and, for tests, whether everything that it gave out was given back. */
#ifndef HOST_BACKEND_H
#define HOST_BACKEND_H

#include <stddef.h>
#include <stdint.h>

struct backend;

/**
 * backend_host_reset() - reset a device: its streams, and all backends that have it open, are gone
 * @device: ordinal
 *
 * Memory and addresses of the backends stay until they are given back.
 *
 * Return: 0, or -EBUSY if called by a piece of work.
 */
int backend_host_reset(int device);

/**
 * backend_host_access() - let devices access memory, whatever the backend's peers are
 * @be: the backend, entered
 * @va: the address
 * @size: bytes
 * @devices: as bits by ordinal; not 0
 *
 * For tests, whose driver is told the devices with each call.
 *
 * Return: as access of struct backend_ops.
 */
int backend_host_access(struct backend *be, uint64_t va, size_t size, uint64_t devices);

/**
 * backend_host_check_access() - whether a device can read and write memory of any open backend
 * @device: ordinal, below HOST_DEVICES_MAX
 * @va: the address
 * @size: bytes
 *
 * Context: any thread.
 * Return: 0 or -EACCES.
 */
int backend_host_check_access(int device, uint64_t va, size_t size);

/**
 * struct host_left - what exists in the process, on all devices
 * @opens: open backends
 * @reservations: reservations of address space
 * @handles: pieces of memory, released ones that are still mapped included
 * @mappings: mappings
 * @events: events
 * @small: small allocations
 * @abandoned: how many of the above still existed when their backend was closed
 * @touched: calls that used streams, events or new memory of a device that had been reset
 * @misordered: calls that did not come after work of the library that was pending on their memory, ever
 */
struct host_left {
	uint64_t opens;
	uint64_t reservations;
	uint64_t handles;
	uint64_t mappings;
	uint64_t events;
	uint64_t small;
	uint64_t abandoned;
	uint64_t touched;
	uint64_t misordered;
};

/**
 * backend_host_left() - count what was not given back
 * @left: receives the numbers
 *
 * Context: any thread.
 */
void backend_host_left(struct host_left *left);

#endif /* HOST_BACKEND_H */
