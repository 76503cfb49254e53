/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory that is in none of PyTorch's pools. */
#ifndef TORCH_ORDINARY_H
#define TORCH_ORDINARY_H

#include "torch/pools.h"

/**
 * ordinary_list() - add the memory of a device's pool that is no segment of one of PyTorch's pools
 * @pieces: the list
 * @device: ordinal
 *
 * Blocks are those that the program has at the moment of each look. What others have in the same pool is active, but
 * not allocated.
 *
 * Return: 0, -ENOMEM, or an error of vpmm_pool_dump().
 */
int ordinary_list(struct pieces *pieces, int device);

/**
 * ordinary_small() - how much of a device's ordinary memory counts as that of small blocks
 * @device: ordinal
 * @bytes: of all of it
 *
 * The library keeps small and large blocks in the same memory. So small blocks have what PyTorch's own allocator would
 * take for them at least, whole segments, as far as large blocks leave that, and large ones have the rest.
 */
int64_t ordinary_small(int device, int64_t bytes);

#endif /* TORCH_ORDINARY_H */
