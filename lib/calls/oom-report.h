/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The text of -ENOMEM. */
#ifndef OOM_REPORT_H
#define OOM_REPORT_H

#include <stdbool.h>
#include <stddef.h>

struct CUstream_st;
struct vpmm_pool;

/**
 * explain_exhausted() - add to the error what the pool has, what others have, and what would help
 * @pool: the pool, its backend entered
 * @size: bytes of the request
 * @handle: the stream
 * @chosen: the caller chose the size, and can ask for less
 *
 * The error's text so far says which of device memory, limit, address space and mappings ran out. It stays.
 *
 * Return: -ENOMEM.
 */
int explain_exhausted(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle, bool chosen);

/**
 * is_exhausted_elsewhere() - whether what others have is the reason for the error at hand
 *
 * Return: whether device memory or a budget ran out, by the error's text.
 */
bool is_exhausted_elsewhere(void);

#endif /* OOM_REPORT_H */
