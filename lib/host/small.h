/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host backend's model of the driver's stream-ordered allocator. It takes segments of memory, keeps them, and cuts
 * them into blocks. A freed block serves the stream that freed it at once, and other streams once the free is
 * complete. Only where a request would fail otherwise does it make a stream wait.
 */
#ifndef HOST_SMALL_H
#define HOST_SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct host_device;
struct host_small;

/**
 * host_small_new() - an allocator without memory
 * @dev: the device whose memory it takes
 *
 * Return: the allocator.
 */
struct host_small *host_small_new(struct host_device *dev);

/**
 * host_small_destroy() - give everything back
 * @small: the allocator
 *
 * Return: how many allocations still existed.
 */
uint64_t host_small_destroy(struct host_small *small);

/**
 * host_small_alloc() - allocate
 * @small: the allocator
 * @size: bytes, at least 1
 * @stream: a stream of the device
 * @va: receives the address, a multiple of 512
 *
 * Context: any thread.
 * Return: 0, -EINVAL, or -ENOMEM.
 */
int host_small_alloc(struct host_small *small, size_t size, struct CUstream_st *stream, uint64_t *va);

/**
 * host_small_free() - free in the order of a stream
 * @small: the allocator
 * @va: what host_small_alloc() gave
 * @stream: a stream of the device
 *
 * Context: any thread.
 * Return: 0, or -EINVAL.
 */
int host_small_free(struct host_small *small, uint64_t va, struct CUstream_st *stream);

/**
 * host_small_has() - whether bytes lie in one allocation
 * @small: the allocator
 * @va: the address
 * @size: bytes from there
 *
 * Context: any thread.
 */
bool host_small_has(struct host_small *small, uint64_t va, size_t size);

/**
 * host_small_held() - how much memory it has
 * @small: the allocator
 * @bytes: receives bytes of all segments
 * @peak: receives the most they have been
 *
 * Context: any thread.
 */
void host_small_held(struct host_small *small, uint64_t *bytes, uint64_t *peak);

/**
 * host_small_trim() - release unused segments to the device
 * @small: the allocator
 * @keep: bytes to keep
 *
 * Memory whose free is not complete stays.
 *
 * Context: any thread.
 * Return: whether there is such memory.
 */
bool host_small_trim(struct host_small *small, uint64_t keep);

#endif /* HOST_SMALL_H */
