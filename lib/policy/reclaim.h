/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is done before a request fails for want of memory, mappings or addresses: first what costs no wait, then, if it
 * can help, the wait for all that is pending. The request is tried again after each.
 */
#ifndef RECLAIM_H
#define RECLAIM_H

#include <stddef.h>

struct CUstream_st;
struct stream;
struct vpmm_pool;

/**
 * pressure_release() - let go of all that is not in use, without waiting
 * @pool: the pool; its lock is held, its backend entered
 *
 * Caches are flushed, old places unmapped, and pages of small requests given back where nothing is in them.
 *
 * Return: 0, or an error of the backend.
 */
int pressure_release(struct vpmm_pool *pool);

/**
 * pressure_meet() - the same, and let a stream have what is held for others, by coming after those
 * @pool: the pool; its lock is held, its backend entered
 * @size: bytes that are wanted
 * @stream: the stream
 * @handle: a handle of it
 *
 * Return: 0; -ENOMEM, with the sentence as it was, where all of it is too little; or an error of the backend.
 */
int pressure_meet(struct vpmm_pool *pool, size_t size, struct stream *stream, struct CUstream_st *handle);

/**
 * pressure_wait() - the same, once all that was freed so far is free
 * @pool: the pool; its lock is held, its backend entered
 * @size: bytes that are wanted
 * @stream: the stream that wants them
 * @handle: a handle of it
 *
 * Return: 0; -ENOMEM, with the sentence as it was, where nothing is pending or it is too little; or an error of the
 *	backend.
 */
int pressure_wait(struct vpmm_pool *pool, size_t size, const struct stream *stream, struct CUstream_st *handle);

/* How often a request is tried again: after the one, and after the other. */
#define PRESSURE_ROUNDS 2

/**
 * pressure_relieve() - what is to be done before a request is tried again
 * @pool: the pool; its lock is held, its backend entered
 * @size: bytes that are wanted
 * @stream: the stream that wants them
 * @handle: a handle of it
 * @round: from 0 up to PRESSURE_ROUNDS
 *
 * Return: as pressure_meet() and pressure_wait().
 */
static inline int pressure_relieve(struct vpmm_pool *pool, size_t size, struct stream *stream,
				   struct CUstream_st *handle, int round)
{
	return round ? pressure_wait(pool, size, stream, handle) : pressure_meet(pool, size, stream, handle);
}

#endif /* RECLAIM_H */
