/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The first steps of every slow-path call of a stream, and the last call of a stream. */
#ifndef ENTER_H
#define ENTER_H

struct CUstream_st;
struct stream;
struct vpmm_pool;

/**
 * enter_stream() - prepare the pool for a call of a stream that changes the maps
 * @pool: the pool, its backend entered
 * @stream: the stream
 * @handle: a handle of it
 *
 * Forgets idle streams, ends deferred frees that can end now, and counts the call in core.central.
 */
void enter_stream(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle);

/**
 * retire_stream() - a stream is about to be destroyed
 * @pool: the pool, its backend entered
 * @handle: the stream
 *
 * Return: 0, or as vpmm_stream_retire().
 */
int retire_stream(struct vpmm_pool *pool, struct CUstream_st *handle);

#endif /* ENTER_H */
