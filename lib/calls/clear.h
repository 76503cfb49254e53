/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Clears memory before it is handed out: all of it, or only what another stream owned last, see core/owner.h.
 *
 * The program does not know of such a clear, and may free an unused block on any stream. So the pool records an event
 * behind each clear, and the next use of the memory is ordered after it.
 */
#ifndef CLEAR_H
#define CLEAR_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct region;
struct small;
struct stream;
struct vpmm_pool;

/**
 * scrub_malloc() - clear a block that was just allocated, if the settings say so
 * @pool: the pool, its backend entered
 * @addr: the address
 * @stream: the stream that it was allocated for, which is ordered after the earlier uses
 * @handle: a handle of it
 *
 * Return: 0, or what the backend's clear, event_create and event_record return; the block is free again then.
 */
int scrub_malloc(struct vpmm_pool *pool, uint64_t addr, struct stream *stream, struct CUstream_st *handle);

/**
 * scrub_drop_shareable() - free a shareable block that was just allocated, if a clear may be pending
 * @pool: the pool, its backend entered
 * @small: the block; where the driver fails it is kept until the pool is destroyed
 */
void scrub_drop_shareable(struct vpmm_pool *pool, struct small *small);

#endif /* CLEAR_H */
