/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the plug-in's hooks and the class have in common. No call throws. */
#ifndef TORCH_ALLOC_H
#define TORCH_ALLOC_H

#include <stddef.h>

struct CUstream_st;
struct device;

/* Why a device's memory cannot be had, other than by what the library says. */
#define NOT_CURRENT "the device's primary context cannot be made current"

/* Allocates ordinary memory of a device, which is current, once there is none; gives back and asks before it fails. */
int alloc_pressed(void **ptr, size_t size, int ordinal, struct CUstream_st *stream);

/* Limits the pool of a device, which is current, to a part of its memory. That of VPMM_LIMIT holds as well. */
int alloc_set_limit(struct device *device, double fraction);

#endif /* TORCH_ALLOC_H */
