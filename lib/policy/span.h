/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Slabs: pages for small requests only. Small blocks live longest, and each would pin an extent. */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;

/* Makes a new slab, which is free. Returns 0, or an error of the backend: then nothing has changed. */
int span_grow(struct core *core, uint64_t *addr);

/* The size that span_grow() would choose, whole pages. */
size_t span_growth(struct core *core);

/* Releases empty slabs while the pool holds more than @keep bytes. Returns 0, or what the backend's unmap returns. */
int span_trim(struct core *core, uint64_t keep);

/* The bytes that span_trim() would release. */
uint64_t span_unused(struct core *core);

#endif /* SPAN_H */
