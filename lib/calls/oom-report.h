/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sentence for a request that fails for want of memory. */
#ifndef OOM_REPORT_H
#define OOM_REPORT_H

#include <stddef.h>

struct CUstream_st;
struct vpmm_pool;

/**
 * explain_exhausted() - say what the pool has, who has the rest, and what could be had
 * @pool: the pool, its backend entered
 * @size: bytes that were wanted
 * @handle: the stream
 *
 * The sentence so far says which of device memory, limit, address space and mappings ran out, and stays in it.
 *
 * Return: -ENOMEM.
 */
int explain_exhausted(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle);

#endif /* OOM_REPORT_H */
