/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every call on behalf of a stream does first. */
#ifndef ENTER_H
#define ENTER_H

struct CUstream_st;
struct stream;
struct vpmm_pool;

/**
 * enter_stream() - a stream has called, and the maps are about to change
 * @pool: the pool, its backend entered
 * @stream: the stream
 * @handle: a handle of it
 *
 * What the caches did since the last such call is the past then.
 */
void enter_stream(struct vpmm_pool *pool, struct stream *stream, struct CUstream_st *handle);

#endif /* ENTER_H */
