/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory in a file of its own, which other processes can map: they reach nothing else through its descriptor. And
 * mappings in reserve.
 */
#ifndef HOST_FILE_H
#define HOST_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct host_device;

/**
 * host_file_create() - allocate device memory in a file of its own
 * @dev: the device
 * @size: bytes, a multiple of the granularity
 * @fd: receives its descriptor
 *
 * Nobody can change its size.
 *
 * Return: 0 or -ENOMEM.
 */
int host_file_create(struct host_device *dev, size_t size, int *fd);

/**
 * host_file_free() - undo host_file_create()
 * @dev: the device
 * @size: bytes
 * @fd: the descriptor
 */
void host_file_free(struct host_device *dev, size_t size, int fd);

/**
 * host_file_dup() - another descriptor of a file
 * @fd: a descriptor of it
 * @dup: receives the other
 *
 * Return: 0 or -EMFILE.
 */
int host_file_dup(int fd, int *dup);

/**
 * host_file_check() - whether a descriptor from elsewhere is of such memory
 * @fd: the descriptor
 * @size: bytes that it should have
 *
 * Whoever maps a file that another process can make smaller can be killed by that.
 *
 * Return: 0 or -EINVAL.
 */
int host_file_check(int fd, size_t size);

/*
 * Mappings of the kernel in reserve. At the kernel's limit of mappings nothing could be unmapped either, as what an
 * unmap leaves behind is a mapping to the kernel. So some are kept from the first map on: pages of alternating
 * protection, one mapping each.
 */

/**
 * ballast_load() - put mappings in reserve, unless they are
 * @ballast: the pages, NULL at first
 *
 * Return: whether they are there; errno is set otherwise.
 */
bool ballast_load(char **ballast);

/**
 * ballast_drop() - give the mappings back to the kernel
 * @ballast: the pages
 *
 * Return: whether there were any to give back.
 */
bool ballast_drop(char **ballast);

#endif /* HOST_FILE_H */
