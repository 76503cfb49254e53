/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a device has reserved in all: the library's memory, and that of pools with an allocator of their own. */
#ifndef TORCH_RESERVED_H
#define TORCH_RESERVED_H

#include <stdint.h>

#include "vpmm/torch_class.h"

/**
 * reserved_stats() - the statistics of a device, as PyTorch shows them
 * @ordinal: one of DEVICES
 * @stats: receives them
 *
 * Return: 0, or an error of vpmm_pool_stats().
 */
int reserved_stats(int ordinal, struct torch_stats *stats);

/**
 * reserved_note() - raise the peak to what is reserved now
 * @ordinal: one of DEVICES
 * @more: bytes that an allocator has given, and no pool has yet
 *
 * Before such memory comes or goes: the library has the peak of its own memory, but not of the sum.
 *
 * Context: without the lock of the pools.
 */
void reserved_note(int ordinal, uint64_t more);

/* Lets the sums and the peak begin anew. */
void reserved_reset_sums(int ordinal);
void reserved_reset_peak(int ordinal);

#endif /* TORCH_RESERVED_H */
