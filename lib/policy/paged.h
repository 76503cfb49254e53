/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a request is served in whole pages, as the specification has it. */
#ifndef PAGED_H
#define PAGED_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct stream;
struct vpmm_forecast;
struct vpmm_pool;

/**
 * paged_malloc() - allocate whole pages
 * @pool: the pool; its lock is held, its backend entered
 * @addr: receives the address
 * @size: bytes, a multiple of the page size
 * @stream: the stream
 * @handle: a handle of it
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int paged_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct stream *stream, struct CUstream_st *handle);

/**
 * paged_forecast() - what paged_malloc() would do now
 * @pool: the pool; its lock is held, its backend entered
 * @size: bytes, as there
 * @stream: the stream
 * @room: bytes that could be created
 * @forecast: receives the way and its price
 *
 * Return: 0, or an error of the backend.
 */
int paged_forecast(struct vpmm_pool *pool, size_t size, struct stream *stream, uint64_t room,
		   struct vpmm_forecast *forecast);

#endif /* PAGED_H */
