/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether the process captures streams. */
#ifndef PRELOAD_CAPTURE_H
#define PRELOAD_CAPTURE_H

#include <stdbool.h>

#include "preload/hooks.h"

/**
 * capture_is_running() - whether any stream of the process is under capture
 *
 * The driver has no such question.
 *
 * Context: any thread.
 */
bool capture_is_running(void);

/**
 * capture_forget() - a stream has been destroyed, or its capture has ended
 * @stream: the stream, which may have been under none
 *
 * Context: any thread.
 */
void capture_forget(drv_stream stream);

/**
 * capture_forget_all() - the primary context of a device is gone, and its streams with it
 * @device: its ordinal
 *
 * Context: any thread.
 */
void capture_forget_all(int device);

#endif /* PRELOAD_CAPTURE_H */
