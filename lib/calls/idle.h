/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * VPMM_IDLE: memory that any stream may use at once.
 *
 * The policies serve such a request for a stream that has nothing and cannot be made to wait, stream_get_idle(). So
 * they give it what is complete, or create memory; and only where that fails, the host waits. The block then belongs to
 * the stream of the request, as any other.
 */
#ifndef CALLS_IDLE_H
#define CALLS_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct vpmm_pool;

/**
 * idle_malloc() - allocate memory that no work is pending on
 * @pool: the pool, its backend entered
 * @addr: receives the address
 * @size: bytes, not 0
 * @align: as for request_align(); 0 for a shareable block
 * @handle: the stream that the block is to belong to. Where it cannot be recorded, because of a capture, the block
 *	belongs to none, and is no graph's
 * @flags: VPMM_ZERO: the caller is going to clear the memory, which takes a stream that can be recorded; VPMM_SHAREABLE
 *
 * Clears the memory if the settings say so, and waits for that.
 *
 * Return: 0, or as vpmm_malloc_flags() for VPMM_IDLE.
 */
int idle_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct CUstream_st *handle,
		unsigned int flags);

#endif /* CALLS_IDLE_H */
