/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mallocs that no cache serves, and reallocs. */
#ifndef MALLOC_H
#define MALLOC_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct stream;
struct vpmm_pool;

/**
 * pool_malloc() - allocate
 * @pool: the pool, its backend entered
 * @addr: receives the address
 * @size: bytes, not 0
 * @align: as for request_align()
 * @handle: the stream
 * @id: its id, if it was looked up already, so that it is not under capture; otherwise CACHE_NOBODY
 *
 * A function of its own, as tests/tune/instructions.py counts the instructions of its calls.
 *
 * Return: 0, or as vpmm_malloc().
 */
__attribute__((noinline))
int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct CUstream_st *handle,
		uint64_t id);

/**
 * malloc_on_stream() - the same for a stream that is known and not under capture
 * @pool: the pool, its backend entered
 * @addr: receives the address
 * @size: bytes, not 0
 * @align: as for request_align()
 * @stream: the stream, after enter_stream()
 * @handle: a handle of it
 *
 * Return: 0, or as vpmm_malloc().
 */
int malloc_on_stream(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct stream *stream,
		     struct CUstream_st *handle);

/**
 * pool_realloc() - change the size of an allocation
 * @pool: the pool, its backend entered
 * @addr: its address; receives the new one
 * @size: the new size in bytes, not 0
 * @handle: the stream
 *
 * Return: 0, or as vpmm_realloc(); nothing has changed then.
 */
int pool_realloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle);

#endif /* MALLOC_H */
