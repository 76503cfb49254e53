/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which devices can access the memory of which. */
#ifndef PRELOAD_PEERS_H
#define PRELOAD_PEERS_H

#include <stdint.h>

#include "preload/hooks.h"

/* By what a device was let in: each of these is taken back by itself. */
enum peers_by { PEERS_BY_CONTEXT, PEERS_BY_POOL, PEERS_BY };

/**
 * peers_change() - change who can access a device's memory
 * @device: the device
 * @by: how
 * @allow: devices that can, as bits
 * @deny: devices that no longer can by this
 *
 * Context: any thread; a primary context that the library serves is current.
 * Return: DRV_ERROR_PEER_ACCESS_UNSUPPORTED or DRV_ERROR_OUT_OF_MEMORY, and nothing has changed.
 */
drv_result peers_change(int device, enum peers_by by, uint64_t allow, uint64_t deny);

/**
 * peers_forget() - a device's context is gone, and all access with it
 * @device: the device
 *
 * Context: any thread.
 */
void peers_forget(int device);

#endif /* PRELOAD_PEERS_H */
