/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the object itself has done for calls that name no stream. */
#ifndef PRELOAD_OWN_H
#define PRELOAD_OWN_H

#include <stdbool.h>

#include "preload/driver.h"
#include "vpmm.h"

/**
 * own_stream() - the object's own stream of a device
 * @device: whose primary context is current
 *
 * The program does not know it, so it is never under capture, and no capture suffers from work on it. The legacy
 * default stream is no substitute: whatever is recorded there invalidates captures of blocking streams.
 *
 * Context: any thread.
 * Return: NULL if the driver does not create one.
 */
drv_stream own_stream(int device);

/**
 * own_forget() - forget the stream of a device, whose primary context is about to go
 * @device: the device
 * @current: whether that context is current; otherwise the stream goes with it, without a driver call
 *
 * Context: any thread.
 */
void own_forget(int device, bool current);

/**
 * free_on() - free a block in the order of a stream
 * @base: where the block begins, or any other address
 * @stream: the stream; VPMM_STREAM_ANY: behind all work of its context
 *
 * Context: any thread.
 * Return: 0; CUDA_ERROR_OUT_OF_MEMORY if the driver has no memory for an event; CUDA_ERROR_INVALID_VALUE if no block
 * begins there, or another process's, or the stream is none; CUDA_ERROR_UNKNOWN if the driver's call has failed.
 */
drv_result free_on(void *base, drv_stream stream);

/**
 * free_without_stream() - free a block behind all work of its context
 * @block: the block
 *
 * Does not wait, unless a capture is running: that the record of such an event would invalidate, whenever it began, so
 * the host waits for the device instead.
 *
 * Context: any thread; captures_hold_off() is not in effect on it.
 * Return: what cuMemFree() answers: CUDA_ERROR_INVALID_VALUE if it was freed before, CUDA_ERROR_OUT_OF_MEMORY if the
 * driver has no memory for an event or for a wait, or an error of earlier work.
 */
drv_result free_without_stream(const struct vpmm_allocation *block);

#endif /* PRELOAD_OWN_H */
