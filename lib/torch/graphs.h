/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * PyTorch's pools of graphs. Graphs that were captured with one pool share memory: to the library their captures are a
 * group. A graph's memory is the pool's until PyTorch has released that once for each time that it began to use it; it
 * does not tell which graph has gone.
 */
#ifndef TORCH_GRAPHS_H
#define TORCH_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

#include "torch/torch.h"

/* Allocations for a pool begin and end. In between a stream is captured, or none, as with torch.cuda.use_mem_pool(). */
void graphs_begin(int device, struct torch_pool_id id);
void graphs_end(int device, struct torch_pool_id id);

/* The pool is not used any more by one of those that began to. The last one retires its graphs. */
void graphs_release(int device, struct torch_pool_id id);

/* How many begins of this thread have no end yet. */
unsigned int graphs_begun_here(void);

/**
 * graphs_failed() - captures of this thread have failed, and no end and no release will be told
 * @left: how many begins of the thread stay
 *
 * The last begins are taken back, but not those of captures that are under way.
 */
void graphs_failed(unsigned int left);

/**
 * graphs_note() - a stream allocates, frees or uses memory
 * @device: that of the memory, which is current
 * @stream: the stream
 *
 * If it is captured, the capture becomes one of the pool that PyTorch has begun to use.
 */
void graphs_note(int device, struct CUstream_st *stream);

/**
 * graphs_retry() - retire what had to wait for a capture to end
 *
 * Return: whether there was any.
 */
bool graphs_retry(void);

/* How many pools and captures there are. */
void graphs_count(uint64_t *pools, uint64_t *captures);

#endif /* TORCH_GRAPHS_H */
