/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Clearing memory before it is handed out: all of it, or what the stream has not itself had last, see pending/owner.h.
 *
 * A clear is work of the library, which the program knows nothing of, so the program need not come after it: any stream
 * may free what nobody has used. The pool therefore marks each clear, and whoever has the memory next comes after it.
 */
#ifndef CLEAR_H
#define CLEAR_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct region;
struct stream;
struct vpmm_pool;

/**
 * scrub_clear() - clear memory in the order of a stream, and count it
 * @pool: the pool, its backend entered; its lock need not be held
 * @addr: the address
 * @size: bytes
 * @handle: the stream
 *
 * Return: 0, or what the backend's clear returns.
 */
int scrub_clear(struct vpmm_pool *pool, uint64_t addr, size_t size, struct CUstream_st *handle);

/**
 * scrub_malloc() - clear what was just allocated, if the settings say so
 * @pool: the pool, its backend entered
 * @addr: the address
 * @stream: the stream that it was allocated for, which comes after whoever had it
 * @handle: a handle of it
 *
 * Return: 0, or what the backend's clear, event_create and event_record return; it is not allocated any more then.
 */
int scrub_malloc(struct vpmm_pool *pool, uint64_t addr, struct stream *stream, struct CUstream_st *handle);

/**
 * scrub_mark() - mark a clear, so that whoever has the memory next comes after it
 * @region: the region, just allocated
 * @handle: a handle of its stream
 *
 * Return: 0, or what the backend's event_create and event_record return.
 */
int scrub_mark(struct region *region, struct CUstream_st *handle);

/**
 * scrub_set_aside() - free what was just allocated, where a clear may be pending that has no mark
 * @pool: the pool
 * @region: the region; nobody has it before its stream is known to be past the clear
 */
void scrub_set_aside(struct vpmm_pool *pool, struct region *region);

#endif /* CLEAR_H */
