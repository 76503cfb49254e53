/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A wait for a device that no capture suffers from. */
#ifndef PRELOAD_WAIT_H
#define PRELOAD_WAIT_H

#include <stdbool.h>

#include "preload/driver.h"

/* In the other modes it would invalidate a capture that another thread has begun since in the global mode. */
#define RELAXED(name, ...) \
	({ \
		drv_capture_mode relaxed_mode = DRV_STREAM_CAPTURE_MODE_RELAXED; \
		drv_result relaxed_exchanged = FORWARD(cuThreadExchangeStreamCaptureMode, &relaxed_mode); \
		drv_result relaxed_result = FORWARD(name, __VA_ARGS__); \
		\
		if (!relaxed_exchanged) \
			FORWARD(cuThreadExchangeStreamCaptureMode, &relaxed_mode); \
		relaxed_result; \
	})

/**
 * wait_for_device() - wait until all work of a device's primary context is done
 * @device: its ordinal
 * @captured: receives whether a capture is running, and so nothing was waited for
 *
 * A capture that begins meanwhile stays valid.
 *
 * Context: any thread; waits.
 * Return: the driver's answer, which may be an error of earlier work.
 */
drv_result wait_for_device(int device, bool *captured);

/**
 * wait_beside_capture() - wait until all work of the current context is done
 *
 * No capture suffers from that, whether it is running or begins meanwhile.
 *
 * Context: any thread; waits.
 * Return: the driver's answer, which may be an error of earlier work.
 */
drv_result wait_beside_capture(void);

#endif /* PRELOAD_WAIT_H */
