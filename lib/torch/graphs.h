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
