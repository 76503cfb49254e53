/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the plug-in's hooks and the class have in common. No call throws. */
#ifndef TORCH_ALLOC_H
#define TORCH_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

struct device;

/* Why a device's memory cannot be had, other than by what the library says. */
#define NOT_CURRENT "the device's primary context cannot be made current"

/*
 * Asks the program for memory before a request fails. @given: true at first, then whether the program gave any back. It
 * is asked no more once it gave none. Returns whether the request is to be tried again: after each call, as calls of
 * the program may have changed vpmm_last_error().
 */
bool alloc_ask(int device, size_t size, bool *given);

/* Limits the pool of a device, which is current, to a part of its memory. That of VPMM_LIMIT holds as well. */
int alloc_set_limit(struct device *device, double fraction);

#endif /* TORCH_ALLOC_H */
