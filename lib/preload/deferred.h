/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks that the program has freed beside a capture. */
#ifndef PRELOAD_DEFERRED_H
#define PRELOAD_DEFERRED_H

#include <stdbool.h>

#include "preload/driver.h"
#include "vpmm.h"

/**
 * free_without_stream() - free a block behind all work of its context, without a wait
 * @block: the block
 *
 * That takes an event that would invalidate a capture; beside one, the block is kept until none is running.
 *
 * Context: any thread; capture_hold_off() is not in effect on it.
 * Return: what cuMemFree() answers: CUDA_ERROR_INVALID_VALUE if it was freed before, CUDA_ERROR_OUT_OF_MEMORY if
 * there is no memory for the note.
 */
drv_result free_without_stream(const struct vpmm_allocation *block);

/**
 * deferred_has() - whether a block is kept
 * @base: where it begins
 *
 * Context: any thread.
 */
bool deferred_has(const void *base);

/**
 * deferred_release() - free all that was kept, unless a capture is running
 *
 * Context: any thread; capture_hold_off() is not in effect on it.
 */
void deferred_release(void);

/**
 * deferred_forget() - forget what was kept of a device, whose pool ends
 *
 * Context: any thread.
 */
void deferred_forget(int device);

#endif /* PRELOAD_DEFERRED_H */
