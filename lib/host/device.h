/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The devices of the host backend: how many there are, which one is a thread's current one, and the memory of each.
 *
 * The state of a device exists while it is open, so that its variables are read again at the next open. All calls may
 * be made from any thread; those that return an int explain a failure by error_set().
 */
#ifndef HOST_DEVICE_H
#define HOST_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#define HOST_DEVICES_MAX 64
#define HOST_GRANULARITY ((size_t)2 << 20)

struct host_device;

/**
 * host_device_count() - how many devices there are
 * @count: receives VPMM_HOST_DEVICES
 *
 * Return: 0, or -EINVAL if the variable has a bad value.
 */
int host_device_count(int *count);

/**
 * host_device_kernels() - how many kernels a device performs at once
 * @count: receives VPMM_HOST_KERNELS, which a program can change between its parts
 *
 * Return: 0, or -EINVAL if the variable has a bad value.
 */
int host_device_kernels(unsigned int *count);

/**
 * host_device_current() - the calling thread's current device
 *
 * Return: its ordinal.
 */
int host_device_current(void);

/**
 * host_device_set_current() - make a device the calling thread's current one
 * @ordinal: the device, which exists
 */
void host_device_set_current(int ordinal);

/**
 * host_device_open() - open a device, or open it once more
 * @ordinal: the device
 * @dev: receives it
 *
 * Return: 0, -ENODEV if there is no such device, -EINVAL if a variable has a bad value, or -ENOMEM.
 */
int host_device_open(int ordinal, struct host_device **dev);

/**
 * host_device_close() - close it once
 * @dev: the device
 */
void host_device_close(struct host_device *dev);

/**
 * host_device_ordinal() - which device it is
 * @dev: the device
 *
 * Return: its ordinal.
 */
int host_device_ordinal(const struct host_device *dev);

/**
 * host_device_usage() - memory and mappings of a device
 * @dev: the device
 * @capacity: receives the bytes of its memory
 * @used: receives the bytes in use
 * @mapping_limit: receives the number of mappings that can exist
 */
void host_device_usage(struct host_device *dev, uint64_t *capacity, uint64_t *used, uint64_t *mapping_limit);

/**
 * host_device_take() - count memory as used that is not the device's own
 * @dev: the device
 * @size: bytes
 *
 * Return: 0 or -ENOMEM.
 */
int host_device_take(struct host_device *dev, uint64_t size);

/**
 * host_device_give() - undo host_device_take()
 * @dev: the device
 * @size: bytes that were taken
 */
void host_device_give(struct host_device *dev, uint64_t size);

/**
 * host_device_alloc() - allocate device memory
 * @dev: the device
 * @size: bytes, a multiple of the granularity
 * @offset: receives its offset in host_device_fd()
 *
 * Return: 0 or -ENOMEM.
 */
int host_device_alloc(struct host_device *dev, uint64_t size, uint64_t *offset);

/**
 * host_device_free() - free device memory
 * @dev: the device
 * @offset: its offset; nothing maps it any more
 * @size: bytes
 */
void host_device_free(struct host_device *dev, uint64_t offset, uint64_t size);

/**
 * host_device_fd() - the file that is the device's memory
 * @dev: the device
 *
 * Return: a file descriptor.
 */
int host_device_fd(const struct host_device *dev);

/**
 * host_device_count_mappings() - count mappings made or removed
 * @dev: the device
 * @change: the change of their number
 */
void host_device_count_mappings(struct host_device *dev, int64_t change);

/**
 * host_device_may_access() - whether a mapping can get access
 * @dev: the device
 *
 * Return: 0, or -ENOMEM if there are more mappings than there can be.
 */
int host_device_may_access(struct host_device *dev);

#endif /* HOST_DEVICE_H */
