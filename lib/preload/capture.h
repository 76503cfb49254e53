/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The captures of the process: when they end without its word. */
#ifndef PRELOAD_CAPTURE_H
#define PRELOAD_CAPTURE_H

#include "preload/hooks.h"

/**
 * capture_forget() - a stream has been destroyed, or its capture has ended
 * @stream: the stream, which may have been under none
 *
 * Context: any thread.
 */
void capture_forget(drv_stream stream);

/**
 * capture_forget_all() - a context is gone, and its streams with it
 * @context: the context
 *
 * Context: any thread.
 */
void capture_forget_all(drv_context context);

#endif /* PRELOAD_CAPTURE_H */
