/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a request is served where allocations share pages and extents. */
#ifndef PACKED_H
#define PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct stream;
struct vpmm_forecast;
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

/**
 * packed_forecast() - what packed_malloc() would do now
 * @pool: the pool; its lock is held, its backend entered
 * @size: bytes, as there
 * @stream: the stream
 * @handle: a handle of it
 * @room: bytes that could be created
 * @forecast: receives the way and its price
 *
 * Return: 0, or an error of the backend.
 */
int packed_forecast(struct vpmm_pool *pool, size_t size, struct stream *stream, struct CUstream_st *handle,
		    uint64_t room, struct vpmm_forecast *forecast);

/**
 * packed_could() - whether packed_malloc() could serve a request, waiting for nobody on the host
 * @pool: the pool; its lock is held
 * @size: bytes, as there
 * @stream: the stream
 * @room: bytes that could be created
 */
bool packed_could(struct vpmm_pool *pool, size_t size, struct stream *stream, uint64_t room);

#endif /* PACKED_H */
