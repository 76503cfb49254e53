/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The latest requests that no cache served, for VPMM_OOM_DUMP. */
#ifndef RECENT_REQUESTS_H
#define RECENT_REQUESTS_H

#include <glib.h>

#include "calls/pool.h"

/**
 * requests_note() - note a request
 * @pool: the pool, whose lock is held
 * @size: bytes
 * @stream: the stream
 * @addr: the block; 0: it failed
 */
void requests_note(struct vpmm_pool *pool, size_t size, const struct CUstream_st *stream, uint64_t addr);

/**
 * requests_write() - write them, the latest last
 * @pool: the pool, whose lock is held
 * @out: receives a line for each
 */
void requests_write(const struct vpmm_pool *pool, GString *out);

#endif /* RECENT_REQUESTS_H */
