/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a request is served where allocations share pages and extents. */
#ifndef PACKED_H
#define PACKED_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct stream;
struct vpmm_pool;

/**
 * packed_malloc() - allocate as many bytes as are asked for
 * @pool: the pool; its lock is held, its backend entered
 * @addr: receives the address
 * @size: bytes, a multiple of POOL_PIECE
 * @stream: the stream
 * @handle: a handle of it
 *
 * What was decided in this state before comes first, then what fits best of what the stream can have without waiting,
 * then what it has to wait for; then a block is gathered. Small requests are served from spans.
 *
 * Return: 0, or an error of the backend; nothing has changed then but where free memory lies.
 */
int packed_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream,
		  struct CUstream_st *handle);

#endif /* PACKED_H */
