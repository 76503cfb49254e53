/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A wait for a device that no capture suffers from. */
#ifndef PRELOAD_WAIT_H
#define PRELOAD_WAIT_H

#include <stdbool.h>

#include "preload/hooks.h"

/**
 * wait_for_device() - wait until all work of a device's primary context is done
 * @device: its ordinal
 * @captured: receives whether a capture is running, and so nothing was waited for
 *
 * A capture that begins meanwhile stays valid. Before CUDA 12.5 the driver has nothing but a wait that would invalidate
 * it, if it began between the look for captures and that wait.
 *
 * Context: any thread; waits.
 * Return: the driver's answer, which may be an error of earlier work.
 */
drv_result wait_for_device(int device, bool *captured);

/**
 * wait_for_stream() - wait until all work of a stream is done
 * @stream: the stream, which is under no capture
 *
 * No capture of another stream suffers from that.
 *
 * Context: any thread; waits.
 * Return: the driver's answer, which may be an error of earlier work.
 */
drv_result wait_for_stream(drv_stream stream);

#endif /* PRELOAD_WAIT_H */
