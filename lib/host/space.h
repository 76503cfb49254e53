/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address space and memory of one open host backend: reservations, handles, and mappings between them. The calls are
 * those of struct backend_ops, with their preconditions checked; each explains its error by error_set().
 */
#ifndef HOST_SPACE_H
#define HOST_SPACE_H

#include <stddef.h>
#include <stdint.h>

struct backend_event;
struct backend_export;
struct host_device;
struct host_space;

/**
 * host_space_new() - an empty address space
 * @dev: the device whose memory it has
 *
 * Return: the space.
 */
struct host_space *host_space_new(struct host_device *dev);

/**
 * host_space_destroy() - give everything back
 * @space: the space
 *
 * Return: how many reservations, handles and mappings still existed.
 */
uint64_t host_space_destroy(struct host_space *space);

/**
 * host_space_count() - what exists in the process, in all spaces
 * @reservations: receives the number of reservations
 * @handles: receives the number of pieces of memory, released ones that are still mapped included
 * @mappings: receives the number of mappings
 */
void host_space_count(uint64_t *reservations, uint64_t *handles, uint64_t *mappings);

/**
 * host_space_find() - map addresses that nothing else has, without access
 * @size: bytes, a multiple of the granularity
 * @align: the same, and a power of two
 * @va: receives the address
 *
 * Return: 0, or -ENOMEM.
 */
int host_space_find(size_t size, size_t align, uint64_t *va);

int host_space_reserve(struct host_space *space, size_t size, size_t align, uint64_t *va);
int host_space_reserve_at(struct host_space *space, uint64_t va, size_t size);
int host_space_unreserve(struct host_space *space, uint64_t va, size_t size);
int host_space_create(struct host_space *space, size_t size, uint64_t *handle);
int host_space_create_export(struct host_space *space, size_t size, uint64_t *handle);
int host_space_export(struct host_space *space, uint64_t handle, struct backend_export *export);
int host_space_import(struct host_space *space, const struct backend_export *export, size_t size, uint64_t *handle);
int host_space_release(struct host_space *space, uint64_t handle);
int host_space_map(struct host_space *space, uint64_t va, size_t size, uint64_t handle);
int host_space_unmap(struct host_space *space, uint64_t va, size_t size, struct backend_event *guard);

/**
 * host_space_access() - let devices read and write a range
 * @space: the space
 * @va: the address
 * @size: bytes
 * @devices: as bits by ordinal; not 0
 *
 * Return: as access of struct backend_ops.
 */
int host_space_access(struct host_space *space, uint64_t va, size_t size, uint64_t devices);

/**
 * host_space_deny() - let devices no longer read and write a range
 * @space: the space
 * @va: the address
 * @size: bytes
 * @devices: as bits by ordinal; not all that can
 *
 * Return: as deny of struct backend_ops.
 */
int host_space_deny(struct host_space *space, uint64_t va, size_t size, uint64_t devices);

/**
 * host_space_reachable() - whether a device can read and write all bytes of a range
 * @space: the space
 * @device: its ordinal
 * @call: what asks, for the error's sentence
 * @va: the address
 * @size: bytes
 *
 * Return: 0 or -EINVAL.
 */
int host_space_reachable(struct host_space *space, int device, const char *call, uint64_t va, size_t size);

#endif /* HOST_SPACE_H */
