/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams that are about to be destroyed. */
#ifndef RETIRE_H
#define RETIRE_H

struct CUstream_st;
struct stream;
struct vpmm_pool;

/**
 * retire_stream() - a stream is about to be destroyed
 * @pool: the pool, its backend entered
 * @handle: the stream
 *
 * Return: 0, or as vpmm_stream_retire().
 */
int retire_stream(struct vpmm_pool *pool, struct CUstream_st *handle);

#endif /* RETIRE_H */
