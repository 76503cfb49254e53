/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the plug-in's hooks and the class have in common. No call throws. */
#ifndef TORCH_ALLOC_H
#define TORCH_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

struct device;

/* Why a device's memory cannot be had, other than by what the library says. */
#define NOT_CURRENT "the device's primary context cannot be made current"

/* Whether there is a function of the program's that a request asks before it fails. */
bool alloc_can_ask(void);

/* Asks it for memory, unless it is being asked: whether it has given something back. */
bool alloc_ask(int device, size_t size);

/* Limits the pool of a device, which is current, to a part of its memory. That of VPMM_LIMIT holds as well. */
int alloc_set_limit(struct device *device, double fraction);

#endif /* TORCH_ALLOC_H */
