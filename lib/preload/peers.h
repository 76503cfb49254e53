/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which devices can access the memory of which. */
#ifndef PRELOAD_PEERS_H
#define PRELOAD_PEERS_H

#include "preload/hooks.h"

/**
 * peers_forget() - a device's context is gone, and all access with it
 * @device: the device
 *
 * Context: any thread.
 */
void peers_forget(int device);

/**
 * peers_leave() - a context is about to be destroyed, and takes along what it can access
 * @context: the context
 *
 * Context: any thread.
 */
void peers_leave(drv_context context);

#endif /* PRELOAD_PEERS_H */
