/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The driver's allocators as the program of a trace called them: each request goes to the one that served it. */
#ifndef RUN_OWN_H
#define RUN_OWN_H

#include "device.h"
#include "trace.h"

/**
 * own_create() - an allocator for one pass of a trace
 * @dev: whose allocators these are
 * @trace: whose idle allocations are those of cudaMalloc(), and the others those of cudaMallocAsync()
 * @allocator: receives it
 *
 * Return: 0, or a negative errno value explained by fail_set().
 */
int own_create(struct device *dev, const struct trace *trace, struct allocator **allocator);

#endif /* RUN_OWN_H */
