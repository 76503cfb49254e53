/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the slow path notes of a call in the trace of VPMM_TRACE; core/cache-hot.c has the rest. */
#ifndef NOTE_H
#define NOTE_H

#include <glib.h>

#include "calls/pool.h"
#include "trace/record.h"

/**
 * note_call() - record a call
 * @pool: the pool, which has a recorder; its backend is entered
 * @record: the call, without the pool and the stream
 * @handle: the stream
 */
void note_call(struct vpmm_pool *pool, struct record record, struct CUstream_st *handle) __attribute__((cold));

/* Before the memory of a free is available to others: under core.lock. */
#define note(pool, handle, ...) \
	do { \
		if (G_UNLIKELY((pool)->core.recorder)) \
			note_call(pool, (struct record){ __VA_ARGS__ }, handle); \
	} while (0)

/**
 * note_begin() - record a pool from now on
 * @pool: the pool, just made
 * @name: of the file; NULL: do not
 *
 * Return: 0, or as recorder_join().
 */
int note_begin(struct vpmm_pool *pool, const char *name);

/**
 * note_end() - record no more of it, and log what went wrong
 * @pool: the pool, which nobody uses any more
 */
void note_end(struct vpmm_pool *pool);

/**
 * note_news() - log that a trace has ended before its time, once
 * @pool: the pool, which has a recorder; its lock is not held
 */
void note_news(struct vpmm_pool *pool);

#endif /* NOTE_H */
