/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VPMM_ZERO: clears a block that was just allocated. */
#ifndef ZERO_H
#define ZERO_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct vpmm_pool;

/**
 * zero_block() - clear a block that was just allocated
 * @pool: the pool, its backend entered, its lock not held
 * @addr: the address, which only the caller knows
 * @size: bytes
 * @handle: the stream that it was allocated for
 *
 * Return: 0, or -EBUSY the pool is an arena that was paused meanwhile, or what the backend's clear, event_create and
 *	event_record return; the block is free again then.
 */
int zero_block(struct vpmm_pool *pool, uint64_t addr, size_t size, struct CUstream_st *handle);

/**
 * zero_undo() - free a block that was just allocated, as the caller would; if the driver fails that, set it aside
 * @pool: the pool, its backend entered
 * @addr: the address, which only the caller knows
 * @handle: the stream that it was allocated for
 *
 * The error's text stays.
 */
void zero_undo(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle);

/**
 * zero_wait() - wait on the host until a stream has cleared a block, which is freed if that fails
 * @pool: the pool, its backend entered, its lock not held
 * @addr: the block, just allocated for the stream
 * @handle: the stream
 *
 * Return: 0, or what the backend's event_create, event_record and event_sync return.
 */
int zero_wait(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle);

/**
 * zero_drop() - free a block that was just allocated and cannot be cleared, without the driver
 * @pool: the pool, its lock not held; its backend need not be entered
 * @addr: the address, which only the caller knows
 *
 * An allocation of the driver's allocator stays until the pool is destroyed.
 */
void zero_drop(struct vpmm_pool *pool, uint64_t addr);

#endif /* ZERO_H */
