/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vpmm_realloc(). */
#ifndef REALLOC_H
#define REALLOC_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct vpmm_pool;

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

#endif /* REALLOC_H */
