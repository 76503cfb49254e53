/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The primary contexts that the program has. */
#ifndef PRELOAD_PRIMARY_H
#define PRELOAD_PRIMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/hooks.h"

/* Devices above are the driver's alone. */
#define DEVICES_KNOWN 64

/**
 * primary_device() - the device whose primary context is current
 * @device: receives its ordinal
 *
 * Context: any thread.
 * Return: false if none is current, or another kind of context.
 */
bool primary_device(int *device);

/**
 * primary_of() - the device that a context is the primary one of
 * @context: the context
 * @device: receives its ordinal
 *
 * Context: any thread.
 * Return: false if it is another kind of context, or the program has released it as often as it has retained it.
 */
bool primary_of(drv_context context, int *device);

/**
 * primary_only() - whether the program has retained the primary context of one device only, ever
 * @device: receives that device
 *
 * Context: any thread.
 */
bool primary_only(int *device);

/**
 * primary_context() - the primary context of a device, as the program has last retained it
 * @device: its ordinal
 *
 * Return: NULL if it never has.
 */
drv_context primary_context(int device);

/* Of no context by itself, but of whichever is current. */
static inline bool stream_is_default(drv_stream stream)
{
	return (uintptr_t)stream <= (uintptr_t)DRV_STREAM_PER_THREAD;
}

/* What a program means by a stream if it was compiled for a default stream of each thread. */
static inline drv_stream stream_per_thread(drv_stream stream)
{
	return stream ? stream : DRV_STREAM_PER_THREAD;
}

/**
 * stream_context() - the context that a stream is of
 * @stream: the stream; a default one is of the current context
 * @context: receives the context
 *
 * Context: any thread.
 * Return: what the driver says.
 */
drv_result stream_context(drv_stream stream, drv_context *context);

/**
 * primary_push() - make the primary context of a device current, until primary_pop()
 * @device: its ordinal
 *
 * Context: any thread.
 * Return: DRV_ERROR_INVALID_CONTEXT if the program never had it, or what the driver says.
 */
drv_result primary_push(int device);
void primary_pop(void);

/**
 * primary_retains() - how often the program retains the primary context of a device
 * @device: its ordinal
 */
int primary_retains(int device);

/**
 * primary_retained() - the program has retained the primary context of a device once more
 * @device: its ordinal
 * @context: the context
 */
void primary_retained(int device, drv_context context);

/**
 * primary_released() - the program is about to release it once
 * @device: its ordinal
 *
 * Where the driver refuses that, primary_release_failed() has to follow.
 *
 * After the last one the context is not served until primary_left(), even if another thread retains it meanwhile: the
 * memory that goes is not to be that thread's.
 *
 * Return: how often it was retained until now, so 1 for the last release.
 */
int primary_released(int device);
void primary_release_failed(int device);

/**
 * primary_left() - the last release is over
 * @device: its ordinal
 */
void primary_left(int device);

#endif /* PRELOAD_PRIMARY_H */
