/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Clearing memory before it is handed out: all of it, or what the stream has not itself had last.
 *
 * Who had a byte last is kept with the memory, not with its address, which may change while it is free, nor with its
 * region, which becomes one with others. A stream has had what it freed and was allocated by it; nobody has had what is
 * new from the device, what two streams had a part in, or what was freed in any other way than these. What its cache
 * gives a stream was its own all the time. All of it but scrub_zero() and scrub_drop() is under the lock of the pool.
 *
 * A clear is work of the library, which the program knows nothing of, so the program need not come after it: any stream
 * may free what nobody has used. The pool therefore marks each clear, and whoever has the memory next comes after it.
 */
#ifndef SCRUB_H
#define SCRUB_H

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
 * scrub_zero() - clear what was just allocated, for VPMM_ZERO
 * @pool: the pool, its backend entered, its lock not held
 * @addr: the address, which nobody but the caller knows
 * @size: bytes
 * @handle: the stream that it was allocated for
 *
 * Return: 0, or what the backend's clear, event_create and event_record return; it is not allocated any more then.
 */
int scrub_zero(struct vpmm_pool *pool, uint64_t addr, size_t size, struct CUstream_st *handle);

/**
 * scrub_drop() - free what was just allocated, and cannot be cleared, without the driver
 * @pool: the pool, its lock not held; its backend need not be entered
 * @addr: the address, which nobody but the caller knows
 *
 * What the driver's allocator has served stays until the pool is destroyed.
 */
void scrub_drop(struct vpmm_pool *pool, uint64_t addr);

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

#endif /* SCRUB_H */
