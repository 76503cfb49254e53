/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frees, and those that have to wait. PyTorch takes every free for done. */
#ifndef TORCH_KEPT_H
#define TORCH_KEPT_H

#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;

/* The calling process is the one that uses the devices; its children will not. */
void kept_begin(void);

/* Whether the calling process is such a child. What it has inherited stays as it is, locks included. */
bool kept_in_child(void);

/**
 * kept_free() - free a block now, or later if it cannot be now
 * @ptr: the block
 * @stream: the stream; one that does not exist any more is as good as all
 *
 * Return: false if it is no block, which is counted as unknown.
 */
bool kept_free(void *ptr, struct CUstream_st *stream);

/**
 * kept_use() - a stream uses a block of another one
 * @ptr: the block
 * @stream: the stream
 *
 * Where that fails, such as for want of memory, the block is freed behind all work. What is no block is counted.
 */
void kept_use(void *ptr, struct CUstream_st *stream);

/**
 * kept_retry() - do the frees that wait, as far as they can be done now
 *
 * Costs nothing where there are none.
 */
void kept_retry(void);

/* Counts a free of an address that is no block. */
void kept_note_unknown(void);

/* How many wait; how many were of addresses that no pool has; and how many failed for good. */
uint64_t kept_count(void);
uint64_t kept_unknown(void);
uint64_t kept_lost(void);

#endif /* TORCH_KEPT_H */
